"""The replay of recorded answers and times: what is worked out by hand, without any network."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

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


def test_the_newest_result_is_the_answer_when_time_is_up(frames, trace):
    policy = Always(BOTH)
    found = contender(frames, trace, policy).run(course(frames, [16.0, 16.0, 16.0]))
    assert found.answers == [('coarse', 'fine'), ('coarse',), ('coarse',)]
    assert found.in_time == [True, True, True] and found.promised == [True, True, True]
    assert policy.seen == [14.0, math.inf, math.inf]


def test_a_frame_whose_first_result_is_late_has_no_answer_of_its_own(frames, trace):
    found = contender(frames, trace, Always(BOTH)).run(course(frames, [3.0, 8.5, 40.0]))
    assert found.answers == [None, None, ('coarse', 'fine')]
    assert found.in_time == [False, False, True]


def test_without_results_so_far_only_a_whole_one_counts(frames, trace):
    found = contender(frames, trace, Always(BOTH), answers_so_far=False).run(
        course(frames, [16.0, 16.0, 16.0])
    )
    assert found.answers == [('coarse', 'fine'), None, None]


def test_a_fixed_sequence_gives_its_last_result_that_is_in_time(frames, trace):
    found = frames.fixed([4.0, 14.0], ['a', 'b'], trace, course(frames, [15.0, 15.0, 4.5]))
    assert found.answers == ['b', 'a', None] and found.in_time == [True, True, False]
    assert frames.reachable([4.0, 14.0], trace, course(frames, [15.0, 8.5, 5.0])).tolist() == [
        True,
        False,
        True,
    ]


def test_a_clairvoyant_takes_the_best_result_that_fits_each_frame(frames, trace):
    seen = []
    found = frames.clairvoyant(
        [(4.0, 'a'), (14.0, 'b')],
        lambda image: np.array([0.3, 0.5]),
        trace,
        course(frames, [15.0, 15.0, 4.5]),
        lambda image, answer: seen.append((image, answer)),
    )
    assert found.answers == ['b', 'a', None] and seen == [(0, 'b'), (1, 'a')]


@pytest.mark.parametrize('kind', ['wander', 'speed', 'steps', 'drawn', 'tight'])
def test_budgets_stay_within_their_range_and_are_the_same_again(frames, kind):
    given = frames.budgets_ms(kind, 2000, 30.0, 3)
    most = frames.TIGHT_BUDGET if kind == 'tight' else frames.MOST_BUDGET
    assert given.min() >= 30.0 * frames.LEAST_BUDGET - 1e-9 and given.max() <= 30.0 * most + 1e-9
    assert given.max() > 2.0 * given.min()
    assert (given == frames.budgets_ms(kind, 2000, 30.0, 3)).all()


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


def test_frames_without_an_answer_find_nothing(scores):
    truths, answers = some_images(1)
    kind = scores.KindScores('bdd100k', answers, truths)
    given = np.zeros((40, 3))
    given[:, 0] = 1.0
    whole = kind.precision(given)[0]
    given[:, 2] = 1.0  # as often again without one
    assert kind.precision(given)[0] == pytest.approx(whole / 2.0, rel=0.05)
    assert kind.precision(np.eye(3)[[2] * 40])[0] == 0.0


def test_late_frames_are_counted_in_runs(scores):
    late = np.array([0, 1, 1, 0, 1, 0, 0], bool)
    assert scores.longest_run(late) == 2 and scores.after_late(late) == pytest.approx(1 / 3)
    assert scores.longest_run(np.zeros(4, bool)) == 0
    assert scores.after_late(np.zeros(4, bool)) is None
    assert scores.share(late, np.zeros(7, bool)) is None


def test_images_are_recorded_once_and_read_as_they_were(load_benchmark, monkeypatch, tmp_path):
    recording = load_benchmark('replay_recording')
    truth = GroundTruth(np.array([[1.0, 2.0, 9.0, 8.0], [0, 0, 4, 4]]), [0, 1], [False, True])
    image = SimpleNamespace(
        name='one.jpg', ground_truth=truth, load_bgr=lambda: np.zeros((30, 40, 3), np.uint8)
    )
    other = SimpleNamespace(**{**vars(image), 'name': 'two.jpg'})
    sequence = SimpleNamespace(name='made', class_names=('vehicle', 'tram'), frames=(image, other))
    monkeypatch.setattr(recording, 'KINDS', {'bdd100k': ('x.json', ('vehicle', 'person'))})
    monkeypatch.setattr(recording, 'open_source', lambda file: sequence)
    monkeypatch.setattr(recording, 'with_mapping', lambda given, names: given)
    looks: list[str] = []

    class Network:
        class_names = ('vehicle', 'person')
        path_space = SimpleNamespace(parse=lambda path: path)

        def start(self, image, path):
            looks.append(path)
            found = Detections([[1, 2, 9, 8], [0, 0, 4, 4]], [0.9, 0.001], [0, 1])
            return SimpleNamespace(finish=lambda: found)

    networks = dict.fromkeys((recording.OURS, recording.PUBLIC), Network())
    recording.record(networks, tmp_path, tmp_path / 'kept', 1)
    recording.record(networks, tmp_path, tmp_path / 'kept', None)
    assert len(looks) == 2 * len(recording.LOOKS)  # the second call saw the other image alone
    images, names = recording.read(tmp_path / 'kept')
    assert names[recording.OURS] == ('vehicle', 'person')
    assert [one.name for one in images] == ['one', 'two'] and images[0].size == (30, 40)
    assert images[0].truth.labels.tolist() == [0]  # a tram is none of the classes
    (found,) = {len(one) for one in images[0].found.values()}
    assert found == 1  # the other one is less certain than any that counts
    with pytest.raises(ValueError, match='no image is recorded'):
        recording.read(tmp_path)
    assert json.loads((tmp_path / 'kept' / 'classes.json').read_text())


def test_labels_of_a_network_become_those_that_a_kind_marks(load_benchmark):
    recording = load_benchmark('replay_recording')
    found = Detections(np.zeros((3, 4)), [0.9, 0.8, 0.7], [0, 1, 2])
    kept = recording.of_classes(found, ('motorbike', 'person', 'vehicle'), ('vehicle', 'bike'))
    assert [recording.CLASSES[label] for label in kept.labels] == ['bike', 'vehicle']
