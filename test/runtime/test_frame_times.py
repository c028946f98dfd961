"""What single frames teach, by hand: finished, answered beside their network, and aborted."""
from __future__ import annotations

import math
from dataclasses import replace

import pytest
from invented_networks import CLASSIFIER

from deadline_perception.decision.policy import Choice
from deadline_perception.latency.calibration import BoundCalibrator, RestCalibrators
from deadline_perception.latency.path_bound import SegmentForecast
from deadline_perception.runtime.frame_times import FrameTimes, rest_factor
from deadline_perception.runtime.reserve import FrameReserve, Reserve
from deadline_perception.runtime.timed_frame import Decision, TimedFrame

PATH = CLASSIFIER.largest
FORECAST = SegmentForecast(CLASSIFIER, {'input': 4.0} | {CLASSIFIER.key(1, path): 6.0 for path in CLASSIFIER})
WIDTH = math.log(2.0)


def ran(network_ms: float, elapsed_ms: float | None = None, *, result: object | None = 'found', segment: int = 2,
        slowdown: float = 1.0, decided_after_ms: float | None = None) -> TimedFrame:
    """Of the network's two segments the second one is decided, after so much time."""
    decisions = () if decided_after_ms is None else (
        Decision('level', 1, decided_after_ms, False, 90.0, 6.0, 8.0, 5.0),)
    return TimedFrame(None, PATH, 100.0, slowdown, 0.0, decisions, {'pre': network_ms / 2, 'body': network_ms / 2},
                      network_ms if elapsed_ms is None else elapsed_ms, result, '', segment)


@pytest.fixture
def learnt():
    """Observes frames of `FORECAST`, which says 10 ms; gives its times and the task's calibrator."""
    class Learnt:
        def __init__(self) -> None:
            self.publishing = Reserve(3.0)
            self.calibrator = BoundCalibrator(0.01, 0.05, WIDTH)
            self.times = FrameTimes(self.publishing, self.calibrator)
            self.rests = RestCalibrators(self.calibrator, 2)

        def take(self, frame: TimedFrame, publish_ms: float | None = 0.0,
                 reserve: FrameReserve = FrameReserve(0.0, 0.0), in_time: bool = True) -> None:
            self.times.observe(self.calibrator, self.rests, FORECAST, reserve, frame, publish_ms=publish_ms,
                               in_time=in_time)
    return Learnt()


def test_a_slow_frame_is_a_miss_of_its_bound_and_raises_what_is_the_best_case(learnt):
    before = learnt.calibrator.factor, learnt.times.best_case_factor
    learnt.take(ran(40.0))
    assert learnt.calibrator.misses == 1 and learnt.calibrator.factor > before[0]
    assert learnt.times.best_case_factor > before[1]


def test_frames_as_fast_as_expected_are_no_misses_and_the_slowdown_counts(learnt):
    for _ in range(5):
        learnt.take(ran(9.9))
        learnt.take(ran(19.0, slowdown=2.0))
    assert (learnt.calibrator.misses, learnt.calibrator.frames) == (0, 10)


def test_time_that_was_not_kept_for_deciding_and_publishing_counts_against_the_bound(learnt):
    learnt.take(ran(9.0, 11.5), publish_ms=3.0, reserve=FrameReserve(2.5, 3.0))  # 2.5 and 3 ms, as kept
    assert learnt.calibrator.misses == 0
    learnt.take(ran(9.0, 11.5), publish_ms=9.0, reserve=FrameReserve(2.5, 3.0))  # 6 ms more
    assert learnt.calibrator.misses == 1


def test_what_a_slow_frame_left_out_counts_as_if_it_had_been_run(learnt):
    shorter = CLASSIFIER.smallest
    forecast = SegmentForecast(CLASSIFIER, {'input': 4.0, CLASSIFIER.key(1, PATH): 6.0,
                                            CLASSIFIER.key(1, shorter): 1.0})
    frame = replace(ran(8.9), plan=Choice(PATH, 10.0, 10.0, True, 0.5), path=shorter)  # 5 ms where 10 were planned
    assert frame.left_out_ms(forecast) == 5.0
    assert replace(frame, slowdown=1.5).left_out_ms(forecast) == 7.5
    assert replace(frame, plan=replace(frame.plan, path=shorter), path=PATH).left_out_ms(forecast) == 0.0
    assert ran(8.9).left_out_ms(forecast) == 0.0
    learnt.calibrator = BoundCalibrator(0.01, 0.05, WIDTH, math.log(1.4))
    for network_ms, misses in ((8.9, 0), (9.1, 1)):  # and 5 ms, which 10 times 1.4 bounds; 8.9 of 5 alone would not fit
        learnt.times.observe(learnt.calibrator, learnt.rests, forecast, FrameReserve(0.0, 0.0),
                             replace(frame, phase_ms={'pre': network_ms}), publish_ms=0.0, in_time=True)
        assert learnt.calibrator.misses == misses


@pytest.mark.parametrize('network_ms, exceeds', [(5.9, False), (6.1, True)])
def test_what_was_left_out_after_a_decision_counts_for_the_rest_from_there(learnt, network_ms, exceeds):
    shorter = CLASSIFIER.smallest
    forecast = SegmentForecast(CLASSIFIER, {'input': 4.0, CLASSIFIER.key(1, PATH): 6.0,
                                            CLASSIFIER.key(1, shorter): 1.0})
    # Decided after 5 ms, when 6 more were expected; then 5 of them were left out.
    frame = replace(ran(network_ms, decided_after_ms=5.0), path=shorter)
    learnt.times.observe(learnt.calibrator, learnt.rests, forecast, FrameReserve(0.0, 0.0), frame, publish_ms=0.0,
                         in_time=True)
    assert (learnt.rests.factor(1, 1.0) > 1.0) is exceeds


def test_the_next_frame_keeps_the_median_time_of_deciding_and_what_publishing_has_learnt(learnt):
    assert learnt.times.reserve == FrameReserve(0.0, 3.0)
    for decision_ms in (1.0, 2.0, 30.0):
        learnt.take(ran(9.0, 9.0 + decision_ms), reserve=FrameReserve(30.0, 0.0))
    learnt.publishing.observe(7.0)
    assert learnt.times.reserve == FrameReserve(2.0, 7.0)


def test_a_frame_that_was_answered_beside_its_network_says_nothing_of_deciding(learnt):
    learnt.take(ran(9.0, 500.0), publish_ms=None)
    assert learnt.times.reserve.deciding_ms == 0.0 and (learnt.calibrator.misses, learnt.calibrator.frames) == (0, 1)


@pytest.mark.parametrize('network_ms, teaches', [(0.0, False), (3.0, False), (30.0, True)])
def test_an_aborted_frame_counts_only_where_it_would_have_exceeded_its_bound(learnt, network_ms, teaches):
    before = learnt.times.best_case_factor
    learnt.take(ran(network_ms, result=None, segment=1))  # the rest is expected to take 6 ms
    assert (learnt.calibrator.frames, learnt.calibrator.misses) == (int(teaches), int(teaches))
    assert (learnt.times.best_case_factor > before) is teaches


def test_what_is_left_is_bound_by_a_factor_of_its_own(learnt):
    for _ in range(3):
        learnt.take(ran(9.9, decided_after_ms=1.0))  # the rest takes 8.9 ms where 6 were expected
    assert learnt.calibrator.misses == 0 and learnt.rests.factor(0, 1.0) == 1.0
    assert learnt.rests.factor(1, 0.25) == pytest.approx(math.exp(3 * 0.05 * 0.99))


def test_the_slowdown_and_time_not_kept_for_publishing_count_for_what_is_left_too(learnt):
    learnt.take(ran(19.0, decided_after_ms=8.0, slowdown=2.0))  # 11 ms where 12 were expected
    assert learnt.rests.factor(1, 1.0) == pytest.approx(math.exp(-0.05 * 0.01))
    learnt.take(ran(19.0, decided_after_ms=8.0, slowdown=2.0), publish_ms=2.0)
    assert learnt.rests.factor(1, 1.0) == pytest.approx(math.exp(0.05 * 0.98))


def test_a_frame_that_began_slowly_is_expected_to_go_on_slowly_once_frames_have_shown_it(learnt):
    factor = rest_factor(learnt.rests, FORECAST, 1.0)
    assert factor(PATH, 1, 4.0) == factor(PATH, 1, 6.0) == 1.0  # 4 ms are expected
    for _ in range(40):
        for pace in (1.0, 1.5):
            learnt.take(ran(10.0 * pace, decided_after_ms=4.0 * pace))
    assert factor(PATH, 1, 6.0) / factor(PATH, 1, 4.0) == pytest.approx(1.5, rel=0.05)
    for _ in range(400):
        for pace in (1.0, 1.5):  # now the begin says nothing of the rest
            learnt.take(ran(4.0 * pace + 6.0, decided_after_ms=4.0 * pace))
            learnt.take(ran(4.0 * pace + 9.0, decided_after_ms=4.0 * pace))
    assert factor(PATH, 1, 6.0) / factor(PATH, 1, 4.0) == pytest.approx(1.0, abs=0.06)


def test_the_begin_never_makes_the_rest_longer_than_in_proportion(learnt):
    for spent_ms, rest_ms in ((4.0, 6.0), (4.4, 12.0)) * 30:
        learnt.take(ran(spent_ms + rest_ms, decided_after_ms=spent_ms))
    factor = rest_factor(learnt.rests, FORECAST, 1.0)
    assert 1.0 < factor(PATH, 1, 4.4) / factor(PATH, 1, 4.0) <= 1.1 + 1e-9
    assert factor(PATH, 1, 0.0) == learnt.rests.factor(1, 1.0)
    assert factor(PATH, 0, 0.0) == learnt.rests.factor(0, 1.0)


@pytest.mark.parametrize('spent_ms, decided_after_ms, teaches', [(9.0, 8.0, True), (4.0, 4.0, False)])
def test_an_aborted_rest_counts_only_where_it_would_have_exceeded_its_bound(learnt, spent_ms, decided_after_ms,
                                                                             teaches):
    learnt.take(ran(spent_ms, result=None, segment=1, decided_after_ms=decided_after_ms))
    assert (learnt.rests.factor(1, 1.0) > 1.04) is teaches


def test_late_frames_count_for_the_margin_unless_they_were_never_to_be_in_time(learnt):
    planned = replace(ran(9.0), plan=Choice(PATH, 10.0, 10.0, True, 0.5))
    hopeless = replace(planned, plan=replace(planned.plan, feasible=False))
    for frame, in_time, counts in ((planned, False, (1, 1)), (planned, True, (1, 2)), (hopeless, False, (1, 2)),
                                   (hopeless, True, (1, 3)), (ran(9.0), False, (1, 3))):
        learnt.take(frame, in_time=in_time)
        assert (learnt.times.margin.late, learnt.times.margin.frames) == counts


def test_a_margin_is_in_the_bound_of_what_is_left(learnt):
    plain, wider = (rest_factor(learnt.rests, FORECAST, 1.0, margin) for margin in (1.0, 1.5))
    assert wider(PATH, 1, 4.0) == pytest.approx(1.5 * plain(PATH, 1, 4.0))


def test_a_clock_that_jumped_is_told_and_teaches_nothing(learnt):
    for wrong in (math.nan, -5.0, math.inf):
        with pytest.raises(ValueError):
            learnt.take(ran(wrong))
    assert learnt.calibrator.frames == 0 and learnt.times.reserve.deciding_ms == 0.0


def test_what_is_likely_to_fit_is_learnt_from_frames_and_begins_as_the_bound(learnt):
    learnt.times = FrameTimes(learnt.publishing, BoundCalibrator(0.01, 0.05, WIDTH, math.log(1.5)))
    assert learnt.times.likely(1.5) == 1.0
    for _ in range(300):
        for network_ms in (10.0, 10.0, 10.0, 10.0, 10.0, 12.0, 14.0):  # one of seven takes 14 ms
            learnt.take(ran(network_ms))
    assert learnt.times.likely(1.5) == pytest.approx(13.0 / 10.0 / 1.5, rel=0.1)
    assert learnt.times.likely(1.0) == 1.0


def test_an_aborted_slow_frame_makes_less_likely_to_fit(learnt):
    before = learnt.times.likely(2.0)
    learnt.take(ran(30.0, result=None, segment=1))
    assert learnt.times.likely(2.0) > before
