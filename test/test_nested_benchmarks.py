"""What the benchmarks of several networks compute, on a few made-up numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scheduled_jobs import ended_job

from deadline_perception.core.detections import Detections
from deadline_perception.core.records import Frame, GroundTruth
from deadline_perception.extras.several_networks.scheduling.quality import DetectedInTime
from deadline_perception.runtime.job import Outcome


def test_quality_is_measured_at_the_intervals_that_passed(load_benchmark):
    execution = load_benchmark('nested_execution')
    task = SimpleNamespace(
        name='front', quality=DetectedInTime((0.5,), execution.SPEED_MPS * 0.2, correlation=1e-7)
    )
    records = [
        ended_job(outcome, release_ms=start, started_ms=start, ended_ms=start + 10.0)
        for start, outcome in (
            (0.0, Outcome.DETECTED),
            (100.0, Outcome.ABORTED),
            (200.0, Outcome.DETECTED),
            (300.0, Outcome.DETECTED),
        )
    ]
    found = execution.summarise(task, records)
    assert (found['jobs'], found['misses'], found['overruns']) == (4, 1, 0) and found[
        'mean_period_ms'
    ] == 100.0
    assert found['promised'] == pytest.approx(1 - 0.5**2, abs=1e-6)  # two looks within the distance
    assert found['measured'] == pytest.approx((200.0 * 0.5 + 100.0 * 0.75) / 300.0, abs=1e-6)


def test_the_third_network_reads_what_the_first_has_found(load_benchmark):
    tasks = load_benchmark('nested_execution').default_tasks()
    assert [(task.name, task.crops_of) for task in tasks] == [
        ('front', ''),
        ('rear', ''),
        ('signs', 'front'),
    ]


def objects(*left_px: float, label: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of 10 px side and their labels."""
    return np.array([(left, 0.0, left + 10.0, 10.0) for left in left_px]), np.full(
        len(left_px), label
    )


def frame(*left_px: float) -> Frame:
    boxes, labels = objects(*left_px)
    return Frame(
        'a', 0, lambda: None, 10.0, GroundTruth(boxes, labels, np.zeros(len(labels), bool))
    )


@pytest.mark.parametrize(
    ('took_ms', 'published', 'known'),
    [
        ((15.0, 15.0, 5.0, 5.0), [(15.0, 0.0), (30.0, 10.0), (35.0, 30.0)], [None, None, 0, 1]),
        (
            (5.0, 5.0, 10.0, 10.0),
            [(5.0, 0.0), (15.0, 10.0), (30.0, 20.0), (40.0, 30.0)],
            [None, 0, 1, 2],
        ),
        # The first takes until 25 ms: the second image is replaced by the third, which waits until then.
        ((25.0, 1.0, 5.0, 1.0), [(25.0, 0.0), (30.0, 20.0), (31.0, 30.0)], [None, None, None, 2]),
    ],
)
def test_at_each_moment_the_newest_publication_is_known_and_an_image_that_waits_makes_place_for_a_newer_one(
    load_benchmark, took_ms, published, known
):
    streaming = load_benchmark('streaming')
    boxes = [Detections(*objects(10.0 * number)[:1], [0.9], [0]) for number in range(4)]
    stamps_ms = [0.0, 10.0, 20.0, 30.0]
    ends = streaming.published(list(zip(took_ms, boxes)), stamps_ms)
    assert [(end_ms, of_ms) for end_ms, of_ms, _ in ends] == published
    expected = [[] if number is None else [10.0 * number] for number in known]
    assert [
        list(found.boxes_xyxy_px[:, 0]) for found in streaming.known_at(ends, stamps_ms)
    ] == expected
    unpublished = streaming.published([(1.0, None)] * 4, stamps_ms)
    assert all(len(found) == 0 for found in streaming.known_at(unpublished, stamps_ms))


def test_objects_are_followed_by_their_overlap_and_found_once(load_benchmark):
    known = load_benchmark('known_in_time')
    numbers = known.follow([frame(0.0, 50.0), frame(52.0, 2.0), frame(54.0, 90.0)])
    assert [mine.tolist() for mine in numbers] == [[0, 1], [1, 0], [1, 2]]
    boxes, labels = objects(1.0, 1.5, 51.0, 51.0)
    found = Detections(boxes, [0.9, 0.8, 0.7, 0.2], labels)
    assert known.found_objects(frame(0.0, 50.0), numbers[0], found) == {0, 1}
    other = Detections(boxes, [0.9, 0.8, 0.7, 0.2], labels + 1)
    assert known.found_objects(frame(0.0, 50.0), numbers[0], other) == set()


def test_detection_in_time_counts_objects_that_some_look_within_the_distance_finds(load_benchmark):
    known = load_benchmark('known_in_time')
    frames = [frame(0.0) for _ in range(60)]  # 10 m/s, 30 Hz: 15 images within 5 m
    seen, missed = Detections(*objects(0.0)[:1], [0.9], [0]), Detections.none()
    looks = [[known.Look(seen if number % 6 == 0 else missed, 1.0)] for number in range(60)]
    rows = {row['period_ms']: row for row in known.detection_in_time(looks, frames, [0.2])}
    assert rows[100.0]['measured'] == pytest.approx(
        1 / 3, abs=0.02
    )  # of three phases one hits every sixth image
    assert (
        rows[200.0]['measured'] == pytest.approx(1 / 6, abs=0.02)
        and rows[100.0]['single_look'] == 1 / 6
    )
    assert (
        rows[100.0]['independent'] > rows[100.0]['by_single_looks'] > rows[200.0]['by_single_looks']
    )
