"""One image on its way from its arrival to its answer, whoever gives it, and the frozen record of it. Free of ROS."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from deadline_perception.core.execution_path import SWITCH, ExecutionPath, setting_text
from deadline_perception.core.operator_record import OperatorRecord
from deadline_perception.decision.policy import Choice
from deadline_perception.timing.time_model import WCET, FrameTimes

MAX_BUDGET_MS = 60_000.0  # a longer one is a fault: no vehicle drives blind for a minute
NO_LIMIT_MS = 86_400_000.0  # the budget of who names none: a day
HANGING_PUBLICATION_MS = (
    20.0  # a publication that takes longer, and past the deadline, is made again by another thread
)


class LatePolicy(str, Enum):
    """What stands in for the detections of a frame whose deadline passed.

    COASTED: the previous objects, moved on, in time. LATE: its own, late.
    """

    COASTED = 'coasted'
    LATE = 'late'


class Outcome(IntEnum):
    """What was published for a job; the values of FrameLatency.outcome, where they are not negative.

    DETECTED: its own result. COASTED: what stands in for it. LATE: its own result, after the deadline. Nothing of a
    scheduled job that was ABORTED, because its time was over, FAILED with an error, or HUNG, so that another thread
    serves the other tasks.
    """

    DETECTED = 0
    COASTED = 1
    LATE = 2
    ABORTED = -1
    FAILED = -2
    HUNG = -3


@dataclass(frozen=True)
class StampReading:
    """The age of one image.

    Attributes:
        age_ms: stamp to arrival, >= 0; NaN when the stamp cannot be believed.
        reason: why it cannot be believed, empty otherwise.
        stamp_ns: the stamp itself, whether believed or not; 0 for none.
    """

    age_ms: float
    reason: str
    stamp_ns: int = 0

    @property
    def known_age_ms(self) -> float:
        """The age, or 0 when it is unknown: the deadline then counts from the arrival."""
        return 0.0 if math.isnan(self.age_ms) else self.age_ms


@dataclass(frozen=True)
class Conditions:
    """What a job is decided under.

    Attributes:
        budget_ms: longest allowed time from capture to published result.
        slowdown: factor >= 1 of contention.
        contention_source: sensors behind the slowdown.
        reasons: why the node is degraded, empty when it is not.
    """

    budget_ms: float
    slowdown: float
    contention_source: str
    reasons: tuple[str, ...] = ()


class Decision(NamedTuple):
    """What one operator decided while its job was running.

    Attributes:
        operator: its name, such as `skip2`.
        segment: index of the segment that it decided.
        spent_ms: time inside the network before it.
        progress: that over what was expected of it, 1 where nothing had run.
        changed: its setting differs from the one planned before.
        remaining_ms: time left before the network is due.
        forecast_ms: time of all that remained to run, on the idle device.
        bound_ms: bound of it.
        decision_us: time the decision took.
    """

    operator: str
    segment: int
    spent_ms: float
    progress: float
    changed: bool
    remaining_ms: float
    forecast_ms: float
    bound_ms: float
    decision_us: float


@dataclass(frozen=True, eq=False)
class ResultSoFar:
    """What a network has found of an image before its end, which is an answer to it.

    Attributes:
        result: of the network's type.
        names: of the parts of the network that it holds, such as `coarse`.
    """

    result: Any
    names: tuple[str, ...]


class Stage(Enum):
    """Where a job is. It WAITS for the worker, until a newer one takes its place, which has then SUPERSEDED it, or the
    worker takes it and it RUNS; until it is DONE, whoever answered its image meanwhile."""

    WAITS = 'waits'
    SUPERSEDED = 'superseded'
    RUNS = 'runs'
    DONE = 'done'


class Job:
    """One image until it is answered and its network has ended.

    A scheduled one arrives at its release, and its budget is its period. Its pipeline's lock guards what arrival, claim
    and answer change; what the run changes belongs to the worker, and any thread may look at it by `record` without
    waiting.

    Args:
        message: the image as it came.
        arrived_ms: when, on the monotonic clock.
        stamp: what its stamp says about its age.
        dropped: images between the one taken before and this one, which were never taken off the middleware.
        is_alone: it belongs to no sequence: no earlier image stands in for it, and it for no later one.

    Attributes:
        captured_ms: monotonic time of capture; of the arrival when the age is unknown.
        motion_s: time along which objects move: the stamp, at whatever rate a bag is played; without one, the arrival.
        conditions: at its arrival.
        deadline_ms: when it must be answered.
        due_ms: when its network must be done; known once it is taken.
        fallback_ms: when the watchdog has to see to it.
        phases: of the network.
        taken_ms: when the worker took it; inf until then.
        superseded: images that it stands for beside its own.
        stage: where it is.
        attempts: to answer it.
        claimed_ms: when its answer began, for the watchdog when it should have.
        publish_ms: that its answer took; None where it was answered beside its network.
        is_in_time: its own result was published in time.
        evidence_s: when the image was taken that its answer rests on.
        times: that it is decided by; None until it is taken.
        plan: the choice before the network started; None until then.
        path: the path that runs, with all re-decisions; None without a plan.
        remaining_ms: time left when the path was planned.
        decision_us: time of the planning.
        image_size: height and width in px; once it is converted.
        begun_ms, ended_ms: of the planning and of the network, on the monotonic clock; inf until then.
        decisions: the re-decisions, in the order of execution.
        segment: index of the segment that it was aborted before, or that is running.
        done: phase and time in ms of the segments that ended.
        running: of the segment that runs or ran last: how many were done before it, its phase, and when it began.
        network_ms: time of the segments that ended.
        so_far: its newest result before the end of the network; None until there is one.
        result: what the network gave; None where it did not finish.
        results: names of the parts of the network that have run, of which its result is, where the network declares any.
        answer: the own result that its last answer gave, or is about to give; None where it gave something else.
        followed: its own result that the tracks took in last, and the same with their ids.
        reason: why it could not be in time or was aborted, empty otherwise.
        level, planned_level: that a scheduled one runs at, and that its schedule gives it.
        bound_ms: of a scheduled one at its level.
    """

    def __init__(
        self,
        message: Any,
        arrived_ms: float,
        stamp: StampReading,
        dropped: int = 0,
        *,
        is_alone: bool = False,
    ) -> None:
        self.message = message
        self.arrived_ms = arrived_ms
        self.stamp = stamp
        self.dropped = dropped
        self.is_alone = is_alone
        self.captured_ms = arrived_ms - stamp.known_age_ms
        self.motion_s = stamp.stamp_ns / 1e9 if stamp.stamp_ns > 0 else arrived_ms / 1000.0
        self.conditions = Conditions(math.inf, 1.0, '')
        self.deadline_ms = self.due_ms = self.fallback_ms = math.inf
        self.taken_ms = self.begun_ms = self.ended_ms = math.inf
        self.phases: tuple[str, ...] = ()
        self.superseded = dropped
        self.stage = Stage.WAITS
        self.attempts = 0
        self.claimed_ms = math.nan
        self.publish_ms: float | None = None
        self.is_in_time = False
        self.evidence_s: float | None = None
        self.times: FrameTimes | None = None
        self.plan: Choice | None = None
        self.path: ExecutionPath | None = None
        self.remaining_ms = self.decision_us = self.network_ms = 0.0
        self.image_size = (0, 0)
        self.decisions: list[Decision] = []
        self.segment = 0
        self.so_far: ResultSoFar | None = None
        self.result: object | None = None
        self.results: tuple[str, ...] = ()
        self.answer: ResultSoFar | None = None
        self.followed: tuple[ResultSoFar | None, Any] = (None, None)
        self._whole: ResultSoFar | None = None
        self.reason = ''
        self.level = self.planned_level = 0
        self.bound_ms = math.nan
        self.done: list[tuple[str, float]] = []
        self.running: tuple[int, str, float] | None = None

    # --- its answer ---

    def claim(self, at_ms: float) -> bool:
        """For an answer now. Returns whether it is the first; should that hang, the watchdog will try again."""
        self.attempts += 1
        self.answer = self.newest
        self.claimed_ms = min(at_ms, self.fallback_ms)
        self.fallback_ms = max(
            self.deadline_ms, at_ms + HANGING_PUBLICATION_MS * 2 ** (self.attempts - 1)
        )
        return self.attempts == 1

    @property
    def newest(self) -> ResultSoFar | None:
        """The best that the network has found of this image until now; None where it has found nothing."""
        if self.result is None:
            return self.so_far
        if self._whole is None:
            self._whole = ResultSoFar(self.result, self.results)
        return self._whole

    @property
    def awaited_ms(self) -> float:
        """Until when its own result counts for more than its deadline: the bound, where nothing stands in for the image,
        which is of no sequence, and it was promised nothing, since no bound fitted or none rests on frames yet. Else
        -inf."""
        if not self.is_alone or self.plan is None or self.times is None:
            return -math.inf
        is_promised = self.plan.feasible and self.times.rests_on_frames
        return -math.inf if is_promised else self.begun_ms + self.plan.bound_ms

    def for_tracks(self) -> Job:
        """The same image once more, for a network that runs although its answer is out."""
        job = Job(self.message, self.arrived_ms, self.stamp, is_alone=self.is_alone)
        job.conditions = self.conditions
        job.deadline_ms = self.deadline_ms
        job.phases = self.phases
        job.attempts = self.attempts
        return job

    # --- its run ---

    def leave(self, phase: str, took_ms: float) -> None:
        """Notes that a segment of a phase is done."""
        self.done.append((phase, took_ms))
        self.network_ms += took_ms

    @property
    def decision_ms(self) -> float:
        """Planning, all re-decisions and the loop around them, of a run that has ended."""
        return max(0.0, self.ended_ms - self.begun_ms - self.network_ms)

    def record(self, outcome: Outcome, at_ms: float, failure: str = '') -> JobRecord:
        """What is known about it now.

        Args:
            outcome: what its answer was.
            at_ms: when that was out.
            failure: of the network, empty without.
        """
        end_ms = min(self.ended_ms, at_ms)
        begun_ms = min(self.begun_ms, at_ms)
        taken_ms = min(self.taken_ms, at_ms)
        run_ms = end_ms - begun_ms
        phase_ms = self._phase_ms(end_ms)
        network_ms = sum(phase_ms.values())
        forecast_ms, bound_ms = self._forecast_and_bound_ms(network_ms)
        evidence_age_ms = (
            math.nan if self.evidence_s is None else 1000.0 * (self.motion_s - self.evidence_s)
        )
        times = self.times
        plan = self.plan
        wcet_ms = math.nan if times is None or plan is None else times.worst_ms(plan.path)
        return JobRecord(
            message=self.message,
            arrived_ms=self.arrived_ms,
            stamp=self.stamp,
            conditions=self.conditions,
            outcome=outcome,
            plan=plan,
            path=self.path,
            remaining_ms=self.remaining_ms,
            slowdown=1.0 if times is None else times.slowdown,
            decision_us=self.decision_us,
            decisions=tuple(self.decisions),
            phase_ms=phase_ms,
            network_ms=network_ms,
            segment=self.segment,
            result=self.result,
            results=() if self.answer is None else self.answer.names,
            reason=self.reason,
            failure=failure,
            superseded=self.superseded,
            queue_ms=taken_ms - self.arrived_ms,
            convert_ms=begun_ms - taken_ms,
            decision_ms=max(0.0, run_ms - network_ms),
            publish_ms=max(0.0, at_ms - begun_ms - run_ms),
            forecast_ms=forecast_ms,
            bound_ms=bound_ms,
            evidence_age_ms=evidence_age_ms,
            wcet_ms=wcet_ms,
            rests_on_frames=times is not None and times.rests_on_frames,
            level=self.level,
            planned_level=self.planned_level,
            answered_ms=at_ms,
        )

    def _phase_ms(self, end_ms: float) -> dict[str, float]:
        done = list(self.done)
        running = self.running
        phase_ms = dict.fromkeys(self.phases, 0.0)
        for phase, took_ms in done:
            phase_ms[phase] = phase_ms.get(phase, 0.0) + took_ms
        if running is not None and running[0] == len(done):
            phase_ms[running[1]] = phase_ms.get(running[1], 0.0) + max(0.0, end_ms - running[2])
        return phase_ms

    def _forecast_and_bound_ms(self, network_ms: float) -> tuple[float, float]:
        times = self.times
        if times is None or self.path is None:
            return math.nan, self.bound_ms
        forecast_ms = times.forecast.forecast_ms(self.path)
        ran_ms = forecast_ms * times.slowdown
        skipped_ms = 0.0
        plan = self.plan
        if plan is not None and plan.path is not self.path:
            skipped_ms = times.skipped_ms(plan.path, ran_ms)
        planned_ms = ran_ms + skipped_ms
        if times.bounds == WCET:
            bound_ms = times.bound_ms(self.path if plan is None else plan.path)
        else:
            bound_ms = planned_ms * times.factor / times.slowdown + times.interruption_ms
        bound_ms -= skipped_ms
        if (
            self.result is not None and network_ms > 0.0
        ):  # else it would have taken longer than it did
            forecast_ms = planned_ms / times.slowdown / (1.0 + skipped_ms / network_ms)
        return forecast_ms, bound_ms


@dataclass(frozen=True, eq=False, kw_only=True)
class JobRecord:
    """One answered job; all that messages, reports and benchmarks say about it.

    Attributes:
        message, arrived_ms, stamp: as of the job.
        conditions: budget and contention when it arrived.
        outcome: what was published.
        plan, path, remaining_ms, decision_us, decisions, segment, result, reason: as of the job.
        results: names of the parts of the network that the answer holds, such as `coarse` and `fine`; none where the
            network declares none, or the answer is not the image's own.
        slowdown: factor from forecast to expected time.
        phase_ms: time per phase of the network, what was running when it was answered included.
        network_ms: their sum.
        failure: error of conversion or network, empty otherwise.
        superseded: images that it stands for beside its own, dropped by the middleware or replaced before their turn.
        queue_ms, convert_ms, decision_ms, publish_ms: the node's own times around the network.
        forecast_ms: time on the idle device of the path that ran; where a job left its plan for a shorter path and
            finished, such that the network's time over it is as for the whole plan; NaN without a path.
        bound_ms: of the network's time on the path that ran, where that is shorter than the plan as of the plan, less
            what was skipped of it; NaN without a path. That of the plan is `plan`'s.
        evidence_age_ms: from the image on which what was published rests to this one: 0 for its own result, NaN
            when there was nothing to go on from.
        wcet_ms: analytical worst case of the network's time on the path that was planned, slowed down as the frame;
            NaN without.
        rests_on_frames: its bounds come of frames that were measured; else of a profile alone, which promises nothing.
        level, planned_level: as of the job.
        preempted_ms: from its start on, while jobs of other tasks ran in the place of a scheduled one.
        answered_ms: when its answer was out, or it was clear that there will be none.
    """

    message: Any
    arrived_ms: float
    stamp: StampReading
    conditions: Conditions
    outcome: Outcome
    plan: Choice | None = None
    path: ExecutionPath | None = None
    remaining_ms: float = 0.0
    slowdown: float = 1.0
    decision_us: float = 0.0
    decisions: tuple[Decision, ...] = ()
    phase_ms: dict[str, float]
    network_ms: float
    segment: int = 0
    result: object | None = None
    results: tuple[str, ...] = ()
    reason: str = ''
    failure: str = ''
    superseded: int = 0
    queue_ms: float
    convert_ms: float
    decision_ms: float
    publish_ms: float
    forecast_ms: float
    bound_ms: float
    evidence_age_ms: float
    wcet_ms: float = math.nan
    rests_on_frames: bool = False
    level: int = 0
    planned_level: int = 0
    preempted_ms: float = 0.0
    answered_ms: float = math.nan

    @property
    def started_ms(self) -> float:
        """When the worker took it."""
        return self.arrived_ms + self.queue_ms

    @property
    def elapsed_ms(self) -> float:
        """Arrival to published result."""
        return (
            self.queue_ms + self.convert_ms + self.decision_ms + self.network_ms + self.publish_ms
        )

    @property
    def total_ms(self) -> float:
        """Capture to published result; NaN when the age is unknown."""
        return self.stamp.age_ms + self.elapsed_ms

    @property
    def overhead_ms(self) -> float:
        """The node's own time outside the network."""
        return self.elapsed_ms - self.network_ms

    @property
    def deadline_met(self) -> bool:
        """Published within the budget, counted from the arrival when the age is unknown."""
        return self.stamp.known_age_ms + self.elapsed_ms <= self.conditions.budget_ms

    @property
    def took_ms(self) -> float:
        """From its start to its answer, unless preempted: what the bound of a scheduled job is for."""
        return self.answered_ms - self.started_ms - self.preempted_ms

    @property
    def overran(self) -> bool:
        """A scheduled job took longer than its bound."""
        return self.took_ms > self.bound_ms

    @property
    def is_in_time(self) -> bool:
        """Its own result was published within the budget."""
        return self.outcome is Outcome.DETECTED and self.deadline_met

    @property
    def feasible(self) -> bool:
        """The bound of a path fitted when it was planned."""
        return self.plan is not None and bool(self.plan.feasible)

    @property
    def planned_ms(self) -> float:
        """Expected time of the network on the path that was planned; NaN without a plan."""
        return math.nan if self.plan is None else self.plan.forecast_ms * self.slowdown

    @property
    def operators(self) -> list[OperatorRecord]:
        """What every operator that the path comes to was set to, in the order of execution; empty without a path."""
        path = self.path
        if path is None:
            return []
        space = path.space
        decided = {decision.operator: decision for decision in self.decisions}
        rows = []
        for number, segment in enumerate(space.segments):
            if segment.operator is None or not space.applies(number, path):
                continue
            operator = space.operator(segment.operator)
            decision = decided.get(segment.operator)
            level = path.settings[space.place[operator.name]]
            # as in the path's name
            settings = operator.labels if operator.kind == SWITCH else operator.settings
            of_decision = {}
            if decision is not None:
                of_decision = {
                    name: getattr(decision, name)
                    for name in 'changed bound_ms decision_us remaining_ms'.split()
                }
            rows.append(
                OperatorRecord(
                    operator.name,
                    operator.kind,
                    setting_text(settings[level]),
                    level,
                    len(settings),
                    decided=decision is not None,
                    **of_decision,
                )
            )
        return rows

    @property
    def reasons(self) -> tuple[str, ...]:
        """Everything that is degraded about it."""
        return tuple(filter(None, (*self.conditions.reasons, self.stamp.reason, self.failure)))

    @property
    def explanation(self) -> str:
        """One line for a person: why this path."""
        plan = self.plan
        if self.reasons and plan is None:
            return self.reasons[-1]
        if self.reason:
            return self.reason
        if plan is None:
            return 'the deadline passed before a path could be planned'
        if not plan.feasible:
            return (
                f'not even the cheapest path fits: its bound is {plan.bound_ms:.1f} ms, and '
                f'{self.remaining_ms:.1f} ms are left'
            )
        changed = [decision.operator for decision in self.decisions if decision.changed]
        fits = 'fits' if plan.bound_ms <= self.remaining_ms else 'is ignored by this policy, with'
        keys = plan.path.keys_by_segment
        ends = [at for at in plan.path.space.result_segments if keys[at] is not None]
        of = ''
        if ends and any(keys[ends[0] + 1 :]):  # what follows is worth a try, and no more
            of = f' of its {plan.path.space.segments[ends[0]].result} result'
        why = f'bound {plan.bound_ms:.1f} ms{of} {fits} {self.remaining_ms:.1f} ms left'
        why += '' if self.rests_on_frames else ', no promise yet'
        if not self.is_in_time:
            why = f'time was up, although {why}'
        return f'{why}; changed on the way: {", ".join(changed)}' if changed else why
