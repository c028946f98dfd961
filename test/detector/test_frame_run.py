from dataclasses import replace

import numpy as np
import pytest
import torch

from deadline_perception.engine.cuda_graphs import CudaGraphs
from deadline_perception.detector.heads import region_features, decode_detections
from deadline_perception.detector.proposals import pyramid_levels
from deadline_perception.execution_path import ExecutionPath

IMAGE = np.random.default_rng(0).integers(0, 256, (50, 80, 3), dtype=np.uint8)


def test_every_path_runs_to_the_end(tiny_network):
    generator = np.random.default_rng(0)
    paths = list(tiny_network.path_space)
    for index in generator.choice(len(paths), 12, replace=False):
        run = tiny_network.start(IMAGE, paths[index])
        while not run.finished:
            run.run_segment()
        detections = run.detections()
        assert len(run.slot_ms) == len(tiny_network.path_space.slots)
        if len(detections):
            assert detections.boxes_xyxy_px[:, 2].max() <= 80.01 and detections.boxes_xyxy_px[:, 3].max() <= 50.01
            assert (np.diff(detections.scores) <= 1e-6).all()


@pytest.mark.parametrize('path', ['s00000-w1.00-p60-h2', 's10101-w0.50-f0.50-p20-h0'])
def test_frame_finds_what_the_parts_find_as_they_are_trained(tiny_network, path):
    """Features in one go, regions of a batch, several images' rows: what losses are made of."""
    path = ExecutionPath.parse(path)
    image = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    with torch.no_grad():
        pixels = torch.from_numpy(np.stack((image[::-1].copy(), image))).permute(0, 3, 1, 2).float()
        levels = tiny_network.features(tiny_network.normalise(pixels), path)
        logits, deltas = tiny_network.rpn(levels)
        boxes = torch.from_numpy(tiny_network.select_proposals.of_batch(tiny_network.rpn, logits, deltas,
                                                                        path.proposals)[1])
        features = region_features(levels, boxes, pyramid_levels(boxes, 4), torch.ones(len(boxes), dtype=torch.long))
        found, scores, _ = decode_detections(*tiny_network.heads.subnets[path.head](features), boxes, (64, 96))
    detections = tiny_network.detect(image, path)
    assert len(detections) > 5
    np.testing.assert_allclose(detections.scores, scores, atol=1e-5)
    np.testing.assert_allclose(np.sort(detections.boxes_xyxy_px, 0), found.sort(0).values, atol=1e-3)


def test_redirected_frame_equals_one_planned_that_way(tiny_network):
    space = tiny_network.path_space
    wanted = ExecutionPath((False, False, True, True, False), 1.0, 5, 1, 0.5)
    run = tiny_network.start(IMAGE, space.largest)
    while not run.finished:
        operator = space.slots[run.slot].operator
        if operator == 'skip2':
            run.redirect(ExecutionPath((False, False, True, False, False), 1.0, 60, 2))
        elif operator == 'skip3':
            run.redirect(wanted)
        run.run_segment()
    assert run.path == wanted
    planned = tiny_network.detect(IMAGE, wanted)
    np.testing.assert_allclose(run.detections().boxes_xyxy_px, planned.boxes_xyxy_px, atol=1e-4)


def test_forked_runs_do_not_disturb_each_other(tiny_network):
    image = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    full = tiny_network.path_space.largest
    other = replace(full, skip=(*full.skip[:-1], True), proposals=tiny_network.path_space.proposals[0])
    run = tiny_network.start(image, full)
    for _ in range(5):
        run.run_segment()
    branch = run.fork()
    branch.redirect(other)
    while not branch.finished:
        branch.run_segment()
    assert (run.path, run.slot, len(run.slot_ms)) == (full, 5, 5)
    while not run.finished:
        run.run_segment()
    for found, path in ((run, full), (branch, other)):
        expected = tiny_network.detect(image, path)
        assert np.array_equal(found.detections().boxes_xyxy_px, expected.boxes_xyxy_px)
        assert np.array_equal(found.detections().scores, expected.scores)


def test_runs_from_shared_buffers_do_not_fork(tiny_network):
    tiny_network.engine = CudaGraphs(lambda compute, buffers: compute)
    with pytest.raises(ValueError, match='engine cuda_graphs reuses its buffers'):
        tiny_network.start(np.zeros((64, 96, 3), np.uint8), tiny_network.path_space.largest).fork()


def test_proposals_lie_in_the_image_once_there_are_any(tiny_network):
    image = np.random.default_rng(0).integers(0, 256, (50, 90, 3), dtype=np.uint8)
    run = tiny_network.start(image, tiny_network.path_space.smallest)
    slots = [slot.name for slot in tiny_network.path_space.slots]
    while run.slot <= slots.index('proposals'):
        assert run.proposals().shape == (0, 4)
        run.run_segment()
    boxes = run.proposals()
    assert boxes.dtype == np.float32 and 0 < len(boxes) <= run.path.proposals
    assert (boxes >= 0).all() and (boxes <= np.array([90, 50, 90, 50]) + 1e-3).all()


def test_contradicting_redirection_is_refused(tiny_network):
    space = tiny_network.path_space
    run = tiny_network.start(IMAGE, space.largest)
    for _ in range(3):
        run.run_segment()
    with pytest.raises(ValueError, match='contradicts'):
        run.redirect(space.smallest)
    with pytest.raises(ValueError, match='expected it to have finished'):
        run.detections()


def test_foreign_path_is_refused(tiny_network):
    with pytest.raises(ValueError, match='is not one of'):
        tiny_network.start(IMAGE, ExecutionPath((False,), 1.0, 5, 0))
