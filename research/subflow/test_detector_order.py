from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from rankings import Ranking

from deadline_perception.engines.eager import as_tensors
from deadline_perception.networks.multi_path.checkpoint import build_detector
from deadline_perception.networks.multi_path.configuration import COMPACT
from detector_order import channel_orders, ordered_layers, reorder

FROZEN = replace(COMPACT, name='small', input_size=(64, 96), scales=(1.0,), stage_channels=(32, 64, 64, 96))
GROUPED = replace(FROZEN, norm='group', widths=(1.0, 0.5), stage_channels=(32, 32, 64, 64), stem_channels=32)
BOTTLENECK = replace(GROUPED, bottleneck=True, stem_pool=True, stage_channels=(64, 128, 128, 128))
IMAGES = np.random.default_rng(0).integers(0, 256, (2, 64, 96, 3), dtype=np.uint8)


def make(config, seed=0):
    """A detector whose norms differ from channel to channel and from width to width."""
    detector = build_detector(config, ('vehicle', 'bike'), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for entry in ordered_layers(detector):
            for tensor in () if entry.norm is None else (*entry.norm.parameters(), *entry.norm.buffers()):
                tensor.add_(0.3 * torch.rand(tensor.shape, generator=generator))
    return detector


@torch.inference_mode()
def outputs(detector, path):
    """What every segment with layers makes of an image, but features, whose channels may lie in another order."""
    values = {'pre': as_tensors((detector.preprocess(IMAGES[0], path),))}
    for number, segment in enumerate(detector.path_space.segments):
        if segment.name not in ('pre', 'post') and detector.path_space.key(number, path) is not None:
            values[detector.makes[segment.name]] = detector.compute(segment.name, path, values)
    return [tensor for name in ('rpn', 'proposals', 'head') for tensor in values[name]]


@pytest.mark.parametrize('config', [FROZEN, GROUPED, BOTTLENECK])
@pytest.mark.parametrize('ranking', [Ranking.OBS, Ranking.RANDOM])
def test_the_whole_network_finds_the_same_in_another_order(config, ranking):
    detector = make(config)
    space = detector.path_space
    paths = [space.largest.replace(head=head) for head in space.operator('head').settings]
    before = [outputs(detector, path) for path in paths]
    weights = [entry.layer.weight.detach().clone() for entry in ordered_layers(detector)]
    orders = channel_orders(detector, ranking, IMAGES)
    reorder(detector, orders)
    changed = [bool((entry.layer.weight != old).any()) for entry, old in zip(ordered_layers(detector), weights)]
    assert sum(changed) > 0.8 * len(changed)  # two groups of a norm may stay as they are
    for path, expected in zip(paths, before):
        for found, value in zip(outputs(detector, path), expected):
            torch.testing.assert_close(found, value, rtol=1e-3, atol=1e-3)
    assert all(torch.isfinite(value).all() for value in outputs(detector, space.smallest))
    for entry in ordered_layers(detector):
        if hasattr(entry.norm, 'group_channels'):  # groups of a norm stay together
            size = entry.norm.group_channels
            blocks = orders[entry.makes].view(-1, size)
            assert torch.equal(blocks, blocks[:, :1] + torch.arange(size)) and (blocks[:, 0] % size == 0).all()


def test_a_channel_that_is_always_zero_is_the_least_important_and_one_that_varies_most_is_not():
    detector = make(FROZEN)
    entry = next(entry for entry in ordered_layers(detector) if entry.makes == 'stage2.block0.0')
    with torch.no_grad():
        entry.norm.bias += 2.0  # no other channel is always zero
        entry.layer.weight[5] = 0.0
        entry.norm.bias[:, 5] = -1.0
        entry.layer.weight[7] *= 10.0
    assert channel_orders(detector, Ranking.OBS, IMAGES)['stage2.block0.0'][-1] == 5
    by_magnitude = channel_orders(detector, Ranking.MAGNITUDE)['stage2.block0.0']
    assert (by_magnitude[0], by_magnitude[-1]) == (7, 5)


def test_obs_without_images_is_refused():
    with pytest.raises(ValueError, match='images to calibrate with are empty'):
        channel_orders(make(FROZEN), Ranking.OBS)
