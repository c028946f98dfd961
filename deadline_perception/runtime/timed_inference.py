"""One job through the network against its deadline: plan, re-decide at every operator, and when time has run out go
on for what the result is still worth.

The network is duck-typed (`path_space`, `start(image, path) -> run`), so everything here runs without torch and is
tested with a network that only counts time.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.decision.policy import Choice, Policy
from deadline_perception.runtime.job import Decision, Job
from deadline_perception.timing.time_model import FrameTimes

_ROUNDING = 1.0 + 1e-9  # that of a bound does not make the plan too long
# That are looked at for one plan: the next, the first that the cheapest path fits before, and one more for rounding.
_MOST_IMAGES = 3
LONGEST_PERIOD_MS = (
    1000.0  # images further apart are no stream: a bag that stood still, a camera that was away
)
_DISTANCES = 15  # between images, whose median is their period


class Late(Protocol):
    """What is to become of a frame whose own result comes too late; asked by the thread that runs the network, once
    the frame is aborted or has attempts to answer it."""

    def abort(self, job: Job) -> None:
        """The frame cannot be in time any more: its image is to be answered by something else."""

    def until_ms(self) -> float:
        """Time of the monotonic clock until which the network is not needed for anything better."""

    def abandoned(self, job: Job, path: ExecutionPath, segment: int) -> str:
        """Why the rest of a path is not to be run any more; empty while its result is worth something."""


class WhateverItTakes(Late):
    """Of a frame that nobody answers but itself, and that may not be aborted: it is run to its end."""


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


@dataclass
class _Terms:
    """What a frame is decided under once it is planned: when it is due, the image before which it should end, the
    factor to its best case, its times, the share of its bound that has to fit, and the forecast of the path that it is
    on; see `TimedInference.run`.
    """

    due_ms: float
    until_ms: float
    least: float
    times: FrameTimes
    likely: float
    path_ms: float


class TimedInference:
    """Runs frames one after the other; holds nothing between two frames but the network and the policy.

    Args:
        network: `start(image_bgr, path)` gives a run, as `MultiPathDetector` does.
        path_space: the network's.
        policy: chooses the paths.
        min_score: objects and classes of a lower score are left out of every result.
        clock_ms: monotonic clock.
    """

    def __init__(
        self,
        network,
        path_space: PathSpace,
        policy: Policy,
        *,
        min_score: float = 0.0,
        clock_ms: Callable[[], float] = now_ms,
    ) -> None:
        self._network = network
        self._segments, self._applies = path_space.segments, path_space.applies
        self._has_alternatives = path_space.has_alternatives
        self._places = [path_space.place.get(segment.operator) for segment in path_space.segments]
        self._policy, self._min_score, self._clock_ms = policy, min_score, clock_ms

    def run(
        self,
        image_bgr: np.ndarray,
        job: Job,
        late: Late,
        *,
        due_ms: float,
        may_abort: bool,
        next_images: NextImages | None = None,
    ) -> None:
        """Takes one frame through the network.

        Where the next images are known, the plan is the best path that is expected to end before the next one comes;
        where none is, before the one after, and so on until the frame is due. A re-decision may take as long as the
        plan. A frame whose image has been answered, or that is aborted here, goes on with the best path that is
        expected, not bound, to end before `late.until_ms()`.

        Args:
            image_bgr: uint8 `[H, W, 3]`.
            job: of the image, with its `times`; takes in how the run goes. Its result stays None when it is aborted.
                Where the p90 share of its times is below 1 the policy may plan what later operators can take back; not
                where it is to end before an image, which needs no bound. What its decisions take is reserved in
                proportion to the segments that are left, since those made are in the time that has passed.
            late: what to do when time has run out.
            due_ms: time of the monotonic clock at which the network must be done.
            may_abort: do so at an operator once not even the best case of what remains fits. (Not once its bound does
                not: a frame whose bound no longer fits mostly makes it all the same, and one whose expected time no
                longer fits does so half the time.)
            next_images: None where the frame is not to look at them.
        """
        policy, times = self._policy, job.times
        job.begun_ms = self._clock_ms()
        job.remaining_ms = due_ms - job.begun_ms - times.reserve.deciding_ms
        plan, until_ms = self._plan(job, next_images)
        planned_ms = self._clock_ms()
        job.decision_us = (planned_ms - job.begun_ms) * 1000.0
        job.path, job.plan = plan.path, plan  # in this order: who sees a plan sees a path
        is_late, least = job.attempts > 0, times.p10_factor if may_abort else -math.inf
        if not is_late and not plan.feasible and plan.forecast_ms * least > due_ms - planned_ms:
            job.reason = self._too_late('the frame', plan, least, due_ms - planned_ms)
            late.abort(job)
            is_late = True
        if is_late:
            job.path = policy.plan(late.until_ms() - self._clock_ms(), times.slowdown).path
        likely = times.p90_share if until_ms == math.inf else 1.0
        terms = _Terms(due_ms, until_ms, least, times, likely, times.forecast.forecast_ms(job.path))
        is_late = self._run_segments(
            self._network.start(image_bgr, job.path), job, late, is_late, terms
        )
        job.ended_ms = self._clock_ms()
        took_ms = math.inf if job.result is None or is_late else job.ended_ms - job.begun_ms
        policy.observe(took_ms, job.remaining_ms)

    def _plan(self, job: Job, next_images: NextImages | None) -> tuple[Choice, float]:
        """The path to start on, and when the image comes before which it is expected to end; inf without any."""
        policy, times = self._policy, job.times
        factor, calibration_factor = times.factor, times.factor / times.slowdown
        image_ms = math.inf if next_images is None else next_images.first_ms
        for _ in range(_MOST_IMAGES):
            # Of the bound only the calibration factor lies above the expected time.
            until_image_ms = (image_ms - job.begun_ms) * calibration_factor
            if not until_image_ms < job.remaining_ms:
                return policy.plan(job.remaining_ms, factor, times.p90_share), math.inf
            plan = policy.plan(until_image_ms, factor)
            if plan.feasible:
                return plan, image_ms
            # On to the first image that the path fits before, however many lie between.
            missing_ms = (plan.bound_ms - until_image_ms) / calibration_factor
            image_ms += (
                max(1, math.ceil(missing_ms / next_images.period_ms)) * next_images.period_ms
            )
        return policy.plan(job.remaining_ms, factor, times.p90_share), math.inf

    def _run_segments(self, run, job: Job, late: Late, is_late: bool, terms: _Terms) -> bool:
        """Runs what there is to run. Returns whether the frame was late before its last segment."""
        count, at_ms = len(self._segments), self._clock_ms()
        while run.segment < count:
            job.segment, segment = run.segment, self._segments[run.segment]
            is_late = is_late or job.attempts > 0
            if is_late:
                abandoned = late.abandoned(job, run.path, run.segment)
                if abandoned:
                    job.reason = f'aborted before {segment.name}: {abandoned}'
                    return True
                at_ms = self._clock_ms()
            comes_to_it = not self._has_alternatives or self._applies(run.segment, run.path)
            if segment.operator is not None and comes_to_it:
                is_late, at_ms = self._decide(run, job, late, is_late, at_ms, terms)
            job.running = run.segment, segment.phase, at_ms
            took_ms = run.run_segment(at_ms)
            job.leave(segment.phase, took_ms)
            at_ms += took_ms
        phase = self._segments[-1].phase
        job.running = count, phase, at_ms
        result = run.result()
        if self._min_score:
            result = result.with_score(self._min_score)
        job.leave(phase, self._clock_ms() - at_ms)
        job.result = result
        return is_late

    def _decide(
        self, run, job: Job, late: Late, is_late: bool, at_ms: float, terms: _Terms
    ) -> tuple[bool, float]:
        """Decides the operator of the next segment. Returns whether the frame is late, and when that was decided."""
        times, segment = terms.times, run.segment
        rest_ms = times.forecast.forecast_ms(run.path, segment)
        progress = times.progress(terms.path_ms - rest_ms, job.network_ms)
        if not is_late:
            factor = times.factor_from(segment, progress)
            reserve_ms = times.reserve.deciding_ms * (1.0 - segment / len(self._segments))
            limit_ms = remaining_ms = terms.due_ms - at_ms - reserve_ms
            if (
                terms.until_ms < math.inf
            ):  # as planned, or until the image before which it should end if that is later
                until_ms = (terms.until_ms - at_ms) * factor / times.slowdown
                limit_ms = min(remaining_ms, max(until_ms, rest_ms * factor * _ROUNDING))
        while True:
            if is_late:  # for what the result is still worth
                factor, limit_ms = times.slowdown, late.until_ms() - at_ms
                remaining_ms = limit_ms
            choice = self._policy.redecide(
                run.path,
                segment,
                limit_ms,
                factor,
                at_ms - job.begun_ms,
                1.0 if is_late else terms.likely,
            )
            decided_ms = self._clock_ms()
            if choice.path != run.path:
                run.redirect(choice.path)
                job.path, terms.path_ms = choice.path, times.forecast.forecast_ms(choice.path)
            changed = (
                choice.path.settings[self._places[segment]]
                != job.plan.path.settings[self._places[segment]]
            )
            job.decisions.append(
                Decision(
                    self._segments[segment].operator,
                    segment,
                    job.network_ms,
                    progress,
                    changed,
                    remaining_ms,
                    choice.forecast_ms,
                    choice.bound_ms,
                    (decided_ms - at_ms) * 1000.0,
                )
            )
            if is_late or choice.feasible or choice.forecast_ms * terms.least <= remaining_ms:
                return is_late, decided_ms
            job.reason = self._too_late(
                self._segments[segment].name, choice, terms.least, remaining_ms
            )
            late.abort(job)
            is_late, at_ms = True, self._clock_ms()  # an answer in its place takes time

    @staticmethod
    def _too_late(what: str, choice: Choice, least: float, remaining_ms: float) -> str:
        return (
            f'too late before {what}: the rest takes {choice.forecast_ms * least:.1f} ms at best, '
            f'{remaining_ms:.1f} ms left'
        )
