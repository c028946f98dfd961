from dataclasses import replace

import pytest
import torch

from deadline_perception.detector.configuration import COMPACT, CONFIGURATIONS, PAPER
from deadline_perception.detector.network import MultiPathDetector


def test_compact_has_every_operator():
    space = COMPACT.path_space
    assert space.skips == 5 and space.heads == 3 and len(space.widths) == 4 and len(space.proposals) == 6
    assert len(space.pyramid_widths) == 2 and len(space) == 4608


def test_paper_has_five_skips_and_the_depth_of_resnet_101():
    assert PAPER.path_space.skips == 5
    assert [kept + sum(groups) for kept, groups in zip(PAPER.kept_blocks, PAPER.skip_groups)] == [3, 4, 23, 3]


@pytest.mark.parametrize('name', CONFIGURATIONS)
def test_configurations_make_networks(name):
    with torch.device('meta'):
        network = MultiPathDetector(CONFIGURATIONS[name], ('vehicle',))
    assert sum(p.numel() for p in network.parameters()) > 1e6
    assert CONFIGURATIONS[name].name == name


@pytest.mark.parametrize('change, message', [
    ({'input_size': (380, 640)}, r'input_size is \(380, 640\) px, expected multiples of 32'),
    ({'stem_channels': 20}, '20 channels at width 1.0 are no multiple of 8'),
    ({'stage_channels': (64, 128)}, 'expected four stages'),
    ({'kept_blocks': (1, 0, 1, 1)}, 'kept_blocks is')])
def test_impossible_shapes_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(COMPACT, **change)
