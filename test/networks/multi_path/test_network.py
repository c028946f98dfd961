from dataclasses import replace

import numpy as np
import pytest
import torch

from deadline_perception.engines.cuda_graphs import CudaGraphs
from deadline_perception.extras.evaluation.path_accuracy import detect_on_paths
from deadline_perception.extras.faster_rcnn.network import FasterRcnn
from deadline_perception.extras.training.pyramid_features import pyramid_features
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


def test_redirected_frame_equals_one_planned_that_way_and_other_images_are_refused(tiny_network):
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
    with pytest.raises(ValueError, match='expected uint8'):
        tiny_network.detect(np.zeros((5, 5), np.uint8), wanted)


def test_paths_do_not_share_what_lies_in_shared_buffers(tiny_network):
    tiny_network.engine = CudaGraphs('cpu', lambda compute, buffers: compute)
    space = tiny_network.path_space
    with pytest.raises(ValueError, match='engine cuda_graphs reuses its buffers'):
        next(detect_on_paths(tiny_network, np.zeros((64, 96, 3), np.uint8), list(space)[:2]))
