import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from baselines import FixedPath
from invented_networks import InventedNetwork, InventedRun
from path_spaces import BOTH, space_of

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import MODEL, WIDTH, Operator, PathSpace, Segment
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.policy import Choice
from deadline_perception.engines.segment_run import SegmentRun
from deadline_perception.runtime.job import Job, Outcome, ResultSoFar, StampReading
from deadline_perception.runtime.timed_inference import (
    LEFT_SHARE,
    ImagePeriod,
    NextImages,
    TimedInference,
)
from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.path_bound import SegmentForecast
from deadline_perception.timing.recent_times import RecentTimes, StartRatio
from deadline_perception.timing.time_model import CALIBRATED, WCET, FrameReserve, FrameTimes

SPACE = space_of(1, 1, widths=BOTH, pyramid_widths=BOTH, proposals=(10, 50), heads=2)
IMAGE = np.zeros((4, 6, 3), dtype=np.uint8)


def own_ms(name, path):
    """What a segment costs by its settings."""
    if name.startswith('skip'):
        return 0.0 if path[name] == 'skip' else 10.0 * path['width']
    if name.startswith('stage'):
        return 10.0 * path['width']
    return {
        'pre': 1.0,
        'pyramid': 4.0 * path['pyramid_width'],
        'rpn': 2.0,
        'regions': 0.0,
        'proposals': 1.0 + path['proposals'] / 50,
        'head': 3.0 * (int(path['head']) + 1),
        'post': 1.0,
    }[name]


TIMES_MS = {
    SPACE.key(number, path): own_ms(segment.name, path)
    for path in SPACE
    for number, segment in enumerate(SPACE.segments)
}


FORECAST = SegmentForecast(SPACE, TIMES_MS)
CHEAPEST_MS = FORECAST.forecast_ms(SPACE.smallest)
QUALITY = PathQuality.from_forecast(SPACE, FORECAST)
POLICY = FrontierPolicy(SPACE, FORECAST, QUALITY)


class CountingNetwork:
    """Lets a clock advance by the forecast times a factor, in place of computing."""

    path_space = SPACE

    def __init__(self, factor_at=lambda segment: 1.0):
        self.now_ms = 1000.0
        self.factor_at = factor_at
        self.ran = []

    def clock_ms(self):
        return self.now_ms

    def start(self, image, path):
        return CountingRun(self, path)


class CountingRun(SegmentRun):
    compute = None  # a segment takes the time that it is said to

    def __init__(self, network, path):
        super().__init__(SPACE, path)
        self.network = network

    def run_segment(self, begun_ms):
        network, segment = self.network, self.segment
        took_ms = FORECAST.segment_ms(segment, self.path) * network.factor_at(segment)
        network.now_ms += took_ms
        network.ran.append(SPACE.segments[segment].name)
        self.segment += 1
        return took_ms

    def result(self):
        return Detections([[0, 0, 2, 2]], [0.9], [1])


def run(
    network,
    budget_ms,
    *,
    may_abort=True,
    slowdown=1.0,
    calibration_factor=1.0,
    policy=POLICY,
    deciding_ms=0.0,
    publishing_ms=0.0,
    spare_ms=0.0,
    interruption_ms=0.0,
    next_images=None,
    worst=None,
    whole=None,
    so_far=None,
    abandoned=lambda: '',
    **options,
):
    """The record of a job as its network ends, and the segments that had run when its image was given up, else None."""
    begun_ms, given_up_after = network.now_ms, None
    job = Job(IMAGE, begun_ms, StampReading(0.0, '', 0))
    job.so_far = so_far
    factor, reserve = (
        slowdown * calibration_factor,
        FrameReserve(deciding_ms, publishing_ms, spare_ms),
    )
    further = {'worst': worst, 'bounds': CALIBRATED if worst is None else WCET, 'whole': whole}
    job.times = FrameTimes(FORECAST, slowdown, factor, reserve, interruption_ms, **further)
    inference = TimedInference(network, policy, clock_ms=network.clock_ms)
    options |= {'may_abort': may_abort, 'next_images': next_images}
    ran = inference.begin(IMAGE, job, due_ms=network.now_ms + budget_ms, **options)
    ran.until_answer()
    if not ran.ended:
        given_up_after = list(network.ran)
        ran.for_tracks(lambda: begun_ms, lambda path, segment: abandoned())
    return job.record(Outcome.DETECTED, network.now_ms), given_up_after


def test_time_for_decisions_is_reserved_from_the_plan_and_less_of_it_at_each_later_operator():
    without, frame = (
        run(CountingNetwork(), 1000.0, deciding_ms=deciding_ms)[0] for deciding_ms in (0.0, 10.0)
    )
    assert (without.remaining_ms, frame.remaining_ms) == (1000.0, 990.0)
    for before, after in zip(without.decisions, frame.decisions, strict=True):
        reserved_ms = 10.0 - 10.0 * after.segment / len(SPACE.segments)
        assert before.remaining_ms - after.remaining_ms == pytest.approx(reserved_ms)


def test_where_nothing_fits_what_publishing_mostly_spares_is_time_for_the_network():
    network = CountingNetwork(lambda segment: 0.0)
    frame, given_up_after = run(network, 0.5 * CHEAPEST_MS, spare_ms=2.0 * CHEAPEST_MS)
    assert given_up_after is None and frame.result is not None
    assert not frame.plan.feasible  # though the bound would fit now: nothing is promised
    assert frame.remaining_ms == pytest.approx(2.5 * CHEAPEST_MS)


def test_stops_at_the_next_boundary_once_its_result_is_worth_nothing():
    network = CountingNetwork()
    frame, _ = run(network, 5.0, abandoned=lambda: 'enough' if len(network.ran) >= 3 else '')
    assert len(network.ran) == 3 and frame.result is None
    assert frame.reason.endswith(f'aborted before {SPACE.segments[frame.segment].name}: enough')


def test_a_frame_that_may_come_late_runs_to_its_end_on_the_cheapest_path():
    frame, given_up_after = run(CountingNetwork(), 5.0, may_abort=False)
    assert frame.path == SPACE.smallest
    assert frame.result is not None and given_up_after is None


@pytest.mark.parametrize(
    'median, budget, is_run',
    [(-0.5, 1.5, True), (0.0, 1.5, False), (0.5, 1.5, False), (0.5, 2.1, True)],
)
def test_a_slowdown_above_the_recent_pace_aborts_nothing_that_fits(median, budget, is_run):
    """Under load it was 3.5 where frames took 1.9 times their forecast."""
    whole = PartBound(BoundCalibrator(0.01, 0.05, 2.0), RecentTimes(0.01, StartRatio(median, 0.1)))
    budget_ms = budget * CHEAPEST_MS
    frame, given_up_after = run(
        CountingNetwork(), budget_ms, slowdown=2.0, calibration_factor=1.3, whole=whole
    )
    assert not frame.plan.feasible
    assert (given_up_after is None) == is_run


def test_a_frame_planned_by_worst_cases_is_aborted_by_its_expected_time():
    worst = SegmentForecast(SPACE, {key: 3.0 * ms for key, ms in TIMES_MS.items()})
    slow = CountingNetwork(lambda segment: 30.0 if segment == 1 else 1.0)
    policy = FrontierPolicy(SPACE, worst, QUALITY)

    def record(budget_ms, network=None):
        return run(network or CountingNetwork(), budget_ms, policy=policy, worst=worst)

    frame, _ = record(4.0 * CHEAPEST_MS)
    assert frame.plan.feasible and frame.plan.bound_ms == worst.forecast_ms(frame.plan.path)
    frame, given_up_after = record(1.1 * CHEAPEST_MS)
    assert not frame.plan.feasible and frame.plan.forecast_ms == pytest.approx(3.0 * CHEAPEST_MS)
    assert given_up_after is None and frame.result is not None
    frame, given_up_after = record(0.9 * CHEAPEST_MS)
    assert given_up_after == []
    times = f'it would take {CHEAPEST_MS:.1f} ms, {0.9 * CHEAPEST_MS:.1f} ms are left'
    assert frame.reason == f'no time for the frame: {times}'
    frame, given_up_after = record(4.0 * CHEAPEST_MS, slow)
    assert given_up_after == ['pre', 'stage1']
    assert re.fullmatch(r'no time for skip0: time was up \d+\.\d ms before', frame.reason)


def test_a_plan_leaves_room_for_interruptions_and_says_so():
    budget_ms = 1.2 * FORECAST.forecast_ms(SPACE.largest)
    frame, _ = run(CountingNetwork(), budget_ms, interruption_ms=0.3 * budget_ms)
    assert frame.plan.feasible and frame.path != SPACE.largest
    extra_ms = frame.plan.bound_ms - frame.plan.forecast_ms
    assert extra_ms == pytest.approx(0.3 * budget_ms) and frame.plan.bound_ms <= budget_ms
    assert frame.bound_ms == pytest.approx(frame.plan.bound_ms)
    for decision in frame.decisions:
        assert decision.bound_ms == pytest.approx(decision.forecast_ms + extra_ms)


def test_the_policy_is_told_what_the_frame_took_and_had_and_that_it_was_given_up():
    policy, told = FixedPath(SPACE.smallest, FORECAST, QUALITY), []
    policy.observe = lambda *times_ms: told.append(times_ms)
    for budget_ms, may_abort in ((1000.0, True), (5.0, False), (5.0, True)):
        run(CountingNetwork(), budget_ms, may_abort=may_abort, policy=policy)
    cheapest_ms = pytest.approx(CHEAPEST_MS)
    assert told == [(cheapest_ms, 1000.0), (cheapest_ms, 5.0), (math.inf, 5.0)]


def test_operators_of_the_part_that_runs_are_decided_and_no_others():
    space = PathSpace(
        (
            Operator('model', MODEL, ('one', 'other'), 'm'),
            Operator('small', WIDTH, (0.5, 1.0), 'a'),
            Operator('large', WIDTH, (0.5, 1.0), 'b'),
        ),
        (
            Segment('choose', 'pre', 'model'),
            Segment('one', 'conv', 'small', ('small',), only_on=('model', 'one')),
            Segment('other', 'conv', 'large', ('large',), only_on=('model', 'other')),
        ),
    )
    forecast = SegmentForecast(space, dict.fromkeys(space.carriers(), 1.0))
    policy = FrontierPolicy(space, forecast, PathQuality.from_forecast(space, forecast))
    job = Job(IMAGE, 0.0, StampReading(0.0, '', 0))
    job.times = FrameTimes(forecast)
    network = InventedNetwork(space)
    network.start = lambda image, path: InventedRun(network, image, space.largest)
    inference = TimedInference(network, policy)
    inference.begin(IMAGE, job, due_ms=math.inf, may_abort=False).until_answer()
    assert [decision.operator for decision in job.decisions] == ['model', 'large']


def spared(network, first_ms, period_ms=100.0):
    return NextImages(network.now_ms + first_ms, period_ms)


AROUND_MS = {'deciding_ms': 4.0, 'publishing_ms': 8.0}
# In which not even the cheapest path ends.
SHORT_MS = CHEAPEST_MS / (1.0 - LEFT_SHARE) - 1.0


@pytest.mark.parametrize(
    'budget_ms, images_ms, options, planned_ms',
    [
        # Until the next image.
        (1000.0, (45.0,), {'calibration_factor': 1.3}, 45.0 * (1.0 - LEFT_SHARE)),
        (1000.0, (90.0,), {'slowdown': 2.0}, 90.0 * (1.0 - LEFT_SHARE)),
        # The image after the next one, where no path ends before that.
        (1000.0, (SHORT_MS, 20.0), {}, (SHORT_MS + 20.0) * (1.0 - LEFT_SHARE)),
        # What the node does around the network is done before the next image too.
        (1000.0, (60.0,), AROUND_MS, 60.0 * (1.0 - LEFT_SHARE) - 12.0),
        # A deadline before the next image alone counts.
        (45.0, (51.0,), {'calibration_factor': 1.3}, 45.0),
        (45.0, (500.0,), {'calibration_factor': 1.3}, 45.0),
        (45.0, (math.inf,), {'calibration_factor': 1.3}, 45.0),
    ],
)
def test_the_time_that_a_plan_may_take(budget_ms, images_ms, options, planned_ms):
    network, slowdown = CountingNetwork(), options.get('slowdown', 1.0)
    network.factor_at = lambda segment: slowdown
    frame, _ = run(network, budget_ms, next_images=spared(network, *images_ms), **options)
    factor = options.get('calibration_factor', 1.0) * slowdown
    assert frame.plan.path == POLICY.plan(planned_ms, factor).path
    assert frame.plan.feasible
    assert frame.plan.bound_ms == pytest.approx(factor * frame.plan.forecast_ms)
    assert network.now_ms <= 1000.0 + planned_ms
    assert frame.remaining_ms == budget_ms - options.get('deciding_ms', 0.0)


def test_what_was_planned_before_the_next_image_grows_no_longer_on_the_way():
    """A frame was planned in the time until the next image, and then went on with whatever its deadline allowed."""
    network, policy = CountingNetwork(), FrontierPolicy(SPACE, FORECAST, QUALITY)
    policy.redecide = lambda *given: policy.plan(1000.0, 1.0)
    frame, _ = run(network, 1000.0, next_images=spared(network, 45.0), policy=policy)
    assert frame.path == frame.plan.path != SPACE.largest
    assert network.now_ms <= 1045.0


@pytest.mark.parametrize('period_ms, factor', [(100.0, 1e-9), (1e-9, 1.0), (1e-300, 1.0)])
def test_the_image_to_end_before_is_found_in_a_few_steps(period_ms, factor):
    """A slowdown of 1e15 made the factor 1e-9, and stepping from image to image took a thousand million rounds."""
    network, policy, plans = CountingNetwork(), FrontierPolicy(SPACE, FORECAST, QUALITY), []
    policy.plan = lambda *given: plans.append(given) or POLICY.plan(*given)
    next_images = spared(network, 1.0, period_ms)
    given = {'calibration_factor': factor, 'policy': policy, 'next_images': next_images}
    frame, _ = run(network, 300.0, **given)
    assert frame.result is not None and len(plans) <= 5


def test_an_image_with_an_answer_leaves_others_that_wait_their_share_of_the_time():
    found = ResultSoFar(Detections.none(), ('coarse',))
    for so_far, left_ms in ((None, 8000.0), (found, 2000.0)):
        frame, _ = run(CountingNetwork(), 8000.0, so_far=so_far, others=lambda: 3)
        assert frame.decisions[0].remaining_ms == pytest.approx(left_ms, rel=0.01)


def test_the_time_of_decisions_is_told_in_microseconds():
    network, policy = CountingNetwork(), FrontierPolicy(SPACE, FORECAST, QUALITY)

    def slow(decide, took_ms):
        def decide_later(*given):
            network.now_ms += took_ms
            return decide(*given)

        return decide_later

    policy.plan, policy.redecide = slow(POLICY.plan, 2.0), slow(POLICY.redecide, 0.5)
    frame, _ = run(network, 1000.0, policy=policy)
    assert frame.decision_us == pytest.approx(2000.0)
    assert [decision.decision_us for decision in frame.decisions] == pytest.approx([500.0] * 6)


def test_the_median_distance_is_the_period_and_neither_one_late_image_nor_a_pause_matters():
    for arrivals_ms, next_by_now_ms in (
        # At 600 it should have come just now.
        ((0.0, 100.0, 200.0, 380.0, 400.0, 500.0), {530: 600, 600: 700, 915: 1000, 480: 600}),
        ((0.0, 100.0, 200.0, 9000.0), {9001: 9100}),
    ):
        period = ImagePeriod()
        for arrived_ms in arrivals_ms:
            period.observe(arrived_ms)
        assert period.period_ms == 100.0
        assert {now_ms: period.next_ms(now_ms) for now_ms in next_by_now_ms} == next_by_now_ms


@pytest.mark.parametrize(
    'times_ms, quality, said',
    [
        ((-1.0, 1.0), 0.5, 'forecast is -1.0 ms and bound 1.0 ms'),
        ((math.nan, 1.0), 0.5, 'forecast is nan ms and bound 1.0 ms'),
        ((1.0, math.inf), 0.5, 'forecast is 1.0 ms and bound inf ms'),
        ((1.0, -0.1), 0.5, 'forecast is 1.0 ms and bound -0.1 ms'),
        ((1.0, 1.0), -0.1, 'is -0.1, expected'),
        ((1.0, 1.0), 1.1, 'is 1.1, expected'),
        ((1.0, 1.0), math.nan, 'is nan, expected'),
    ],
)
def test_a_plan_that_no_policy_may_make_is_refused(times_ms, quality, said):
    plan = Choice(SPACE.largest, *times_ms, True, quality)
    with pytest.raises(ValueError, match=said):
        run(CountingNetwork(), 50.0, policy=SimpleNamespace(plan=lambda *left: plan))
