"""What single frames teach the time model, by hand: finished, answered beside their network, and aborted."""

import math
from dataclasses import fields, replace

import pytest
from fresh_bounds import fresh_bound
from hypothesis import given
from hypothesis import strategies as st
from invented_networks import CLASSIFIER

from deadline_perception.decision.policy import Choice
from deadline_perception.runtime.job import Decision, Job, StampReading
from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.path_bound import SegmentForecast
from deadline_perception.timing.recent_times import LEAST_RATIOS
from deadline_perception.timing.time_model import (
    WCET,
    FrameReserve,
    FrameTimes,
    Reserve,
    TimeModel,
    TimeParts,
)

PATH = CLASSIFIER.largest
FORECAST = SegmentForecast(
    CLASSIFIER, {'input': 4.0} | {CLASSIFIER.key(1, path): 6.0 for path in CLASSIFIER}
)
SHORTER = SegmentForecast(
    CLASSIFIER,
    {'input': 4.0, CLASSIFIER.key(1, PATH): 6.0, CLASSIFIER.key(1, CLASSIFIER.smallest): 1.0},
)
WIDTH = math.log(2.0)
WORST = {  # 12 ms where 10 are expected, and 9 where 6 are
    'wcet': SegmentForecast(
        CLASSIFIER, {'input': 3.0} | {CLASSIFIER.key(1, path): 9.0 for path in CLASSIFIER}
    )
}
BEFORE_MS = 4.0  # forecast of the first segment


def ran(
    network_ms: float,
    elapsed_ms: float | None = None,
    *,
    result: object | None = 'found',
    segment: int = 2,
    slowdown: float = 1.0,
    decided_after_ms: float | None = None,
    plan: Choice | None = None,
    path=PATH,
) -> Job:
    """Of the network's two segments the second one is decided, after so much time."""
    job = Job('message', 0.0, StampReading(0.0, '', 0))
    job.times, job.plan, job.path = FrameTimes(FORECAST, slowdown), plan, path
    job.result, job.segment = result, segment
    job.begun_ms, job.ended_ms = 0.0, network_ms if elapsed_ms is None else elapsed_ms
    job.leave('body', network_ms)
    if decided_after_ms is not None:
        progress = job.times.bound_from(1, BEFORE_MS, decided_after_ms)[0]
        decision = Decision('level', 1, decided_after_ms, progress, False, 90.0, 6.0, 8.0, 5.0)
        job.decisions.append(decision)
    return job


class Learnt:
    """A time model of `FORECAST`, which says 10 ms, and what it takes in."""

    def __init__(
        self, log_factor: float = 0.0, *, forecast=FORECAST, width: float = WIDTH, **given
    ) -> None:
        bound = fresh_bound(log_factor, width)
        self.calibrator = bound.integral
        self.model = TimeModel(CLASSIFIER, forecast, bound, **given)
        self.model.publishing = Reserve(3.0)

    def take(
        self,
        job: Job,
        publish_ms: float | None = 0.0,
        reserve: FrameReserve = FrameReserve(0.0, 0.0),
        in_time: bool = True,
    ) -> None:
        job.times = replace(self.model.begin(job.times.slowdown), reserve=reserve)
        job.publish_ms, job.is_in_time = publish_ms, in_time
        self.model.observe(job)

    def rest(self) -> float:
        """Factor of what is left from the second segment on, where the first one took what was expected."""
        return self.model.begin(1.0).bound_from(1, BEFORE_MS, BEFORE_MS)[1]


@pytest.fixture
def learnt():
    return Learnt()


def test_time_that_was_not_kept_for_deciding_and_publishing_counts_against_the_bound(learnt):
    for publish_ms, misses in ((3.0, 0), (9.0, 1)):  # as kept, and 6 ms more
        learnt.take(ran(9.0, 11.5), publish_ms=publish_ms, reserve=FrameReserve(2.5, 3.0))
        assert learnt.calibrator.misses == misses


def test_what_a_slow_frame_skipped_counts_as_if_it_had_been_run():
    shorter = CLASSIFIER.smallest
    assert FrameTimes(SHORTER).skipped_ms(PATH, 5.0) == 5.0
    assert FrameTimes(SHORTER, 1.5).skipped_ms(PATH, 7.5) == 7.5
    assert FrameTimes(SHORTER).skipped_ms(shorter, 10.0) == 0.0
    learnt, plan = Learnt(math.log(1.4), forecast=SHORTER), Choice(PATH, 10.0, 10.0, True, 0.5)
    # And 5 ms, which 10 times 1.4 bounds; 8.9 of 5 alone would not fit.
    for network_ms, misses in ((8.9, 0), (9.1, 1)):
        learnt.take(ran(network_ms, plan=plan, path=shorter))
        assert learnt.calibrator.exceeded_in_time == misses


def test_reserves_are_generous_until_eight_frames_were_seen_then_what_these_took(learnt):
    model = TimeModel(CLASSIFIER, FORECAST, fresh_bound())
    assert model.reserve == FrameReserve(1.0, 2.5)
    for _ in range(8):
        assert model.reserve.publishing_ms == 2.5
        model.publishing.observe(0.2)
    assert model.reserve.publishing_ms == 1.0  # a millisecond at least
    learnt.take(ran(9.0, 500.0), publish_ms=None)  # beside its network: says nothing of deciding
    assert learnt.model.reserve == FrameReserve(1.0, 3.0)
    assert (learnt.calibrator.misses, learnt.calibrator.frames) == (0, 1)
    for decision_ms in (1.0, 2.0, 30.0) * 3:
        learnt.take(ran(9.0, 9.0 + decision_ms), reserve=FrameReserve(30.0, 0.0))
    learnt.model.publishing.observe(7.0)
    assert learnt.model.reserve == FrameReserve(2.0, 7.0)  # the median, and what was learnt


def test_what_publishing_has_beyond_its_median_is_spare_and_as_much_again_is_the_least_lead():
    assert [FrameReserve(30.0, one_ms).lead_ms for one_ms in (3.0, 8.0)] == [3.0, 8.0]
    assert FrameReserve(30.0, 3.0, beside_ms=9.0).lead_ms == 6.0
    publishing = Reserve(1.0, 15.0, quantile=0.95)
    assert publishing.spare_ms == 0.0
    for took_ms in (2.0, 2.0, 2.0, 9.0) * 5:
        publishing.observe(took_ms)
    assert (publishing.reserve_ms, publishing.spare_ms) == (9.0, 7.0)
    for _ in range(20):
        publishing.observe(100.0)
    assert (publishing.reserve_ms, publishing.spare_ms) == (15.0, 0.0)  # of a ceiling nothing
    for no_time_ms in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match='expected a finite time'):
            publishing.observe(no_time_ms)


def test_an_aborted_frame_counts_where_it_exceeded_its_bound_or_was_promised_and_is_late(learnt):
    for network_ms, counted in ((0.0, 0), (3.0, 0), (5.0, 1)):
        learnt.take(ran(network_ms, result=None, segment=1))  # the rest is expected to take 6 ms
        assert learnt.calibrator.frames == learnt.calibrator.misses == counted
    plan = Choice(PATH, 10.0, 10.0, True, 0.5)
    learnt.take(ran(3.0, result=None, segment=1, plan=plan), in_time=False)
    assert (learnt.calibrator.misses, learnt.model.late_frames) == (2, 1)


def test_the_slowdown_and_time_not_kept_for_publishing_count_for_what_is_left_too(learnt):
    learnt.take(ran(19.0, decided_after_ms=8.0, slowdown=2.0))  # 11 ms where 12 were expected
    assert learnt.rest() == pytest.approx(math.exp(-0.05 * 0.01))
    learnt.take(ran(19.0, decided_after_ms=8.0, slowdown=2.0), publish_ms=2.0)
    assert learnt.rest() == pytest.approx(math.exp(0.05 * 0.98))


def test_late_frames_count_whole_unless_they_were_never_to_be_in_time(learnt):
    planned, hopeless = (Choice(PATH, 10.0, 10.0, feasible, 0.5) for feasible in (True, False))
    for plan, in_time, counts in (
        (planned, False, (1, 1, 1)),
        (planned, True, (1, 2, 1)),
        (hopeless, False, (1, 2, 1)),
        (hopeless, True, (1, 2, 1)),
        (None, False, (1, 2, 1)),
    ):
        learnt.take(ran(9.0, plan=plan), in_time=in_time)
        model = learnt.model
        assert (model.late_frames, model.promised_frames, learnt.calibrator.misses) == counts
    # Exceeded in time, a bound counts half where it was promised and whole elsewhere.
    for plan, counts in ((planned, (1, 1)), (hopeless, (2, 1))):
        learnt.take(ran(12.0, plan=plan))
        assert (learnt.calibrator.misses, learnt.calibrator.exceeded_in_time) == counts


def test_a_slowdown_that_frames_do_not_go_with_is_drawn_to_its_mean_but_not_where_worst_cases_bound():
    drawn, worst = Learnt(), Learnt(**WORST, parts=TimeParts(bounds=WCET))
    for learnt in (drawn, worst):
        for number, slowdown in enumerate((1.0, 1.0, 2.0) * 40):
            learnt.take(ran(20.0 if number % 3 == 0 else 10.0, slowdown=slowdown))
    mean = 2.0 ** (1.0 / 3.0)
    for slowdown in (1.0, 2.0):
        assert drawn.model.begin(slowdown).slowdown == pytest.approx(mean, rel=0.05)
    assert worst.model.begin(2.0).slowdown == 2.0


def test_a_bound_is_expected_time_by_limit_and_integral_and_interruptions_on_top(learnt):
    times = learnt.model.begin(2.0)
    assert (times.expected_ms(PATH), times.expected_ms(PATH, 1)) == (20.0, 12.0)
    assert times.bound_ms(PATH) == learnt.model.begin(2.0).bound_ms(PATH) == 20.0
    for number in range(60):
        learnt.take(ran(10.0 if number % 10 else 30.0))
    whole = learnt.model.whole
    limit, interruption_ms = math.exp(whole.recent.log_limit), whole.recent.interruption_ms
    assert limit < 1.2 and 15.0 < interruption_ms < 20.0  # 20 ms, of which the limit's are no part
    times, q = learnt.model.begin(2.0), learnt.calibrator.factor
    assert times.factor == pytest.approx(2.0 * limit * q)
    assert times.bound_ms(PATH) == pytest.approx((20.0 * limit + interruption_ms) * q)
    assert times.bound_ms(PATH) - times.interruption_ms == pytest.approx(10.0 * times.factor)


@pytest.mark.parametrize('off', [part.name for part in fields(TimeParts) if part.name != 'bounds'])
def test_each_part_can_be_switched_off_alone(off):
    """After frames that began slowly, ended slowly, and came late, each part leaves its trace in a frame's times."""

    def times_of(parts: TimeParts) -> dict[str, object]:
        learnt = Learnt(width=math.log(8.0), parts=parts)
        for pace in (1.2, 1.6) * 30:
            learnt.take(ran(10.0 * pace, 10.0 * pace + 1.0, decided_after_ms=4.0 * pace))
        for _ in range(6):
            learnt.take(ran(60.0))
        times, whole = learnt.model.begin(2.0), learnt.model.whole
        even, slow = (times.bound_from(1, BEFORE_MS, spent_ms)[1] for spent_ms in (8.0, 12.0))
        return {
            'slowdown': times.slowdown,
            'execution': whole.factor / learnt.calibrator.factor,
            'interruption': times.interruption_ms,
            'integral': times.factor / times.slowdown / math.exp(whole.recent.log_limit),
            'remaining': even == slow == times.factor,
            'progress': slow / even,
            'reserve': times.reserve,
        }

    with_all, without = times_of(TimeParts()), times_of(TimeParts(**{off: False}))
    expected = {'interruption': 0.0, 'remaining': True, 'reserve': FrameReserve(0.0, 0.0)}
    assert with_all[off] != without[off]
    assert without[off] == expected.get(off, pytest.approx(1.0))


def test_a_worst_case_alone_is_the_bound_of_each_path_however_many_frames_come():
    learnt = Learnt(**WORST, parts=TimeParts(bounds=WCET))
    for _ in range(20):
        learnt.take(ran(30.0))
    times = learnt.model.begin(2.0)
    assert times.bound_ms(PATH) == times.worst_ms(PATH) == pytest.approx(24.0)
    # A policy that goes by worst cases needs the slowdown alone.
    assert (times.factor, times.bound_from(1, 1.0, 6.0)) == (2.0, (3.0, 2.0, 0.0))
    assert times.expected_ms(PATH) == 20.0
    assert Learnt(**WORST).model.begin(2.0).worst_ms(PATH) == 24.0
    assert math.isnan(Learnt().model.begin(2.0).worst_ms(PATH))
    with pytest.raises(ValueError, match="bounds is 'tight', expected one of calibrated, wcet"):
        TimeParts(bounds='tight')


def test_bounds_rest_on_frames_once_enough_were_seen_or_on_worst_cases():
    whole = fresh_bound()
    assert not FrameTimes(FORECAST).rests_on_frames
    for number in range(LEAST_RATIOS + 1):
        assert FrameTimes(FORECAST, whole=whole).rests_on_frames == (number == LEAST_RATIOS)
        whole.observe(10.0, 10.0)
    assert FrameTimes(FORECAST, bounds=WCET).rests_on_frames


# --- the reserve ---


OWN_MS = st.floats(0.0, 50.0)
TIMES_MS = st.tuples(st.floats(1.0, 200.0), st.floats(0.5, 4.0), OWN_MS, OWN_MS)


@given(st.lists(TIMES_MS, max_size=80), st.sampled_from([0.01, 0.1, 0.5]))
def test_whatever_the_times_are_every_missed_deadline_is_counted_as_a_missed_bound(frames, alpha):
    """Each frame gets exactly the time that its bound and the reserve ask for: nothing is left over."""
    calibrator = BoundCalibrator(alpha, 0.3, math.log(8.0), math.log(1.3))
    deciding, publishing = Reserve(0.0, quantile=0.5), Reserve(0.0, quantile=0.95)
    for forecast_ms, ratio, deciding_ms, publishing_ms in frames:
        kept = FrameReserve(deciding.reserve_ms, publishing.reserve_ms)
        time_ms = forecast_ms * calibrator.factor + kept.deciding_ms + kept.publishing_ms
        ended_ms = forecast_ms * ratio + deciding_ms
        latest_ms = time_ms * (1.0 + 1e-9)
        is_missed = ended_ms + max(kept.publishing_ms, publishing_ms) > latest_ms
        misses, overrun_ms = calibrator.misses, kept.overrun_ms(deciding_ms, publishing_ms)
        calibrator.observe(forecast_ms, forecast_ms * ratio + overrun_ms)
        deciding.observe(deciding_ms)
        publishing.observe(publishing_ms)
        assert not is_missed or calibrator.misses == misses + 1
