"""The replay of recorded answers and times: what is worked out by hand, without any network."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import Operator, PathSpace, Segment
from deadline_perception.core.records import GroundTruth
from deadline_perception.decision.policy import Choice
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.path_bound import SegmentForecast
from deadline_perception.timing.time_model import TimeModel

# Two looks of 4 and 10 ms, or the first one alone.
SPACE = PathSpace(
    (Operator('fine', 'pass', ('none', 'run'), 'f', ('lone', 'ine')),),
    (
        Segment('coarse', 'coarse', result='coarse'),
        Segment('fine', 'fine', 'fine', ('fine',), keys={'run': 'fine'}, result='fine'),
    ),
)
ALONE, BOTH = SPACE.smallest, SPACE.largest
COSTS_MS = {'coarse': 4.0, 'fine': 10.0}


@pytest.fixture(scope='module')
def frames(load_benchmark):
    return load_benchmark('replay_frames')


@pytest.fixture(scope='module')
def traces(load_benchmark):
    return load_benchmark('replay_traces')


@pytest.fixture(scope='module')
def scores(load_benchmark):
    return load_benchmark('replay_scores')


class Always:
    """One path, whatever comes, which it promises."""

    name, keeps_bounds = 'always', True

    def __init__(self, path) -> None:
        self._path, self.seen = path, []

    def plan(self, remaining_ms, factor, p90_share=1.0):
        return Choice(self._path, 14.0, 14.0 * factor, True, 0.5)

    def redecide(self, path, segment, remaining_ms, factor, elapsed_ms=0.0, p90_share=1.0):
        return Choice(path, 10.0, 10.0 * factor, True, 0.5)

    def observe(self, latency_ms, remaining_ms):
        self.seen.append(latency_ms)


def contender(frames, trace, policy, **settings):
    def answer_of(path, so_far):
        return ('coarse',) if so_far or path == ALONE else ('coarse', 'fine')

    network = frames.ReplayedNetwork(SPACE, COSTS_MS, trace, answer_of)
    times = TimeModel(
        SPACE,
        SegmentForecast(SPACE, COSTS_MS),
        BoundCalibrator(0.01, 0.05, math.log(8.0)),
    )
    return frames.Contender(network, policy, times, **settings)


def course(frames, budgets_ms):
    numbers = np.arange(len(budgets_ms))
    return frames.Course(numbers, numbers, np.asarray(budgets_ms))


@pytest.fixture
def trace(traces):
    """Of three frames: as idle, twice as slow, and interrupted for 20 ms in the second part."""
    return traces.Trace(
        np.array([4.0, 10.0]),
        np.array([[4.0, 10.0], [8.0, 20.0], [4.0, 30.0]]),
        np.array([0.9, 0.9, 0.9]),
    )


def test_a_path_takes_the_time_that_its_work_took_in_the_recorded_frame(trace):
    assert [trace.time_ms(0, work_ms) for work_ms in (2.0, 4.0, 9.0, 14.0)] == [2.0, 4.0, 9.0, 14.0]
    assert trace.time_ms(1, 9.0) == 18.0
    assert trace.time_ms(2, 9.0) == 4.0 + 0.5 * 30.0  # half of the part that was interrupted
    assert trace.time_ms(2, 28.0) == 68.0  # beyond the recorded work at the mean pace
    table = trace.table_ms(np.array([2.0, 4.0, 9.0, 14.0, 28.0]))
    for frame in range(3):
        assert table[frame].tolist() == pytest.approx(
            [trace.time_ms(frame, work_ms) for work_ms in (2.0, 4.0, 9.0, 14.0, 28.0)]
        )


@pytest.mark.parametrize(
    ('budgets_ms', 'so_far', 'answers', 'in_time'),
    [
        ([16.0, 16.0, 16.0], True, [('coarse', 'fine'), ('coarse',), ('coarse',)], [1, 1, 1]),
        ([16.0, 16.0, 16.0], False, [('coarse', 'fine'), None, None], [1, 0, 0]),
        ([3.0, 8.5, 40.0], True, [None, None, ('coarse', 'fine')], [0, 0, 1]),
    ],
)
def test_the_newest_result_is_the_answer_when_time_is_up(
    frames, trace, budgets_ms, so_far, answers, in_time
):
    player = contender(frames, trace, Always(BOTH), answers_so_far=so_far)
    found = player.run(course(frames, budgets_ms))
    assert found.answers == answers and found.in_time == list(map(bool, in_time))


def some_images(seed, images=40):
    """Known objects of vehicles and persons, and two answers, the second one worse."""
    rng = np.random.default_rng(seed)
    truths, answers = [], ([], [])
    for _ in range(images):
        corners = rng.uniform(0, 300, (6, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(20, 80, (6, 2))], 1)
        labels = rng.integers(0, 2, 6)
        truths.append(GroundTruth(boxes, labels, np.zeros(6, bool)))
        for noise, found in zip((4.0, 12.0), answers):
            far = rng.uniform(0, 300, (4, 2))
            false = np.concatenate([far, far + 30.0], 1)
            shown = np.concatenate([boxes + rng.normal(0, noise, boxes.shape), false])
            known = np.concatenate([rng.uniform(0.3, 1.0, 6), rng.uniform(0.0, 0.7, 4)])
            of_class = np.concatenate([labels, rng.integers(0, 2, 4)])
            found.append(Detections(shown, known, of_class))
    return truths, answers


def test_precision_of_a_mixture_is_that_of_its_answers(scores):
    truths, answers = some_images(0)
    kind = scores.KindScores('bdd100k', answers, truths)
    assert kind.classes == ('vehicle', 'person')
    for chosen in ([0] * 40, [1] * 40, [number % 2 for number in range(40)]):
        given = np.zeros((40, 3))
        given[np.arange(40), chosen] = 1.0
        found = [answers[answer][image] for image, answer in enumerate(chosen)]
        per_class = average_precision(found, truths, scores.CLASSES).per_class
        expected = np.mean([per_class[name].ap for name in kind.classes])
        drawn = kind.precision(given)
        assert drawn[0] == pytest.approx(expected, abs=0.01)
        assert drawn[1:].std() > 0.005 and abs(drawn[1:].mean() - expected) < 0.03
        assert kind.precision(3.0 * given)[0] == pytest.approx(drawn[0])
    assert kind.precision(np.eye(3)[[2] * 40])[0] == 0.0  # without an answer
