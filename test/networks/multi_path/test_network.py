from dataclasses import replace

import numpy as np
import pytest
import torch

from deadline_perception.core.execution_path import SKIP
from deadline_perception.engines.cuda_graphs import CudaGraphs
from deadline_perception.engines.eager import as_arrays
from deadline_perception.extras.evaluation.path_accuracy import detect_on_paths, forked
from deadline_perception.extras.faster_rcnn.configuration import COMPACT, ORIN, PAPER
from deadline_perception.extras.faster_rcnn.network import FasterRcnn
from deadline_perception.extras.faster_rcnn.outline import STRIDES
from deadline_perception.extras.training.batch_proposals import proposals_of_batch
from deadline_perception.extras.training.pyramid_features import pyramid_features
from deadline_perception.networks.multi_path.heads import pyramid_levels, region_features
from deadline_perception.networks.multi_path.operators import SlicedFrozenNorm, SlicedNorm

IMAGE = np.random.default_rng(0).integers(0, 256, (50, 80, 3), dtype=np.uint8)


def _outputs(network, path, images):
    with torch.no_grad():
        logits, deltas = network.rpn(pyramid_features(network, images, path))
    return torch.cat(logits, 1), torch.cat(deltas, 1)


def _randomise_norms(network):
    """Gives every row of every norm numbers of its own."""
    for norm in network.modules():
        if isinstance(norm, SlicedNorm):
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
            torch.nn.init.normal_(norm.bias)
        if isinstance(norm, SlicedFrozenNorm):
            torch.nn.init.normal_(norm.mean)
            torch.nn.init.uniform_(norm.deviation, 0.5, 2.0)


def test_skipping_equals_a_network_without_the_blocks(tiny_network, tiny_config):
    config = replace(tiny_config, skip_groups=((), (2,), (2,), ()))
    without = FasterRcnn(config, ('vehicle', 'bike')).eval()
    weights = tiny_network.state_dict()
    source = {'backbone.skips.0': 'backbone.skips.1', 'backbone.skips.1': 'backbone.skips.3'}
    taken = {}
    for name in without.state_dict():
        part, rest = name[:16], name[16:]
        taken[name] = weights[source.get(part, part) + rest]
    without.load_state_dict(taken)
    images = torch.randn(1, 3, 64, 96)
    mine = _outputs(tiny_network, tiny_network.path_space.parse('s10101-w1.00-p20-h0'), images)
    theirs = _outputs(without, without.path_space.largest, images)
    for one, other in zip(mine, theirs):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize('norm', ['group', 'frozen'])
def test_width_equals_a_network_built_that_narrow(tiny_config, norm):
    tiny_config = replace(tiny_config, norm=norm)
    tiny_network = FasterRcnn(tiny_config, ('vehicle', 'bike')).eval()
    _randomise_norms(tiny_network)
    channels = {'stem_channels': 8, 'stage_channels': (8, 16, 16, 32), 'pyramid_channels': 8}
    narrow_config = replace(tiny_config, **channels, widths=(1.0,), pyramid_widths=(1.0,))
    narrow = FasterRcnn(narrow_config, ('vehicle', 'bike')).eval()
    taken = {}
    for name, wide in tiny_network.state_dict().items():
        shape = narrow.state_dict()[name].shape
        if wide.dim() == 2 and 'norm' in name:
            row = 1 if name.startswith(('pyramid', 'heads')) else 2
            wide = wide[row : row + 1]
        taken[name] = wide[tuple(slice(0, size) for size in shape)]
    narrow.load_state_dict(taken)
    images = torch.randn(1, 3, 64, 96)
    path = tiny_network.path_space.parse('s00000-w0.50-f0.50-p20-h2')
    wide_outputs = _outputs(tiny_network, path, images)
    for one, other in zip(wide_outputs, _outputs(narrow, narrow.path_space.largest, images)):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    mine = tiny_network.detect(IMAGE, path)
    theirs = narrow.detect(IMAGE, narrow.path_space.largest.replace(proposals=20))
    np.testing.assert_allclose(mine.boxes_xyxy_px, theirs.boxes_xyxy_px, atol=1e-3)


@pytest.mark.parametrize(
    'image',
    [np.zeros((0, 5, 3), np.uint8), np.zeros((5, 5, 3), np.float32), np.zeros((5, 5), np.uint8)],
)
def test_other_images_are_refused(tiny_network, image):
    with pytest.raises(ValueError, match='expected uint8'):
        tiny_network.detect(image, tiny_network.path_space.smallest)


def test_gradients_reach_one_head_and_nothing_skipped(tiny_network):
    path = tiny_network.path_space.parse('s01001-w1.00-p20-h1')
    levels = pyramid_features(tiny_network, torch.randn(1, 3, 64, 96), path)
    boxes = torch.tensor([[4.0, 4.0, 60.0, 50.0], [10.0, 2.0, 30.0, 40.0]])
    logits, deltas = tiny_network.head(1)(
        region_features(levels, boxes, torch.tensor([0, 1]), strides=STRIDES)
    )
    (logits.square().sum() + deltas.sum()).backward()

    def reached(parts):
        return [any(p.grad is not None for p in part.parameters()) for part in parts]

    assert reached(tiny_network.heads.subnets) == [False, True, False]
    assert reached(tiny_network.backbone.skips) == [True, False, True, True, False]
    assert all(p.grad is not None for p in tiny_network.backbone.stem.parameters())


@pytest.mark.parametrize(
    'config',
    [COMPACT, ORIN, PAPER, replace(COMPACT, skip_groups=((), (1, 2), (), ()))],
    ids=lambda config: config.name,
)
def test_operators_describe_the_path_space(config):
    with torch.device('meta'):
        network = FasterRcnn(config, ('vehicle',))
    assert network.path_space == config.path_space
    names = [skip.name for skip in network.backbone.skips]
    assert names == [skip.name for skip in config.path_space.of_kind(SKIP)]
    for part, widths in (
        (network.backbone, config.widths),
        (network.pyramid, config.pyramid_widths),
        (network.heads, config.pyramid_widths),
    ):
        for norm in part.modules():
            if isinstance(norm, SlicedNorm):
                assert list(norm.rows) == [round(norm.weight.shape[1] * width) for width in widths]


def test_float16_gives_nearly_the_same_outputs(tiny_network):
    images = torch.randn(1, 3, 64, 96)
    path = tiny_network.path_space.largest
    full, full_hash = _outputs(tiny_network, path, images), tiny_network.network_hash
    weights_hash = tiny_network.weights_hash
    tiny_network.use_float16()
    assert tiny_network.precision == torch.float16
    assert tiny_network.network_hash != full_hash, 'times of one precision say nothing of the other'
    assert tiny_network.weights_hash == weights_hash, 'and the table of qualities serves both'
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
        there = tiny_network.head(0)(regions.cuda())
        for one, other in zip(tiny_network.cpu().head(0)(regions), there):
            torch.testing.assert_close(one, other.cpu(), atol=2e-3, rtol=2e-3)


def test_scaled_path_finds_what_a_network_of_that_input_size_finds(tiny_network, tiny_config):
    """Boxes come back in px of the image, whose sides may be scaled by different factors."""
    small = replace(tiny_config, name='small', input_size=(64, 96), scales=(1.0,))
    path = tiny_network.path_space.largest.replace(scale=0.5)
    size, largest = tiny_network.input_size_on(path), tiny_network.path_space.largest
    assert size == (32, 64) and tiny_network.input_size_on(largest) == (64, 96)
    plain = FasterRcnn(small, ('vehicle', 'bike')).eval()
    plain.load_state_dict(tiny_network.state_dict())
    plain.input_size_on = lambda path: size
    found = tiny_network.detect(IMAGE, path)
    expected = plain.detect(IMAGE, plain.path_space.largest)
    assert len(found) > 5 and np.array_equal(found.boxes_xyxy_px, expected.boxes_xyxy_px)
    assert found.boxes_xyxy_px[:, 2].max() > 64 and found.boxes_xyxy_px[:, 3].max() > 32


def test_folded_norms_change_no_output(tiny_network):
    """A frame runs convolutions alone; apart, convolution and norm give the same."""
    _randomise_norms(tiny_network)
    path, images = tiny_network.path_space.largest.replace(width=0.75), torch.randn(1, 3, 64, 96)
    folded = _outputs(tiny_network, path, images)
    norms = [module for module in tiny_network.modules() if isinstance(module, SlicedFrozenNorm)]
    tiny_network.train()  # drops the folded weights
    for norm in norms:
        norm.folds = False
    for one, other in zip(folded, _outputs(tiny_network, path, images)):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize('path', ['s00000-w1.00-p60-h2', 's10101-w0.50-f0.50-p20-h0'])
def test_frame_finds_what_the_parts_find_as_they_are_trained(tiny_network, path):
    """Features in one go, regions of a batch, several images' rows: what losses are made of."""
    path = tiny_network.path_space.parse(path)
    image = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    with torch.no_grad():
        pixels = torch.from_numpy(np.stack((image[::-1].copy(), image))).permute(0, 3, 1, 2).float()
        levels = pyramid_features(tiny_network, tiny_network.normalise(pixels), path)
        logits, deltas = tiny_network.rpn(levels)
        select, count = tiny_network.select_proposals, path['proposals']
        chosen = proposals_of_batch(select, (logits, deltas), count, (64, 96))
        boxes = torch.from_numpy(chosen[1])
        places = pyramid_levels(boxes, 4, 4), torch.ones(len(boxes), dtype=torch.long)
        features = region_features(levels, boxes, *places, strides=STRIDES)
        head = tiny_network.head(int(path['head']))(features)
    values = {'head': as_arrays(head), 'proposals': as_arrays((boxes,))}
    found, scores, _ = tiny_network.post(path, values)
    detections = tiny_network.detect(image, path)
    assert len(detections) > 5
    np.testing.assert_allclose(detections.scores, scores, atol=1e-5)
    np.testing.assert_allclose(np.sort(detections.boxes_xyxy_px, 0), np.sort(found, 0), atol=1e-3)


def test_redirected_frame_equals_one_planned_that_way(tiny_network):
    space = tiny_network.path_space
    wanted = space.parse('s00110-w1.00-f0.50-p5-h1')
    run = tiny_network.start(IMAGE, space.largest)
    while not run.finished:
        operator = space.segments[run.segment].operator
        if operator == 'skip2':
            run.redirect(space.parse('s00100-w1.00-p60-h2'))
        elif operator == 'skip3':
            run.redirect(wanted)
        run.run_segment()
    assert run.path == wanted
    planned = tiny_network.detect(IMAGE, wanted)
    np.testing.assert_allclose(run.result().boxes_xyxy_px, planned.boxes_xyxy_px, atol=1e-4)


def test_forked_runs_do_not_disturb_each_other(tiny_network):
    image = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    full = tiny_network.path_space.largest
    other = full.replace(skip4='skip', proposals=5)
    run = tiny_network.start(image, full)
    for _ in range(5):
        run.run_segment()
    branch = forked(run)
    branch.redirect(other)
    branched = branch.finish()
    assert (run.path, run.segment) == (full, 5)
    for found, path in ((run.finish(), full), (branched, other)):
        expected = tiny_network.detect(image, path)
        assert np.array_equal(found.boxes_xyxy_px, expected.boxes_xyxy_px)
        assert np.array_equal(found.scores, expected.scores)


def test_paths_do_not_share_what_lies_in_shared_buffers(tiny_network):
    tiny_network.engine = CudaGraphs('cpu', lambda compute, buffers: compute)
    space = tiny_network.path_space
    with pytest.raises(ValueError, match='engine cuda_graphs reuses its buffers'):
        next(detect_on_paths(tiny_network, np.zeros((64, 96, 3), np.uint8), list(space)[:2]))
