import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from plain_images import noise

from deadline_perception.extras.training.pyramid_features import pyramid_features
from deadline_perception.networks.multi_path.configuration import read_shape
from deadline_perception.networks.multi_path.dense.backbone import DensePyramid
from deadline_perception.networks.multi_path.dense.configuration import (
    PYRAMID_STAGES,
    STAGE_CHANNELS,
    STREET,
)
from deadline_perception.networks.multi_path.dense.network import DenseDetector
from deadline_perception.networks.multi_path.dense.outline import anchor_levels

IMAGE = noise(90, 150)
SMALL = replace(STREET, name='small', input_size=(96, 160), scales=(1.0, 0.41), proposals=(5, 20))


@pytest.fixture(scope='module')
def network():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = DenseDetector(SMALL, ('vehicle', 'person')).eval()
    with torch.no_grad():  # so that random weights find something
        network.rpn.class_output.bias.fill_(2.0)
    return network


@pytest.mark.parametrize(
    'change, message',
    [
        ({'name': 'a b'}, 'configuration.name is'),
        ({'input_size': (100, 160)}, 'input_size is'),
        ({'skip_groups': ((1,),) * 6}, 'skip_groups is'),
        ({'skip_groups': ((), (2,), (3,), (2,), (2,), ())}, 'skip_groups is'),
        ({'kept_groups': (5,)}, 'kept_groups is'),
        ({'head_labels': ('0',)}, 'settings of head are called'),
        ({'widths': (1.0, 0.7)}, 'widths is'),
        ({'proposals': (5000,)}, 'proposals'),
        ({'scales': (1.0, 0.99)}, 'distinct sizes'),
        ({'pyramid_channels': 0}, 'pyramid_channels is 0'),
        ({'family': 'sparse'}, 'family is'),
        ({'heads': [{'convolutions': 10**6, 'fully_connected': [64]}]}, 'have 1000001 layers'),
    ],
)
def test_bad_configurations_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        read_shape(json.loads(SMALL.to_json()) | change)


def test_every_kind_of_path_gives_boxes_inside_the_image(network):
    space = network.path_space
    for path in (
        space.largest,
        space.smallest,
        space.largest.replace(head='0'),
        space.largest.replace(width=0.75),
        space.largest.replace(scale=0.41, proposals=5, head='1'),
    ):
        found = network.detect(IMAGE, path)
        assert len(found.scores) > 0
        assert (found.boxes_xyxy_px >= 0).all()
        assert (found.boxes_xyxy_px <= np.float32([150, 90, 150, 90]) + 1e-3).all()
        assert (np.diff(found.scores) <= 0).all() and found.scores.max() <= 1.0


def test_segments_and_training_compute_the_same_features(network):
    path = network.path_space.largest.replace(width=0.75, skip1='skip')
    run = network.start(IMAGE, path)
    while network.path_space.segments[run.segment].name != 'rpn':
        run.run_segment()
    pixels = torch.from_numpy(network.preprocess(IMAGE, path)).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        levels = pyramid_features(network, network.normalise(pixels), path)
    for mine, given in zip(levels, run._values['pyramid'], strict=True):
        torch.testing.assert_close(mine, given, atol=1e-4, rtol=1e-3)


def test_gradients_in_bfloat16_of_levels_one_position_wide_are_those_in_float32():
    """They held what lay in memory before, so that training on small windows diverged by chance."""
    torch.manual_seed(0)
    pyramid = DensePyramid(SMALL)
    sides = zip(PYRAMID_STAGES, (8, 4, 2))
    stages = [torch.randn(2, STAGE_CHANNELS[stage - 1], side, side) for stage, side in sides]
    found = []
    for is_half in (False, *[True] * 5):
        pyramid.zero_grad()
        unwritten = [torch.full((2**size,), torch.nan) for size in range(4, 18) for _ in range(10)]
        del unwritten
        with torch.autocast('cpu', torch.bfloat16, enabled=is_half):
            levels = pyramid(stages)
        assert [level.shape[2] for level in levels] == [8, 4, 2, 1, 1]
        sum(level.float().square().sum() for level in levels).backward()
        found.append(pyramid.coarser[1].weight.grad.clone())
    for half in found[1:]:
        assert (half - found[0]).norm() < 0.1 * found[0].norm()


def test_anchors_are_centred_on_whole_strides():
    finest = torch.from_numpy(anchor_levels((96, 160))[0])
    assert len(finest) == 12 * 20 * 3
    half = 64 / 2 / 0.5**0.5
    torch.testing.assert_close(finest[0], torch.tensor([-half, -half / 2, half, half / 2]))
    square = torch.tensor([-24.0, -32.0, 40.0, 32.0])  # one stride on
    torch.testing.assert_close(finest[4], square)
    coarsest = anchor_levels((96, 160))[-1]
    assert len(coarsest) == 1 * 2 * 3  # sides are rounded up
