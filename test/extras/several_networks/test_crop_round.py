"""Real jobs of a small classifier, with a clock that the test moves on by what it says each segment takes."""

from __future__ import annotations

import numpy as np
import pytest
from hand_clock import Clock

from deadline_perception.core.detections import Classification, Detections
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.several_networks.classifier.crop import crop_box
from deadline_perception.extras.several_networks.classifier.network import (
    ClassifierConfig,
    build_classifier,
)
from deadline_perception.extras.several_networks.crop_round import (
    CropClassifier,
    importance_order,
    most_important_crop,
)
from deadline_perception.runtime.task import Task
from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.time_model import TimeModel

IMAGE = np.zeros((100, 100, 3), np.uint8)
BOXES = [(10.0, 10.0, 30.0, 30.0), (50.0, 50.0, 70.0, 70.0), (40.0, 10.0, 60.0, 30.0)]


class Times:
    """Forecasts of 1 ms per segment at the first level, 2 at the second, 4 at the third."""

    def forecast_ms(self, path, segment=0):
        return (2.0 ** path.settings[0]) * (len(path.space.segments) - segment)

    def table(self, paths, segment=0):
        return np.array([self.forecast_ms(path, segment) for path in paths])


@pytest.fixture
def stand():
    """A classifier of three levels whose jobs take 6, 12 and 24 ms, and its clock."""
    network = build_classifier(
        ClassifierConfig(channels=(4, 4, 4, 4), ratios=(0.25, 0.5, 1.0)), ('a', 'b')
    )
    clock, start = Clock(), network.start

    def slow_start(crop, path):
        run = start(crop, path)
        run_segment = run.run_segment
        run.run_segment = lambda: (
            setattr(clock, 'ms', clock.ms + stand_factor[0] * 2.0 ** run.path.settings[0]),
            run_segment(),
        )[1]
        return run

    network.start = slow_start
    stand_factor = [1.0]
    space, forecast = network.path_space, Times()
    quality = PathQuality({path: 0.2 + 0.3 * path.settings[0] for path in space})
    times = TimeModel(space, forecast, BoundCalibrator(0.01, 1e-6, 2.0, 1e-4))
    task = Task(network, FrontierPolicy(space, forecast, quality), times, Classification)
    return CropClassifier(task, clock), clock, task, stand_factor


def names(found):
    return [None if path is None else str(path) for path in found.paths]


@pytest.mark.parametrize(
    ('time_ms', 'levels'),
    [
        (100.0, ['l3', 'l3', 'l3']),
        (36.1, ['l2', 'l2', 'l2']),
        (18.1, ['l1', 'l1', 'l1']),
        (30.2, ['l1', 'l2', 'l2']),  # what the first leaves over goes to those behind it
        (13.0, ['l1', 'l1', None]),
        (5.0, [None, None, None]),
        (-3.0, [None, None, None]),
    ],
)
def test_every_box_gets_the_largest_level_that_fits_its_part_of_the_time(stand, time_ms, levels):
    classifier, clock, _, _ = stand
    until_ms = clock.ms + time_ms
    found = classifier.run(IMAGE, BOXES, [0, 1, 2], until_ms=until_ms)
    assert names(found) == levels and clock.ms <= max(until_ms, 1000.0)
    assert [result is None for result in found.results] == [level is None for level in levels]


def test_the_order_decides_who_goes_without(stand):
    classifier, clock, _, _ = stand
    assert names(classifier.run(IMAGE, BOXES, [2, 0, 1], until_ms=clock.ms + 7.0)) == [
        None,
        None,
        'l1',
    ]


def test_a_slowed_down_machine_gets_smaller_levels(stand):
    classifier, clock, _, factor = stand
    factor[0] = 2.0
    assert (
        names(classifier.run(IMAGE, BOXES, [0, 1, 2], until_ms=clock.ms + 73.0, slowdown=2.0))
        == ['l2'] * 3
    )


def test_a_job_that_overruns_ends_after_its_segment_and_counts_as_a_miss(stand):
    classifier, clock, task, factor = stand
    factor[0] = 5.0
    begun_ms = clock.ms
    found = classifier.run(IMAGE, BOXES[:1], [0], until_ms=begun_ms + 25.0)
    assert names(found) == [None] and clock.ms - begun_ms <= 25.0 + 5.0 * 4.0
    assert (task.times.calibrator.frames, task.times.calibrator.misses) == (1, 1)


def test_a_box_outside_the_image_is_refused_and_the_others_go_on(stand):
    classifier, clock, task, _ = stand
    found = classifier.run(
        IMAGE, [(200.0, 200.0, 220.0, 220.0), *BOXES[:1]], [0, 1], until_ms=clock.ms + 100.0
    )
    assert found.refused == 1 and names(found) == [None, 'l3'] and task.times.calibrator.frames == 1


def test_what_can_be_refined_comes_first_then_what_is_larger_then_what_is_nearer():
    boxes = [(0, 0, 90, 90), (0, 0, 20, 20), (0, 50, 20, 70), (0, 0, 30, 10)]
    assert importance_order(
        boxes, ('vehicle', 'traffic_light', 'traffic_sign', 'traffic_sign')
    ) == [3, 2, 1, 0]


GRADIENT = np.arange(40 * 60 * 3, dtype=np.uint8).reshape(40, 60, 3)


def test_the_largest_likely_object_is_cut_out_as_classifiers_learn_objects():
    found = Detections([[1, 1, 5, 5], [20, 10, 30, 30], [0, 0, 60, 40]], [0.9, 0.6, 0.2], [0, 0, 0])
    crop = most_important_crop(GRADIENT, found)
    assert crop.shape == (24, 24, 3)  # square, with a border around the longer side of 20 px
    assert np.array_equal(crop, crop_box(GRADIENT, (20, 10, 30, 30)))


def test_an_object_that_reaches_over_the_image_is_weighed_and_cut_by_what_is_seen():
    found = Detections([[1, 1, 8, 8], [58, 30, 90, 36]], [0.9, 0.9], [0, 0])
    assert np.array_equal(most_important_crop(GRADIENT, found), crop_box(GRADIENT, (1, 1, 8, 8)))
    alone = Detections([[58, 30, 90, 36]], [0.9], [0])
    assert np.array_equal(
        most_important_crop(GRADIENT, alone), crop_box(GRADIENT, (58, 30, 60, 36))
    )


def test_without_a_likely_object_there_is_nothing():
    assert most_important_crop(GRADIENT, Detections.none()) is None
    assert most_important_crop(GRADIENT, Detections([[1, 1, 9, 9]], [0.4], [0])) is None
    assert most_important_crop(GRADIENT, Detections([[70, 1, 90, 9]], [0.9], [0])) is None
