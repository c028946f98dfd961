"""One frame through the network against its deadline: plan, re-decide at every operator, and when time has run out go
on for what the result is still worth.

The network is duck-typed (`path_space`, `start(image, path) -> run`), so everything here runs without torch and is
tested with a network that only counts time.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deadline_perception.decision.policy import Choice, Policy
from deadline_perception.execution_path import ExecutionPath, PathSpace
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.latency.time_model import FrameTimes
from deadline_perception.runtime.deadline import left_ms

_ROUNDING = 1.0 + 1e-9  # that of a bound does not make the plan too long
# That are looked at for one plan: the next, the first that the cheapest path fits before, and one more for rounding.
_MOST_IMAGES = 3


@dataclass(frozen=True)
class Decision:
    """What one operator decided while the frame was running.

    Attributes:
        operator: its name, such as `skip2`.
        segment: index of the segment that it decided.
        spent_ms: time inside the network before it.
        changed: its setting differs from the one planned before the frame.
        remaining_ms: time left before the frame is due.
        forecast_ms: expected time of all that remained to run, over the slowdown.
        bound_ms: bound of it.
        decision_us: time the decision took.
    """

    operator: str
    segment: int
    spent_ms: float
    changed: bool
    remaining_ms: float
    forecast_ms: float
    bound_ms: float
    decision_us: float


@dataclass(frozen=True, eq=False)
class TimedFrame:
    """How far a frame came, and where its time went.

    Attributes:
        plan: the choice before the frame started; None when it never came to one.
        path: the path that ran, with all re-decisions; None without a plan.
        remaining_ms: time left when the path was planned.
        slowdown: factor by which contention stretched the forecast.
        decision_us: time of the planning.
        decisions: the re-decisions, in the order of execution.
        phase_ms: time per phase of the network, what was running when the frame was looked at included.
        elapsed_ms: planning to now.
        result: what the network gave; None when it did not finish.
        reason: why it could not be in time or was aborted, empty otherwise.
        segment: index of the segment that it was aborted before, or that is running.
    """

    plan: Choice | None
    path: ExecutionPath | None
    remaining_ms: float
    slowdown: float
    decision_us: float
    decisions: tuple[Decision, ...]
    phase_ms: dict[str, float]
    elapsed_ms: float
    result: object | None
    reason: str
    segment: int

    @property
    def network_ms(self) -> float:
        """Time inside the network."""
        return sum(self.phase_ms.values())

    @property
    def decision_ms(self) -> float:
        """Planning, all re-decisions and the loop around them."""
        return max(0.0, self.elapsed_ms - self.network_ms)


class FrameProgress:
    """A running frame, as another thread may look at it: `look` never blocks the thread that runs the network.

    Args:
        phases: of the network.
    """

    def __init__(self, phases: tuple[str, ...] = ()) -> None:
        self._phases = phases
        self.plan: Choice | None = None
        self.path: ExecutionPath | None = None
        self.remaining_ms = 0.0
        self.slowdown = 1.0
        self.decision_us = 0.0
        self.begun_ms: float | None = None
        self.ended_ms: float | None = None
        self.result: object | None = None
        self.reason = ''
        self.segment = 0
        self.spent_ms = 0.0
        self._decisions: list[Decision] = []
        self._done: list[tuple[str, float]] = []
        self._running: tuple[int, str, float] | None = None

    def decide(self, decision: Decision) -> None:
        """Notes a re-decision."""
        self._decisions.append(decision)

    def enter(self, phase: str, at_ms: float) -> None:
        """Notes that the network begins a segment of a phase."""
        self._running = (len(self._done), phase, at_ms)

    def leave(self, phase: str, took_ms: float) -> None:
        """Notes that the segment is done."""
        self._done.append((phase, took_ms))
        self.spent_ms += took_ms

    def look(self, at_ms: float) -> TimedFrame:
        """The frame as it stands at a time of the monotonic clock."""
        end_ms = at_ms if self.ended_ms is None else self.ended_ms
        done, running = list(self._done), self._running
        phase_ms = dict.fromkeys(self._phases, 0.0)
        for phase, took_ms in done:
            phase_ms[phase] = phase_ms.get(phase, 0.0) + took_ms
        if running is not None and running[0] == len(done):
            phase_ms[running[1]] = phase_ms.get(running[1], 0.0) + max(0.0, end_ms - running[2])
        elapsed_ms = 0.0 if self.begun_ms is None else max(0.0, end_ms - self.begun_ms)
        return TimedFrame(self.plan, self.path, self.remaining_ms, self.slowdown, self.decision_us,
                          tuple(self._decisions), phase_ms, elapsed_ms, self.result, self.reason, self.segment)


class Late(Protocol):
    """What is to become of a frame whose own result comes too late; asked by the thread that runs the network."""

    def give_up(self) -> None:
        """The frame cannot be in time any more: its image is to be answered by something else."""

    def is_answered(self) -> bool:
        """Its image has been answered."""

    def until_ms(self) -> float:
        """Time of the monotonic clock until which the network is not needed for anything better."""

    def abandoned(self, path: ExecutionPath, segment: int) -> str:
        """Why the rest of a path is not to be run any more; empty while its result is worth something."""


class WhateverItTakes(Late):
    """Of a frame that nobody answers but itself: it is run to its end."""

    def is_answered(self) -> bool:
        """See `Late`: never."""
        return False


@dataclass(frozen=True)
class NextImages:
    """What is known of the images after this one.

    Attributes:
        first_ms: when the next one is expected, on the monotonic clock; inf when nobody knows.
        period_ms: time between two of them, > 0.

    Raises:
        ValueError: the period is not above 0.
    """

    first_ms: float
    period_ms: float

    def __post_init__(self) -> None:
        if not self.period_ms > 0:
            raise ValueError(f'period of the images is {self.period_ms} ms, expected more than 0')


@dataclass(frozen=True)
class _Terms:
    """What a frame is decided under once it is planned: when it is due, the image before which it should end, the
    factor to its best case, its times, and the share of its bound that has to fit; see `TimedInference.run`.
    """

    due_ms: float
    until_ms: float
    least: float
    times: FrameTimes
    likely: float


class TimedInference:
    """Runs frames one after the other; holds nothing between two frames but the network and the policy.

    Args:
        network: `start(image_bgr, path)` gives a run, as `MultiPathDetector` does.
        path_space: the network's.
        policy: chooses the paths.
        finish: made of every result.
        clock_ms: monotonic clock.
    """

    def __init__(self, network, path_space: PathSpace, policy: Policy, *,
                 finish: Callable[[object], object] = lambda result: result,
                 clock_ms: Callable[[], float] = now_ms) -> None:
        self._network = network
        self._segments, self._applies = path_space.segments, path_space.applies
        self._places = [path_space.place.get(segment.operator) for segment in path_space.segments]
        self._policy = policy
        self._finish = finish
        self._clock_ms = clock_ms

    def run(self, image_bgr: np.ndarray, progress: FrameProgress, late: Late, *, due_ms: float, times: FrameTimes,
            may_give_up: bool, next_images: NextImages | None = None) -> TimedFrame:
        """Takes one frame through the network.

        Where the next images are known, the plan is the best path that is expected to end before the next one comes;
        where none is, before the one after, and so on until the frame is due. A re-decision may take as long as the
        plan. A frame whose image has been answered, or is given up here, goes on with the best path that is expected,
        not bound, to end before `late.until_ms()`.

        Args:
            image_bgr: uint8 `[H, W, 3]`.
            progress: a fresh one; another thread may look at it meanwhile.
            late: what to do when time has run out.
            due_ms: time of the monotonic clock at which the network must be done.
            times: of this frame. Where its share for p90 is below 1 the policy may plan what later operators can take
                back; not for frames that are to end before an image, which needs no bound. What its decisions take is
                reserved in proportion to the segments that are left, since those made are in the time that has passed.
            may_give_up: do so at an operator once not even the best case of what remains fits. (Not once its bound does
                not: a frame whose bound no longer fits mostly makes it all the same, and one whose expected time no
                longer fits does so half the time.)
            next_images: None where the frame is not to look at them.

        Returns:
            The frame; its result is None when it was aborted.
        """
        policy, progress.slowdown = self._policy, times.slowdown
        progress.begun_ms = self._clock_ms()
        progress.remaining_ms = left_ms(due_ms, progress.begun_ms, times.reserve.deciding_ms)
        plan, until_ms = self._plan(progress, times, next_images)
        planned_ms = self._clock_ms()
        progress.decision_us = (planned_ms - progress.begun_ms) * 1000.0
        progress.plan, progress.path = plan, plan.path
        is_late, least = late.is_answered(), times.p10_factor if may_give_up else -math.inf
        if not is_late and not plan.feasible and plan.forecast_ms * least > left_ms(due_ms, planned_ms):
            progress.reason = self._too_late('the frame', plan, least, left_ms(due_ms, planned_ms))
            late.give_up()
            is_late = True
        if is_late:
            progress.path = policy.plan(left_ms(late.until_ms(), self._clock_ms()), times.slowdown).path
        terms = _Terms(due_ms, until_ms, least, times, times.p90_share if until_ms == math.inf else 1.0)
        is_late = self._run_segments(self._network.start(image_bgr, progress.path), progress, late, is_late, terms)
        progress.ended_ms = self._clock_ms()
        frame = progress.look(progress.ended_ms)
        policy.observe(math.inf if frame.result is None or is_late else frame.elapsed_ms, frame.remaining_ms)
        return frame

    def _plan(self, progress: FrameProgress, times: FrameTimes,
              next_images: NextImages | None) -> tuple[Choice, float]:
        """The path to start on, and when the image comes before which it is expected to end; inf without any."""
        policy, factor, calibration_factor = self._policy, times.factor, times.factor / times.slowdown
        image_ms = math.inf if next_images is None else next_images.first_ms
        for _ in range(_MOST_IMAGES):
            # Of the bound only the calibration factor lies above the expected time.
            until_image_ms = left_ms(image_ms, progress.begun_ms) * calibration_factor
            if not until_image_ms < progress.remaining_ms:
                return policy.plan(progress.remaining_ms, factor, times.p90_share), math.inf
            plan = policy.plan(until_image_ms, factor)
            if plan.feasible:
                return plan, image_ms
            # On to the first image that the path fits before, however many lie between.
            missing_ms = (plan.bound_ms - until_image_ms) / calibration_factor
            image_ms += max(1, math.ceil(missing_ms / next_images.period_ms)) * next_images.period_ms
        return policy.plan(progress.remaining_ms, factor, times.p90_share), math.inf

    def _run_segments(self, run, progress: FrameProgress, late: Late, is_late: bool, terms: _Terms) -> bool:
        """Runs what there is to run. Returns whether the frame was late before its last segment."""
        count = len(self._segments)
        while not run.finished:
            progress.segment = run.segment
            segment = self._segments[run.segment]
            is_late = is_late or late.is_answered()
            abandoned = late.abandoned(run.path, run.segment) if is_late else ''
            if abandoned:
                progress.reason = f'aborted before {segment.name}: {abandoned}'
                return True
            if segment.operator is not None and self._applies(run.segment, run.path):
                if not is_late:
                    factor = terms.times.factor_from(run.path, run.segment, progress.spent_ms)
                    remaining_ms = left_ms(terms.due_ms, self._clock_ms(),
                                           terms.times.reserve.deciding_ms * (1.0 - run.segment / count))
                    limit_ms = self._limit_ms(run, remaining_ms, factor, terms)
                    choice = self._redecide(run, segment.operator, progress, remaining_ms, limit_ms, factor,
                                            terms.likely)
                    if not choice.feasible and choice.forecast_ms * terms.least > remaining_ms:
                        progress.reason = self._too_late(segment.name, choice, terms.least, remaining_ms)
                        late.give_up()
                        is_late = True
                if is_late:
                    remaining_ms = left_ms(late.until_ms(), self._clock_ms())
                    self._redecide(run, segment.operator, progress, remaining_ms, remaining_ms, terms.times.slowdown)
            progress.enter(segment.phase, self._clock_ms())
            progress.leave(segment.phase, run.run_segment())
        begun_ms, phase = self._clock_ms(), self._segments[-1].phase
        progress.enter(phase, begun_ms)
        result = self._finish(run.result())
        progress.leave(phase, self._clock_ms() - begun_ms)
        progress.result = result
        return is_late

    def _limit_ms(self, run, remaining_ms: float, factor: float, terms: _Terms) -> float:
        """The longest bound of what remains: as planned, or until the image before which the plan ends if that is
        later."""
        if terms.until_ms == math.inf:
            return remaining_ms
        until_ms = left_ms(terms.until_ms, self._clock_ms()) * factor / terms.times.slowdown
        planned_ms = terms.times.forecast_ms(run.path, run.segment) * factor
        return min(remaining_ms, max(until_ms, planned_ms * _ROUNDING))

    def _redecide(self, run, operator: str, progress: FrameProgress, remaining_ms: float,
                  limit_ms: float, factor: float, likely: float = 1.0) -> Choice:
        begun_ms = self._clock_ms()
        choice = self._policy.redecide(run.path, run.segment, limit_ms, factor, begun_ms - progress.begun_ms, likely)
        decided_ms = self._clock_ms()
        if choice.path != run.path:
            run.redirect(choice.path)
            progress.path = choice.path
        place = self._places[run.segment]
        changed = choice.path.settings[place] != progress.plan.path.settings[place]
        progress.decide(Decision(operator, run.segment, progress.spent_ms, changed, remaining_ms, choice.forecast_ms,
                                 choice.bound_ms, (decided_ms - begun_ms) * 1000.0))
        return choice

    @staticmethod
    def _too_late(what: str, choice: Choice, least: float, remaining_ms: float) -> str:
        return (f'too late before {what}: the rest takes {choice.forecast_ms * least:.1f} ms at best, '
                f'{remaining_ms:.1f} ms left')
