from dataclasses import replace

import numpy as np
import pytest
import torch

from deadline_perception.detector.configuration import COMPACT, CONFIGURATIONS
from deadline_perception.detector.heads import region_features
from deadline_perception.detector.network import MultiPathDetector
from deadline_perception.detector.operators import SlicedGroupNorm
from deadline_perception.execution_path import ExecutionPath

IMAGE = np.random.default_rng(0).integers(0, 256, (50, 80, 3), dtype=np.uint8)


def _outputs(network, path, images):
    with torch.no_grad():
        logits, deltas = network.rpn(network.features(images, path))
    return torch.cat(logits, 1), torch.cat(deltas, 1)


def test_skipping_equals_a_network_without_the_blocks(tiny_network, tiny_config):
    without = MultiPathDetector(replace(tiny_config, skip_groups=((), (2,), (2,), ())), ('vehicle', 'bike')).eval()
    names = {'backbone.skips.0': 'backbone.skips.1', 'backbone.skips.1': 'backbone.skips.3'}
    weights = tiny_network.state_dict()
    taken = {}
    for name in without.state_dict():
        source = name
        for new, old in names.items():
            if name.startswith(new):
                source = old + name[len(new):]
        taken[name] = weights[source]
    without.load_state_dict(taken)
    images = torch.randn(1, 3, 64, 96)
    mine = _outputs(tiny_network, ExecutionPath((True, False, True, False, True), 1.0, 20, 0), images)
    theirs = _outputs(without, without.path_space.largest, images)
    for one, other in zip(mine, theirs):
        torch.testing.assert_close(one, other)


def test_width_equals_a_network_built_that_narrow(tiny_network, tiny_config):
    narrow_config = replace(tiny_config, stem_channels=8, stage_channels=(8, 16, 16, 32), pyramid_channels=8,
                            widths=(1.0,), pyramid_widths=(1.0,))
    narrow = MultiPathDetector(narrow_config, ('vehicle', 'bike')).eval()
    row = {4: 2, 5: 1}
    taken = {}
    for name, wide in tiny_network.state_dict().items():
        shape = narrow.state_dict()[name].shape
        if wide.dim() == 2 and 'norm' in name:
            in_pyramid = name.startswith(('pyramid', 'heads'))
            wide = wide[1:2] if in_pyramid else wide[row[4]:row[4] + 1]
        taken[name] = wide[tuple(slice(0, size) for size in shape)]
    narrow.load_state_dict(taken)
    images = torch.randn(1, 3, 64, 96)
    path = ExecutionPath((False,) * 5, 0.5, 20, 2, 0.5)
    for one, other in zip(_outputs(tiny_network, path, images), _outputs(narrow, narrow.path_space.largest, images)):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    mine = tiny_network.detect(IMAGE, path)
    theirs = narrow.detect(IMAGE, replace(narrow.path_space.largest, proposals=20))
    np.testing.assert_allclose(mine.boxes_xyxy_px, theirs.boxes_xyxy_px, atol=1e-3)


@pytest.mark.parametrize('image', [np.zeros((0, 5, 3), np.uint8), np.zeros((5, 5), np.uint8),
                                   np.zeros((5, 5, 3), np.float32), np.zeros((5, 5, 4), np.uint8)])
def test_other_images_are_refused(tiny_network, image):
    with pytest.raises(ValueError, match='expected uint8'):
        tiny_network.detect(image, tiny_network.path_space.smallest)


def test_gradients_reach_one_head_and_nothing_skipped(tiny_network):
    path = ExecutionPath((False, True, False, False, True), 1.0, 20, 1)
    levels = tiny_network.features(torch.randn(1, 3, 64, 96), path)
    boxes = torch.tensor([[4.0, 4.0, 60.0, 50.0], [10.0, 2.0, 30.0, 40.0]])
    logits, deltas = tiny_network.heads(region_features(levels, boxes, torch.tensor([0, 1])), path)
    (logits.square().sum() + deltas.sum()).backward()
    reached = [any(p.grad is not None for p in subnet.parameters()) for subnet in tiny_network.heads.subnets]
    assert reached == [False, True, False]
    reached = [any(p.grad is not None for p in skip.parameters()) for skip in tiny_network.backbone.skips]
    assert reached == [True, False, True, True, False]
    assert all(p.grad is not None for p in tiny_network.backbone.stem.parameters())


def _permuted(weights, group, width):
    """The weights with other orders of channels that keep each norm group together: within every block, and of the
    features that pass through stage 2, with whatever reads or writes them."""
    def order(channels):
        groups = torch.randperm(channels // group)
        return torch.cat([start * group + torch.randperm(group) for start in groups])

    weights = {name: tensor.clone() for name, tensor in weights.items()}

    def permute(name, dimension, channels):
        weights[name] = weights[name].index_select(dimension, channels)

    blocks = {name.split('.convolutions')[0] for name in weights if name.startswith('backbone') and '.convolutions' in name}
    for block in sorted(blocks):
        inner = order(len(weights[f'{block}.convolutions.0.weight']))
        for name, dimension in (('convolutions.0.weight', 0), ('norms.0.weight', 1), ('norms.0.bias', 1),
                                ('convolutions.1.weight', 1)):
            permute(f'{block}.{name}', dimension, inner)
    stream = order(width)
    writers = ['backbone.first_blocks.1', 'backbone.skips.1.blocks.0', 'backbone.skips.1.blocks.1']
    for block in writers:
        permute(f'{block}.convolutions.1.weight', 0, stream)
        permute(f'{block}.norms.1.weight', 1, stream)
        permute(f'{block}.norms.1.bias', 1, stream)
    for name in ('shortcut.weight', 'shortcut_norm.weight', 'shortcut_norm.bias'):
        permute(f'backbone.first_blocks.1.{name}', int('norm' in name), stream)
    for reader in ('backbone.skips.1.blocks.0.convolutions.0', 'backbone.skips.1.blocks.1.convolutions.0',
                   'backbone.first_blocks.2.convolutions.0', 'backbone.first_blocks.2.shortcut', 'pyramid.laterals.1'):
        permute(f'{reader}.weight', 1, stream)
    return weights


def test_channels_may_change_places_with_their_norm_groups(tiny_network, tiny_config):
    """Order is what importance may decide later: it changes narrow paths alone."""
    for norm in tiny_network.modules():
        if isinstance(norm, SlicedGroupNorm):
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
            torch.nn.init.normal_(norm.bias)
    images = torch.randn(1, 3, 64, 96)
    full = tiny_network.path_space.largest
    narrow = replace(full, width=0.5)
    before = {path: _outputs(tiny_network, path, images) for path in (full, narrow)}
    weights = _permuted(tiny_network.state_dict(), tiny_config.norm_group_channels, tiny_config.stage_channels[1])
    assert any(not torch.equal(weights[name], tensor) for name, tensor in tiny_network.state_dict().items())
    tiny_network.load_state_dict(weights)
    for one, other in zip(before[full], _outputs(tiny_network, full, images)):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    assert (before[narrow][0] - _outputs(tiny_network, narrow, images)[0]).abs().max() > 1e-2


@pytest.mark.parametrize('config', [*CONFIGURATIONS.values(), replace(COMPACT, skip_groups=((), (1, 2), (), ()))],
                         ids=lambda config: config.name)
def test_operators_describe_the_path_space(config):
    with torch.device('meta'):
        network = MultiPathDetector(config, ('vehicle',))
    assert network.path_space == config.path_space
    assert all(skip.choices == (False, True) for skip in network.backbone.skips)
    choices = {norm.choices for norm in network.backbone.modules() if isinstance(norm, SlicedGroupNorm)}
    assert choices == {config.widths}, 'every layer of the backbone has the widths that a path may name'
    heads = [network.pyramid, network.heads]
    assert {norm.choices for part in heads for norm in part.modules()
            if isinstance(norm, SlicedGroupNorm)} == {config.pyramid_widths}


def test_hash_depends_on_shape_and_classes_alone(tiny_network, tiny_config):
    other = MultiPathDetector(tiny_config, ('a', 'b'))
    assert other.network_hash == tiny_network.network_hash
    assert MultiPathDetector(tiny_config, ('a',)).network_hash != tiny_network.network_hash
    assert MultiPathDetector(replace(tiny_config, proposals=(5,)), ('a', 'b')).network_hash != tiny_network.network_hash


def test_float16_gives_nearly_the_same_outputs(tiny_network):
    images = torch.randn(1, 3, 64, 96)
    path = tiny_network.path_space.largest
    full, full_hash = _outputs(tiny_network, path, images), tiny_network.network_hash
    tiny_network.use_float16()
    assert tiny_network.precision == torch.float16
    assert tiny_network.rpn.anchors(0).dtype == torch.float32
    assert tiny_network.network_hash != full_hash, 'times of one precision say nothing of the other'
    for one, other in zip(full, _outputs(tiny_network, path, images.half())):
        assert other.dtype == torch.float16
        torch.testing.assert_close(one, other.float(), atol=0.02, rtol=0.02)
    assert tiny_network.detect(IMAGE, path).boxes_xyxy_px.dtype == np.float32


@pytest.mark.skipif(not torch.cuda.is_available(), reason='no CUDA device')
def test_same_outputs_on_a_gpu(tiny_network):
    images = torch.randn(1, 3, 64, 96)
    path = tiny_network.path_space.largest
    here = _outputs(tiny_network, path, images)
    there = _outputs(tiny_network.cuda(), path, images.cuda())
    for one, other in zip(here, there):
        torch.testing.assert_close(one, other.cpu(), atol=2e-3, rtol=2e-3)
    regions = torch.randn(6, 49 * 16)
    with torch.no_grad():
        there = tiny_network.heads(regions.cuda(), path)
        for one, other in zip(tiny_network.cpu().heads(regions, path), there):
            torch.testing.assert_close(one, other.cpu(), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize('size', [(0, 64), (64, 40), (-32, 64)])
def test_training_sizes_that_do_not_fit_the_strides_are_refused(tiny_network, size):
    with pytest.raises(ValueError, match=r'training size is .* px, expected positive multiples of 32 px'):
        tiny_network.set_training_size(size)


def test_training_size_lays_out_anchors_and_limits_proposals(tiny_network):
    images = torch.randn(1, 3, 96, 160, generator=torch.Generator().manual_seed(0))
    tiny_network.set_training_size((96, 160))
    with torch.no_grad():
        logits, deltas = tiny_network.rpn(tiny_network.features(images, tiny_network.path_space.largest))
        boxes, _ = tiny_network.select_proposals(tiny_network.rpn, logits, deltas, 0, 60)
    assert [len(tiny_network.rpn.anchors(level)) for level in range(4)] == [level.shape[1] for level in logits]
    assert boxes[:, 2].max() > 96 and boxes[:, 2].max() <= 160 and boxes[:, 3].max() <= 96
