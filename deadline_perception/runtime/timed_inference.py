"""One job through the network against its deadline: plan, re-decide at every operator, and when its image is answered
go on for what the result is still worth.

Nothing here answers an image: a run stops where it cannot be in time, and whoever runs it sees to the answer.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.decision.policy import Choice, Policy
from deadline_perception.engines.segment_run import Network, SegmentRun
from deadline_perception.runtime.job import Decision, Job, ResultSoFar
from deadline_perception.timing.time_model import WCET, FrameTimes

# That are looked at for one plan: the next, the first that the cheapest path fits before, and one more for rounding.
_MOST_IMAGES = 3
LONGEST_PERIOD_MS = (
    1000.0  # images further apart are no stream: a bag that stood still, a camera that was away
)
_DISTANCES = 15  # between images, whose median is their period
# Of the time until the next image, for the programs that hear the answers and bring the images: a network that keeps
# every core busy at real-time priority is heard late though it publishes in time.
LEFT_SHARE = 0.1


@dataclass(frozen=True)
class NextImages:
    """What is known of the images after this one.

    Attributes:
        first_ms: when the next one is expected, on the monotonic clock; inf when nobody knows.
        period_ms: time between two of them, > 0.
    """

    first_ms: float
    period_ms: float


class ImagePeriod:
    """When the next image is to be expected: the median distance of recent ones; safe as long as one thread calls at a
    time.

    Attributes:
        period_ms: time between two images; inf until two have come that belong together.
    """

    def __init__(self) -> None:
        self._distances_ms: deque[float] = deque(maxlen=_DISTANCES)
        self._last_ms = math.nan
        self.period_ms = math.inf

    def observe(self, arrived_ms: float, left_out: int = 0) -> None:
        """Takes in an image.

        Args:
            arrived_ms: time of the monotonic clock.
            left_out: images between the one observed before and this one.
        """
        distance_ms = (arrived_ms - self._last_ms) / (left_out + 1)
        if 0.0 < distance_ms <= LONGEST_PERIOD_MS:
            self._distances_ms.append(distance_ms)
            self.period_ms = statistics.median(self._distances_ms)
        self._last_ms = arrived_ms

    def next_ms(self, at_ms: float) -> float:
        """When the next image after a time is expected; inf while nothing is known.

        An image that is overdue is expected a whole period after it should have come.
        """
        if self.period_ms == math.inf:
            return math.inf
        periods = max(1, math.floor((at_ms - self._last_ms) / self.period_ms) + 1)
        return self._last_ms + periods * self.period_ms


@dataclass(eq=False)
class TimedInference:
    """Takes frames through the network one after the other; holds nothing between two of them but network and policy.

    Args:
        network: `start(image_bgr, path)` gives a run, as `MultiPathDetector` does.
        policy: chooses the paths.
        min_score: objects and classes of a lower score are dropped from every result.
        clock_ms: monotonic clock.
    """

    network: Network
    policy: Policy
    min_score: float = 0.0
    clock_ms: Callable[[], float] = now_ms

    def begin(
        self,
        image_bgr: np.ndarray,
        job: Job,
        *,
        due_ms: float,
        may_abort: bool,
        next_images: NextImages | None = None,
        others: Callable[[], int] = lambda: 0,
    ) -> InferenceRun:
        """Plans one frame; nothing of the network has run yet.

        Where the next images are known, the plan is the best path whose bound has it published before the next one
        comes, and leaves `LEFT_SHARE` of the time until then to other programs; where none does, before the one after,
        and so on until the frame is due. It is kept as long as its bound lets the frame be in time.

        Args:
            image_bgr: uint8 `[H, W, 3]`.
            job: of the image, with its `times`; takes in how the run goes. What its decisions take is reserved in
                proportion to the segments that are left, since those made are in the time that has passed.
            due_ms: time of the monotonic clock at which the network must be done.
            may_abort: the run stops at an operator once not even the shortest expected rest fits, unless its result is
                awaited. (Not once its bound does not: a frame whose bound no longer fits mostly makes it all the same,
                and one whose expected time no longer fits does so half the time.)
            next_images: None where the frame is not to look at them.
            others: says how many other tasks wait; once the image has an answer, if not the best, it takes no more than
                its share of the time, from its begin on.
        """
        times = job.times
        assert times is not None  # it was taken
        job.begun_ms = self.clock_ms()
        job.remaining_ms = due_ms - job.begun_ms - times.reserve.deciding_ms
        plan, until_ms = self._plan(job, times, next_images)
        if not plan.feasible:  # nothing is promised, so time is kept for publishing as it mostly is
            spare_ms = times.reserve.spare_ms
            due_ms = job.due_ms = due_ms + spare_ms
            job.remaining_ms += spare_ms
            plan = self._within(job.remaining_ms, times)._replace(feasible=False)
        check_choice(plan)
        planned_ms = self.clock_ms()
        job.decision_us = (planned_ms - job.begun_ms) * 1000.0
        job.path, job.plan = plan.path, plan  # in this order: who sees a plan sees a path
        return InferenceRun(
            self, image_bgr, job, times, plan, due_ms, until_ms, may_abort, planned_ms, others
        )

    def _plan(
        self,
        job: Job,
        times: FrameTimes,
        next_images: NextImages | None,
    ) -> tuple[Choice, float]:
        """The path to start on, and when it is to end because of the next image; inf without."""
        next_images = next_images or NextImages(math.inf, math.inf)
        outside_ms = times.reserve.publishing_ms + times.reserve.deciding_ms
        image_ms = next_images.first_ms
        for _ in range(_MOST_IMAGES):
            until_ms = (image_ms - job.begun_ms) * (1.0 - LEFT_SHARE) - outside_ms
            if not until_ms < job.remaining_ms:
                return self._within(job.remaining_ms, times), math.inf
            plan = self.policy.plan(until_ms, times.factor)
            if plan.feasible:
                return plan, job.begun_ms + until_ms
            # On to the first image that the path fits before, however many lie between.
            missing_ms = (plan.bound_ms - until_ms) / (1.0 - LEFT_SHARE)
            image_ms += (
                max(1, math.ceil(missing_ms / next_images.period_ms)) * next_images.period_ms
            )
        return self._within(job.remaining_ms, times), math.inf

    def _within(self, remaining_ms: float, times: FrameTimes) -> Choice:
        """The path to start on with so much time; a bound that fits leaves room for interruptions."""
        extra_ms = times.interruption_ms
        plan = self.policy.plan(remaining_ms - extra_ms, times.factor)
        return plan._replace(bound_ms=plan.bound_ms + extra_ms)


@dataclass(eq=False)
class InferenceRun:
    """One planned frame on its way through the network: `until_answer`, then, where it has not ended, `for_tracks`.

    Args:
        inference: plans and decides.
        image_bgr: uint8 `[H, W, 3]`.
        job: of the image, planned.
        times, plan: that it is decided by, and the choice that it starts on.
        due_ms: when the network must be done.
        until_ms: when it is to end because of the next image; inf without.
        may_abort: see `TimedInference.begin`.
        planned_ms: when the plan was made.
        others: see `TimedInference.begin`.

    Attributes:
        ended: every segment has run, and the job has its result.
    """

    inference: TimedInference
    image_bgr: np.ndarray
    job: Job
    times: FrameTimes
    plan: Choice
    due_ms: float
    until_ms: float
    may_abort: bool
    planned_ms: float
    others: Callable[[], int]
    ended: bool = field(default=False, init=False)
    _run: SegmentRun | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.may_abort &= self.job.awaited_ms == -math.inf
        self._segments = self.inference.network.path_space.segments
        self._count = len(self._segments)
        self._rest_ms = self.times.forecast.from_each_ms(
            self.plan.path
        )  # of the path that it is on

    def until_answer(self) -> None:
        """Runs segments until the frame has ended, its image was answered by somebody else, or it cannot be in time
        any more; the job says why."""
        job = self.job
        plan = self.plan
        left_ms = self.due_ms - self.planned_ms
        if job.attempts:
            return
        if not plan.feasible and plan.forecast_ms * self._least > left_ms:
            job.reason = too_late('the frame', plan, self._least, left_ms)
            return
        self._run = run = self.inference.network.start(self.image_bgr, plan.path)
        at_ms: float | None = self.inference.clock_ms()
        while not job.attempts and at_ms is not None:
            job.segment = run.segment
            if run.segment == self._count:
                self._end(run, at_ms, in_time=True)
                return
            at_ms = self._advance(run, at_ms)

    def for_tracks(
        self, until_ms: Callable[[], float], abandoned: Callable[[ExecutionPath, int], str]
    ) -> None:
        """Goes on with a frame whose image is answered, for what its result is worth to the next ones: on the best path
        whose bound fits until then. (On one that was only expected to end, the next image often began late.)

        Args:
            until_ms: says until when the network is not needed for anything better.
            abandoned: says why the rest of a path is not to be run any more; empty while its result is worth something.
        """
        job = self.job
        inference = self.inference
        run = self._run
        if run is None:
            left_ms = until_ms() - inference.clock_ms()
            job.path = path = inference.policy.plan(left_ms, self.times.factor).path
            self._rest_ms = self.times.forecast.from_each_ms(path)
            run = inference.network.start(self.image_bgr, path)
        while run.segment < self._count:
            job.segment = run.segment
            why = abandoned(run.path, run.segment)
            if why:
                job.reason = f'aborted before {self._segments[run.segment].name}: {why}'
                self._close(inference.clock_ms(), math.inf)
                return
            at_ms = inference.clock_ms()
            self._advance(run, at_ms, until_ms() - at_ms)
        self._end(run, inference.clock_ms(), in_time=False)

    def _close(self, ended_ms: float, took_ms: float) -> None:
        """Nothing more of it is run: the policy learns how it went."""
        self.job.ended_ms = ended_ms
        self.inference.policy.observe(took_ms, self.job.remaining_ms)

    @property
    def _least(self) -> float:
        """Factor from the forecast of what is left to the time below which it is not worth a try. An image that has an
        answer already, if not the best, never waits for one that cannot be in time."""
        may_abort = self.may_abort or self.job.so_far is not None
        return _expected_factor(self.plan, self.times) if may_abort else -math.inf

    def _advance(
        self, run: SegmentRun, at_ms: float, for_tracks_ms: float | None = None
    ) -> float | None:
        """Decides on the operator of the next segment, where it has one on this path, and runs it.

        Args:
            run: before that segment.
            at_ms: now.
            for_tracks_ms: time that the network has for what is left where its image is answered already.

        Returns:
            When it ended; None where what is left cannot be in time, the job says why.
        """
        job = self.job
        times = self.times
        number = run.segment
        segment = self._segments[number]
        path = run.path
        decided = path.decided_by_segment[number]
        if decided is not None:
            planned_ms = self._rest_ms
            rest_ms = planned_ms[number]
            progress, factor, extra_ms = times.bound_from(
                number, planned_ms[0] - rest_ms, job.network_ms
            )
            reserve_ms = times.reserve.deciding_ms * (1.0 - number / self._count)
            due_ms = self.due_ms
            others = 0 if job.so_far is None else self.others()
            if others:
                due_ms = job.begun_ms + (due_ms - job.begun_ms) / (1 + others)
            remaining_ms = due_ms - at_ms - reserve_ms
            if for_tracks_ms is not None:
                remaining_ms = for_tracks_ms
            bound_ms = rest_ms * factor
            if self.until_ms < math.inf and bound_ms + extra_ms <= remaining_ms:
                # Planned for what is left until the next image, and so kept: nothing better fits before it.
                choice = Choice(path, rest_ms, bound_ms, True, self.plan.quality)
            else:
                elapsed_ms = at_ms - job.begun_ms
                choice = self.inference.policy.redecide(
                    path, number, remaining_ms - extra_ms, factor, elapsed_ms
                )
            if extra_ms:
                choice = choice._replace(bound_ms=choice.bound_ms + extra_ms)
            decided_ms = self.inference.clock_ms()
            if choice.path is not path:
                path = job.path = choice.path
                run.redirect(path)
                self._rest_ms = times.forecast.from_each_ms(path)
            operator, place = decided
            planned = self.plan.path
            job.decisions.append(
                Decision(
                    operator=operator,
                    segment=number,
                    spent_ms=job.network_ms,
                    progress=progress,
                    changed=path is not planned and path.settings[place] != planned.settings[place],
                    remaining_ms=remaining_ms,
                    forecast_ms=choice.forecast_ms,
                    bound_ms=choice.bound_ms,
                    decision_us=(decided_ms - at_ms) * 1000.0,
                )
            )
            at_ms = decided_ms
            is_too_late = not choice.feasible and for_tracks_ms is None
            if is_too_late and choice.forecast_ms * self._least > remaining_ms:
                job.reason = too_late(segment.name, choice, self._least, remaining_ms)
                if others:
                    job.reason += f', the share beside {others} that wait'
                return None
        job.running = number, segment.phase, at_ms
        took_ms = run.run_segment(at_ms)
        job.done.append((segment.phase, took_ms))
        job.network_ms += took_ms
        if segment.result and path.keys_by_segment[number] is not None:
            job.results = (*job.results, segment.result)
            if number + 1 < self._count:
                job.so_far = ResultSoFar(self._kept(run.result_so_far()), job.results)
        return at_ms + took_ms

    def _end(self, run: SegmentRun, begun_ms: float, in_time: bool) -> None:
        """Takes the result of a run whose segments are done."""
        job = self.job
        phase = self._segments[-1].phase
        job.running = self._count, phase, begun_ms
        result = self._kept(run.result())
        ended_ms = self.inference.clock_ms()
        job.leave(phase, ended_ms - begun_ms)
        job.result = result
        self.ended = True
        self._close(ended_ms, ended_ms - job.begun_ms if in_time else math.inf)

    def _kept(self, result: Any) -> Any:
        min_score = self.inference.min_score
        return result.with_score(min_score) if min_score else result


def _expected_factor(plan: Choice, times: FrameTimes) -> float:
    """From the forecasts of the policy, which may be worst cases, to expected times. A median of recent frames below the
    slowdown says that this is too high; one above it changes nothing, since aborted frames would never lower it again."""
    if times.bounds != WCET or plan.forecast_ms <= 0.0:
        median = 0.0 if times.whole is None else times.whole.recent.median
        return times.slowdown * math.exp(min(median, 0.0))
    return times.expected_ms(plan.path) / plan.forecast_ms


def check_choice(choice: Choice) -> None:
    """Refuses what no policy may expect.

    Raises:
        ValueError: a time is negative or not finite, or the quality lies outside [0, 1].
    """
    if not (0.0 <= choice.forecast_ms < math.inf and 0.0 <= choice.bound_ms < math.inf):
        raise ValueError(
            f'forecast is {choice.forecast_ms} ms and bound {choice.bound_ms} ms of path {choice.path}, '
            f'expected finite times of at least 0'
        )
    if not 0.0 <= choice.quality <= 1.0:
        raise ValueError(f'quality of path {choice.path} is {choice.quality}, expected [0, 1]')


def too_late(what: str, choice: Choice, least: float, remaining_ms: float) -> str:
    """Why a frame cannot be in time before some part of it."""
    if remaining_ms <= 0.0:
        return f'no time for {what}: time was up {-remaining_ms:.1f} ms before'
    return f'no time for {what}: it would take {choice.forecast_ms * least:.1f} ms, {remaining_ms:.1f} ms are left'
