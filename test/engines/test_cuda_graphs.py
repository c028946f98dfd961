"""Replays compute again from the tensors that were recorded, as a CUDA graph does from their addresses."""

import numpy as np
import pytest
import torch
from made_up_detector import redirected_run
from plain_images import noise

from deadline_perception.engines.cuda_graphs import CudaGraphs


class Recorder:
    """Counts recordings."""

    def __init__(self):
        self.recordings = 0

    def __call__(self, compute, buffers):
        self.recordings += 1

        def replay():
            for buffer, value in zip(buffers, compute()):
                buffer.copy_(value)

        return replay


def _images(count):
    return [noise(50, 80, seed) for seed in range(count)]


@torch.inference_mode()
def _spoil(graphs):
    for buffers in graphs._buffers.values():
        for buffer in buffers:
            buffer.fill_(torch.nan if buffer.is_floating_point() else torch.iinfo(buffer.dtype).max)


def _assert_same(one, other):
    for name in ('boxes_xyxy_px', 'scores', 'labels'):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.fixture()
def certain_network(tiny_network):
    """Finds something in every image: random weights alone are too uncertain of all."""
    with torch.no_grad():
        for head in tiny_network.heads.subnets:
            head.classes.weight.normal_(std=0.5)
            head.deltas.weight.normal_(std=0.1)
    return tiny_network.eval()


def _runs(network, images):
    """Frames redirected over and over; those of one number are redirected alike."""
    return [redirected_run(network, image, number) for number, image in enumerate(images)]


def test_replayed_frames_equal_computed_ones_over_redirections(certain_network):
    images = _images(8)
    expected = _runs(certain_network, images)
    certain_network.engine = CudaGraphs('cpu', Recorder())
    found = 0
    for number, image in enumerate(images):
        _spoil(certain_network.engine)  # a frame must read nothing that it did not write
        run = redirected_run(certain_network, image, number)
        assert run.path == expected[number].path
        _assert_same(run.result(), expected[number].result())
        found += len(run.result())
    assert found > 8
    assert certain_network.engine.notice == ''


def test_what_cannot_be_recorded_is_computed(certain_network):
    expected = _runs(certain_network, _images(4))

    class Fails(Recorder):
        def __call__(self, compute, buffers):
            if self.recordings % 2:
                self.recordings += 1
                raise RuntimeError('operation not permitted when stream is capturing\nmore')
            return super().__call__(compute, buffers)

    certain_network.engine = CudaGraphs('cpu', Fails())
    for number, image in enumerate(_images(4)):
        found = redirected_run(certain_network, image, number).result()
        _assert_same(found, expected[number].result())
    graphs = certain_network.engine
    assert len(graphs)
    assert set(graphs.failures.values()) == {'operation not permitted when stream is capturing'}
    failed = len(graphs.failures)
    assert graphs.notice.startswith(f'{failed} of {len(graphs) + failed} segments run')


def test_a_replay_that_gives_other_values_is_not_used(certain_network):
    image = _images(1)[0]
    path = certain_network.path_space.largest
    expected = certain_network.detect(image, path)

    def spoil(compute, buffers):
        return lambda: buffers[0].add_(1.0)

    certain_network.engine = CudaGraphs('cpu', spoil)
    for _ in range(2):
        _assert_same(certain_network.detect(image, path), expected)
    assert not len(certain_network.engine)
    assert set(certain_network.engine.failures.values()) == {'its replay gives other values'}


def test_frame_whose_buffers_another_one_uses_is_refused(tiny_network):
    image = _images(1)[0]
    tiny_network.engine = CudaGraphs('cpu', Recorder())
    first = tiny_network.start(image, tiny_network.path_space.largest)
    first.run_segment()
    second = tiny_network.start(image, tiny_network.path_space.smallest)
    with pytest.raises(ValueError, match='another frame has begun'):
        first.run_segment()
    second.run_segment()
    tiny_network.eval()
    with pytest.raises(ValueError, match='weights have moved'):
        second.run_segment()


@pytest.mark.skipif(not torch.cuda.is_available(), reason='no CUDA device')
@pytest.mark.parametrize('half', [False, True])
def test_captured_frames_equal_computed_ones_on_a_gpu(certain_network, half):
    network = certain_network.cuda()
    if half:
        network.use_float16()
    images = _images(40)
    expected = _runs(network, images)
    network.use_graphs()
    for _ in range(2):
        for number, image in enumerate(images):
            found, right = (
                redirected_run(network, image, number).result(),
                expected[number].result(),
            )
            assert len(found) == len(right)
            np.testing.assert_allclose(found.boxes_xyxy_px, right.boxes_xyxy_px, atol=0.1)
    assert not network.engine.failures
    assert len(network.engine) > 20
