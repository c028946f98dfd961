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

from deadline_perception.decision.policy import Choice, Forecast, Policy
from deadline_perception.execution_path import ExecutionPath, PathSpace
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.runtime.deadline import left_ms

# Factor from the expected time of what is left to its bound: of a path, the segment that it begins with, and what the
# frame has taken so far, ms.
RestFactor = Callable[[ExecutionPath, int, float], float]

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

    def left_out_ms(self, forecast: Forecast) -> float:
        """Expected time of what the plan had beyond the path that ran; 0 where it had nothing.

        A slow frame goes on along a shorter path, by whose time alone it would look slower than it was. So what it left
        out counts as if it had been run, at the pace that was expected.
        """
        if self.plan is None or self.path is None:
            return 0.0
        return max(0.0, forecast.forecast_ms(self.plan.path) - forecast.forecast_ms(self.path)) * self.slowdown


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
        forecast: expected idle times of the paths.

    Raises:
        ValueError: the period is not above 0.
    """

    first_ms: float
    period_ms: float
    forecast: Forecast

    def __post_init__(self) -> None:
        if not self.period_ms > 0:
            raise ValueError(f'period of the images is {self.period_ms} ms, expected more than 0')


@dataclass(frozen=True)
class _Terms:
    """What a frame is decided under once it is planned: by which policy, when it is due, and the image before which it
    should end; what is reserved for deciding, the factors, and the constant part of a bound; see `TimedInference.run`.
    """

    policy: Policy
    due_ms: float
    until_ms: float
    next_images: NextImages | None
    deciding_ms: float
    least: float
    slowdown: float
    rest_factor: RestFactor
    likely: float
    allowance_ms: float


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

    def run(self, image_bgr: np.ndarray, progress: FrameProgress, late: Late, *, due_ms: float, slowdown: float,
            calibration_factor: float, best_case: float, may_give_up: bool, rest_factor: RestFactor | None = None,
            likely: float = 1.0, deciding_ms: float = 0.0, next_images: NextImages | None = None,
            policy: Policy | None = None) -> TimedFrame:
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
            slowdown: factor >= 1 of contention on every forecast.
            calibration_factor: turns the expected time of a frame into a bound.
            best_case: factor that turns the expected time into one that few frames undercut.
            may_give_up: do so at an operator once not even the best case of what remains fits. (Not once its bound does
                not: a frame whose bound no longer fits mostly makes it all the same, and one whose expected time no
                longer fits does so half the time.)
            rest_factor: the same for what is left of it; None: as of a frame.
            likely: share of their bounds that most frames stay below; with less than 1 the policy may plan what later
                operators can take back. Not for frames that are to end before an image, which needs no bound.
            deciding_ms: what the decisions of a frame take; reserved in proportion to the segments that are left, since
                those already made are in the time that has passed.
            next_images: None where the frame is not to look at them.
            policy: decides this frame in place of the usual one, which does when it is None.

        Returns:
            The frame; its result is None when it was aborted.
        """
        factor, policy = slowdown * calibration_factor, policy or self._policy
        progress.slowdown = slowdown
        progress.begun_ms = self._clock_ms()
        progress.remaining_ms = left_ms(due_ms, progress.begun_ms, deciding_ms)
        plan, until_ms = self._plan(policy, progress, factor, calibration_factor, likely, next_images)
        planned_ms = self._clock_ms()
        progress.decision_us = (planned_ms - progress.begun_ms) * 1000.0
        progress.plan, progress.path = plan, plan.path
        is_late, least = late.is_answered(), slowdown * best_case if may_give_up else -math.inf
        if not is_late and not plan.feasible and plan.forecast_ms * least > left_ms(due_ms, planned_ms):
            progress.reason = self._too_late('the frame', plan, least, left_ms(due_ms, planned_ms))
            late.give_up()
            is_late = True
        if is_late:
            progress.path = policy.plan(left_ms(late.until_ms(), self._clock_ms()), slowdown).path
        terms = _Terms(policy, due_ms, until_ms, next_images, deciding_ms, least, slowdown,
                       rest_factor or (lambda path, segment, spent_ms: calibration_factor),
                       likely if until_ms == math.inf else 1.0,
                       max(0.0, plan.bound_ms - plan.forecast_ms * factor))
        is_late = self._run_segments(self._network.start(image_bgr, progress.path), progress, late, is_late, terms)
        progress.ended_ms = self._clock_ms()
        frame = progress.look(progress.ended_ms)
        policy.observe(math.inf if frame.result is None or is_late else frame.elapsed_ms, frame.remaining_ms)
        return frame

    @staticmethod
    def _plan(policy: Policy, progress: FrameProgress, factor: float, calibration_factor: float,
              likely: float, next_images: NextImages | None) -> tuple[Choice, float]:
        """The path to start on, and when the image comes before which it is expected to end; inf without any."""
        image_ms = math.inf if next_images is None else next_images.first_ms
        for _ in range(_MOST_IMAGES):
            # Of the bound only the calibration factor lies above the expected time.
            until_image_ms = left_ms(image_ms, progress.begun_ms) * calibration_factor
            if not until_image_ms < progress.remaining_ms:
                return policy.plan(progress.remaining_ms, factor, likely), math.inf
            plan = policy.plan(until_image_ms, factor)
            if plan.feasible:
                return plan, image_ms
            # On to the first image that the path fits before, however many lie between.
            missing_ms = (plan.bound_ms - until_image_ms) / calibration_factor
            image_ms += max(1, math.ceil(missing_ms / next_images.period_ms)) * next_images.period_ms
        return policy.plan(progress.remaining_ms, factor, likely), math.inf

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
                    factor = terms.rest_factor(run.path, run.segment, progress.spent_ms)
                    remaining_ms = left_ms(terms.due_ms, self._clock_ms(),
                                           terms.deciding_ms * (1.0 - run.segment / count))
                    choice = self._redecide(terms.policy, run, segment.operator, progress, remaining_ms, self._limit_ms(
                        run, remaining_ms, factor, terms), terms.slowdown * factor, terms.likely)
                    if not choice.feasible and choice.forecast_ms * terms.least > remaining_ms:
                        progress.reason = self._too_late(segment.name, choice, terms.least, remaining_ms)
                        late.give_up()
                        is_late = True
                if is_late:
                    remaining_ms = left_ms(late.until_ms(), self._clock_ms())
                    self._redecide(terms.policy, run, segment.operator, progress, remaining_ms, remaining_ms,
                                   terms.slowdown)
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
        until_ms = left_ms(terms.until_ms, self._clock_ms()) * factor
        rest_ms = terms.next_images.forecast.forecast_ms(run.path, run.segment)
        planned_ms = rest_ms * terms.slowdown * factor
        return min(remaining_ms, max(until_ms, (planned_ms + terms.allowance_ms) * _ROUNDING))

    def _redecide(self, policy: Policy, run, operator: str, progress: FrameProgress, remaining_ms: float,
                  limit_ms: float, factor: float, likely: float = 1.0) -> Choice:
        begun_ms = self._clock_ms()
        choice = policy.redecide(run.path, run.segment, limit_ms, factor, begun_ms - progress.begun_ms, likely)
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
