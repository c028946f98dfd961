"""Paths are measured on annotated images, and the sample of paths covers every operator."""
from __future__ import annotations

import math

import numpy as np
import pytest

from deadline_perception.datasets.records import Frame, GroundTruth, Sequence
from deadline_perception.detector.detections import Detections
from deadline_perception.evaluation.path_accuracy import annotated_frames, measure_paths, relabelled, sample_paths
from deadline_perception.execution_path import PathSpace

SPACE = PathSpace((1, 1), (1.0, 0.5), (1.0, 0.5), (10, 100), 3)
BOX = [10, 10, 60, 60]


class Detector:
    """Finds the object of an image whose grey level says where it is; the smallest path finds nothing."""

    class_names = ('bike', 'vehicle')

    def detect(self, image_bgr, path):
        if path == SPACE.smallest:
            return Detections.none()
        return Detections([[value + image_bgr[0, 0, 0] for value in BOX]], [0.9], [1])


def annotated(count: int, names=('vehicle', 'bike')) -> Sequence:
    frames = [Frame(str(index), index, lambda shift=index: np.full((100, 100, 3), shift, np.uint8),
                    truth=None if index == 0 else GroundTruth([[value + index for value in BOX]], [0], [False]))
              for index in range(count)]
    return Sequence('made up', names, tuple(frames))


def test_measures_every_path_and_reports_progress():
    sequence, done = annotated(4), []
    results = measure_paths(Detector(), sequence, annotated_frames(sequence), [SPACE.largest, SPACE.smallest],
                            done.append)
    assert results[SPACE.largest][0].ap == pytest.approx(1.0)
    assert results[SPACE.largest][1] == pytest.approx(1.0)  # vehicles and lights alone
    assert results[SPACE.smallest][0].ap == 0.0
    assert results[SPACE.largest][0].images == 3
    assert done == [1, 2, 3, 4, 5, 6]


def test_labels_follow_the_network_s_names():
    truth = GroundTruth([BOX, BOX], [0, 1], [False, True])
    assert relabelled(truth, ('vehicle', 'bike'), ('bike', 'vehicle')).labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match="class 'tram' is not known to the network"):
        relabelled(truth, ('vehicle', 'tram'), ('bike', 'vehicle'))


def test_pooled_precision_is_nan_when_neither_vehicle_nor_light_occurs():
    frame = Frame('0', 0, lambda: np.zeros((100, 100, 3), np.uint8), truth=GroundTruth([BOX], [1], [False]))
    sequence = Sequence('bikes', ('vehicle', 'bike'), (frame,))
    assert math.isnan(measure_paths(Detector(), sequence, [frame], [SPACE.largest])[SPACE.largest][1])


def test_limit_spreads_the_images_evenly():
    assert [frame.name for frame in annotated_frames(annotated(11), 2)] == ['3', '8']
    assert len(annotated_frames(annotated(11), 100)) == 10
    with pytest.raises(ValueError, match='expected at least 1 image'):
        annotated_frames(annotated(3), 0)
    with pytest.raises(ValueError, match='has no ground truth'):
        annotated_frames(annotated(1))


def test_sample_shows_every_setting_of_every_operator_and_is_repeatable():
    paths = sample_paths(SPACE, 20)
    assert len(paths) == len(set(paths)) == 20 and all(path in SPACE for path in paths)
    assert {SPACE.largest, SPACE.smallest} <= set(paths)
    for name in ('width', 'pyramid_width', 'proposals', 'head'):
        assert {getattr(path, name) for path in paths} == {getattr(path, name) for path in SPACE}
    assert paths == sample_paths(SPACE, 20)
    assert len(sample_paths(SPACE, 10_000)) == len(SPACE)
    with pytest.raises(ValueError, match='expected at least 2 paths'):
        sample_paths(SPACE, 1)
