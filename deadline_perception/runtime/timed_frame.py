"""One frame through the network against its deadline: plan, re-decide at every operator, cut when time runs out.

The network is duck-typed (`path_space`, `start(image, path) -> run`), so everything here runs without torch and is
tested with a network that only counts time.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deadline_perception.decision.policy import Choice, Policy
from deadline_perception.detector.detections import Detections
from deadline_perception.execution_path import ExecutionPath, PathSpace, Phase, Slot
from deadline_perception.latency.stopwatch import now_ms


@dataclass(frozen=True)
class Decision:
    """What one operator decided while the frame was running.

    Attributes:
        operator: name of the operator, such as `skip2`.
        choice: what it chose, for a person: `run`, `skip`, a width, a count or a head's index.
        changed: differs from what was planned before the frame.
        remaining_ms: time left before the frame is due.
        bound_ms: bound of all that remained to run.
        decision_us: time the decision took.
    """

    operator: str
    choice: str
    changed: bool
    remaining_ms: float
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
        detections: what the network found; None when it did not finish.
        reason: why it was cut, empty otherwise.
        slot: index of the slot that it was cut before, or that is running.
        proposals: regions that may hold an object, float32 `[N, 4]` in px of the image; None when the network did not
            come so far, or they are not kept.
    """

    plan: Choice | None
    path: ExecutionPath | None
    remaining_ms: float
    slowdown: float
    decision_us: float
    decisions: tuple[Decision, ...]
    phase_ms: dict[Phase, float]
    elapsed_ms: float
    detections: Detections | None
    reason: str
    slot: int
    proposals: np.ndarray | None = None

    @property
    def network_ms(self) -> float:
        """Time inside the network."""
        return sum(self.phase_ms.values())

    @property
    def decision_ms(self) -> float:
        """Planning, all re-decisions and the loop around them."""
        return max(0.0, self.elapsed_ms - self.network_ms)


class FrameProgress:
    """A running frame, as another thread may look at it: `look` never blocks the thread that runs the network."""

    def __init__(self) -> None:
        self.plan: Choice | None = None
        self.path: ExecutionPath | None = None
        self.remaining_ms = 0.0
        self.slowdown = 1.0
        self.decision_us = 0.0
        self.begun_ms: float | None = None
        self.ended_ms: float | None = None
        self.detections: Detections | None = None
        self.reason = ''
        self.slot = 0
        self.proposals: np.ndarray | None = None
        self._decisions: list[Decision] = []
        self._done: list[tuple[Phase, float]] = []
        self._running: tuple[int, Phase, float] | None = None

    def decide(self, decision: Decision) -> None:
        """Notes a re-decision."""
        self._decisions.append(decision)

    def enter(self, phase: Phase, at_ms: float) -> None:
        """Notes that the network begins a slot of a phase."""
        self._running = (len(self._done), phase, at_ms)

    def leave(self, phase: Phase, took_ms: float) -> None:
        """Notes that the slot is done."""
        self._done.append((phase, took_ms))

    def look(self, at_ms: float) -> TimedFrame:
        """The frame as it stands at a time of the monotonic clock."""
        end_ms = at_ms if self.ended_ms is None else self.ended_ms
        done, running = list(self._done), self._running
        phase_ms = dict.fromkeys(Phase, 0.0)
        for phase, took_ms in done:
            phase_ms[phase] += took_ms
        if running is not None and running[0] == len(done):
            phase_ms[running[1]] += max(0.0, end_ms - running[2])
        elapsed_ms = 0.0 if self.begun_ms is None else max(0.0, end_ms - self.begun_ms)
        return TimedFrame(self.plan, self.path, self.remaining_ms, self.slowdown, self.decision_us,
                          tuple(self._decisions), phase_ms, elapsed_ms, self.detections, self.reason,
                          self.slot, self.proposals)


def describe_choice(operator: str, path: ExecutionPath) -> str:
    """What a path chooses at an operator, for a person."""
    if operator.startswith('skip'):
        return 'skip' if path.skip[int(operator[4:])] else 'run'
    value = getattr(path, operator)
    return f'{value:.2f}' if isinstance(value, float) else str(value)


class TimedInference:
    """Runs frames one after the other; holds nothing between two frames but the network and the policy.

    Attributes:
        keeps_proposals: as given.

    Args:
        network: `start(image_bgr, path)` gives a run, as `MultiPathDetector` does.
        path_space: the network's.
        policy: chooses the paths.
        keeps_proposals: take the regions that the network proposes out of it, for a frame that comes no further.
        clock_ms: monotonic clock.
    """

    def __init__(self, network, path_space: PathSpace, policy: Policy, *, keeps_proposals: bool = False,
                 clock_ms: Callable[[], float] = now_ms) -> None:
        self._network = network
        self._slots = path_space.slots
        self._policy = policy
        self.keeps_proposals = keeps_proposals
        self._clock_ms = clock_ms

    def run(self, image_bgr: np.ndarray, progress: FrameProgress, *, due_ms: float, slowdown: float, margin: float,
            best_case: float, may_cut: bool, abandoned: Callable[[], bool], deciding_ms: float = 0.0) -> TimedFrame:
        """Takes one frame through the network.

        Args:
            image_bgr: uint8 `[H, W, 3]`.
            progress: a fresh one; another thread may look at it meanwhile.
            due_ms: time of the monotonic clock at which the network must be done.
            slowdown: factor >= 1 of contention on every forecast.
            margin: factor that turns the expected time into a bound.
            best_case: factor that turns the expected time into one that few frames undercut.
            may_cut: give up at an operator boundary once not even the best case of what remains fits. (Not once its
                bound does not: a frame whose bound no longer fits mostly makes it all the same, and one whose
                expected time no longer fits does so half the time.)
            abandoned: True once nobody waits for the frame any more; it is then cut at the next boundary.
            deciding_ms: what the decisions of a frame take; kept back in proportion to the slots that are left, since
                those already made are in the time that has passed.

        Returns:
            The frame; its detections are None when it was cut.
        """
        factor = slowdown * margin
        progress.slowdown = slowdown
        progress.begun_ms = self._clock_ms()
        progress.remaining_ms = due_ms - progress.begun_ms - deciding_ms
        plan = self._policy.plan(progress.remaining_ms, factor)
        planned_ms = self._clock_ms()
        progress.decision_us = (planned_ms - progress.begun_ms) * 1000.0
        progress.plan, progress.path = plan, plan.path
        least = slowdown * best_case
        if may_cut and plan.forecast_ms * least > due_ms - planned_ms:
            progress.reason = self._too_late('the frame', plan, least, due_ms - planned_ms)
        else:
            run = self._network.start(image_bgr, plan.path)
            self._run_segments(run, progress, due_ms, deciding_ms, least, factor, may_cut, abandoned)
        progress.ended_ms = self._clock_ms()
        frame = progress.look(progress.ended_ms)
        self._policy.observe(math.inf if frame.detections is None else frame.elapsed_ms, frame.remaining_ms)
        return frame

    def _run_segments(self, run, progress: FrameProgress, due_ms: float, deciding_ms: float, least: float, factor: float,
                   may_cut: bool, abandoned: Callable[[], bool]) -> None:
        while not run.finished:
            progress.slot = run.slot
            slot = self._slots[run.slot]
            if abandoned():
                progress.reason = f'given up before {slot.name}: its deadline had passed'
                return
            if slot.operator is not None:
                to_decide_ms = deciding_ms * (1.0 - run.slot / len(self._slots))
                choice, remaining_ms = self._redecide(run, slot, progress, due_ms - to_decide_ms, factor)
                if may_cut and choice.forecast_ms * least > remaining_ms:
                    progress.reason = self._too_late(slot.name, choice, least, remaining_ms)
                    return
            progress.enter(slot.phase, self._clock_ms())
            progress.leave(slot.phase, run.run_segment())
            if self.keeps_proposals and slot.operator == 'proposals':
                progress.proposals = run.proposals()
        begun_ms = self._clock_ms()
        progress.enter(Phase.POST, begun_ms)
        detections = run.detections()
        progress.leave(Phase.POST, self._clock_ms() - begun_ms)
        progress.detections = detections

    def _redecide(self, run, slot: Slot, progress: FrameProgress, due_ms: float,
                  factor: float) -> tuple[Choice, float]:
        begun_ms = self._clock_ms()
        remaining_ms = due_ms - begun_ms
        choice = self._policy.redecide(run.path, run.slot, remaining_ms, factor)
        decided_ms = self._clock_ms()
        if choice.path != run.path:
            run.redirect(choice.path)
            progress.path = choice.path
        chosen = describe_choice(slot.operator, choice.path)
        changed = chosen != describe_choice(slot.operator, progress.plan.path)
        progress.decide(Decision(slot.operator, chosen, changed, remaining_ms, choice.bound_ms,
                                 (decided_ms - begun_ms) * 1000.0))
        return choice, remaining_ms

    @staticmethod
    def _too_late(what: str, choice: Choice, least: float, remaining_ms: float) -> str:
        return (f'cut before {what}: the rest takes {choice.forecast_ms * least:.1f} ms at best, '
                f'{remaining_ms:.1f} ms left')
