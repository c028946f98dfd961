"""Runs the networks of several tasks on one executor, one segment at a time, by EDF as scheduled.

A task is released when its newest image is there and its period has passed since the release before, so releases are
never nearer to each other than the period: what `scheduling.feasibility` asks for. Its deadline is that of the schedule,
one period later at most. The released job of the earliest deadline runs until its end, or until the end of the segment
in which one of an earlier deadline is released: then it keeps its run and waits in the executor's mailbox for its next
turn. Its level is chosen as it begins: that of the schedule, a higher one where earlier jobs left so much time that all
deadlines are still met, a lower one where they took too much. It is aborted at its next segment once its own deadline,
or anybody else's, is in danger.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.segment_run import Network, SegmentRun
from deadline_perception.extras.evaluation.confidence_limit import clopper_pearson_upper
from deadline_perception.extras.several_networks.scheduling.spare_time import (
    Coming,
    Waiting,
    latest_finish_ms,
)
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.job import (
    HANGING_PUBLICATION_MS,
    Conditions,
    Job,
    JobRecord,
    Outcome,
    StampReading,
)
from deadline_perception.runtime.watchdog import Act

HANGING_MS = 500.0  # past its bound and its deadline; until then nobody else is served
STOP_TIMEOUT_S = 3.0
# A raised job that exceeds its bound by up to so much is still in time: none of the misses is for the sake of a level.
RAISED_ROOM = 1.25
_NO_STAMP = StampReading(math.nan, '')  # a period counts from the release


@dataclass(frozen=True)
class TaskPlan:
    """What a schedule says of one task.

    Attributes:
        level: that its jobs run at.
        period_ms: least time between two releases.
        times_ms: bound of a job at each level, ascending, all above 0.
        deadline_ms: from a release to its deadline; the period where it is longer.
        highest: level that jobs may be raised to: segments of higher ones would block others for too long. None: the
            last.

    Raises:
        ValueError: a value lies outside its range.
    """

    level: int
    period_ms: float
    times_ms: tuple[float, ...]
    deadline_ms: float = math.inf
    highest: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.level < len(self.times_ms) or not 0.0 < self.period_ms < math.inf:
            raise ValueError(
                f'level is {self.level} of {len(self.times_ms)} and period {self.period_ms} ms, expected '
                f'one of the levels and a finite time above 0'
            )
        object.__setattr__(self, 'deadline_ms', min(self.deadline_ms, self.period_ms))
        if not self.deadline_ms > 0.0:
            raise ValueError(f'deadline is {self.deadline_ms} ms, expected a time above 0')
        highest = len(self.times_ms) - 1 if self.highest is None else self.highest
        object.__setattr__(self, 'highest', highest)
        if not self.level <= highest < len(self.times_ms):
            raise ValueError(
                f'highest level is {highest}, expected one of {len(self.times_ms)} from {self.level} on'
            )
        if not all(0.0 < time_ms < math.inf for time_ms in self.times_ms):
            raise ValueError(
                f'bounds of jobs are {self.times_ms} ms, expected finite times above 0'
            )

    @property
    def time_ms(self) -> float:
        """Bound of a job at the planned level."""
        return self.times_ms[self.level]


@dataclass
class TaskCount:
    """Jobs of one task so far; written by its executor, read by any thread."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    raised: int = 0
    preemptions: int = 0  # of its jobs, by those of other tasks
    longest_blocking_ms: float = (
        0.0  # for which one of its jobs waited for a segment of a later deadline
    )
    replaced: int = 0
    last_failure: str = ''
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, record: JobRecord) -> None:
        """Counts a job."""
        with self._lock:
            self.outcomes[record.outcome] += 1
            self.raised += record.level > record.planned_level
            self.last_failure = record.failure or self.last_failure

    @property
    def jobs(self) -> int:
        """All jobs."""
        with self._lock:
            return sum(self.outcomes.values())

    @property
    def misses(self) -> int:
        """Jobs without a result by their deadline."""
        with self._lock:
            return sum(self.outcomes.values()) - self.outcomes[Outcome.DETECTED]

    @property
    def miss_ratio_upper_95(self) -> float:
        """Clopper-Pearson upper 95 % limit of the miss probability; 1 without jobs."""
        return clopper_pearson_upper(self.misses, self.jobs)


class Levels(Protocol):
    """A network, and the paths of its levels, cheapest first; such as a `NestedTask`."""

    @property
    def network(self) -> Network: ...

    @property
    def paths(self) -> Sequence[ExecutionPath]: ...


class JobClient(Protocol):
    """Whose jobs are run: what a scheduler asks of a `FrameClient`."""

    def convert(self, job: Job) -> np.ndarray | None:
        """See `FrameClient`."""

    def publish(self, job: Job, result: object) -> None:
        """See `FrameClient`."""

    def on_record(self, record: JobRecord) -> None:
        """See `FrameClient`."""

    def on_failure(self, error: BaseException) -> None:
        """See `FrameClient`."""


class _ScheduledJob(Job):
    """A job of a task with its run.

    Attributes:
        run: of its network; None until it has started.
        given_ms: bound that the schedule gives it.
        until_ms: when it must be done for the sake of all, if nobody preempts it.
        left_ms: when it was last preempted.
        preempted_ms: since its start, while jobs of other tasks ran.
    """

    run: SegmentRun | None = None
    given_ms = until_ms = left_ms = preempted_ms = 0.0

    def record(self, outcome: Outcome, at_ms: float, failure: str = '') -> JobRecord:
        """See `Job.record`."""
        return replace(super().record(outcome, at_ms, failure), preempted_ms=self.preempted_ms)

    def taken_so_far_ms(self, at_ms: float) -> float:
        """Its own time on the processor, where it is not preempted now."""
        return at_ms - self.taken_ms - self.preempted_ms

    def left_of_bound_ms(self) -> float:
        """What is left of its bound while it is preempted."""
        return max(0.0, self.bound_ms - self.taken_so_far_ms(self.left_ms))


class _Turns:
    """A runner on the executor: the first runs of a task's jobs, or those after a preemption."""

    busy_since_ms: float | None = None  # what hangs is the scheduler's to see
    closing = False

    def __init__(self, process: Callable[[_ScheduledJob], None], stop: Callable[[], None]) -> None:
        self.process, self.stop = process, stop


class _TaskState:
    """One task as the scheduler sees it, with its places in the mailbox of the executor."""

    def __init__(self, scheduler: NetworkScheduler, levels: Levels, client: JobClient) -> None:
        self.first = _Turns(partial(scheduler._begin, self), scheduler._end)
        self.later = _Turns(partial(scheduler._resume, self), scheduler._end)
        self.levels, self.client, self.count = levels, client, TaskCount()
        self.plan: TaskPlan | None = None
        self.preempted: _ScheduledJob | None = None
        self.waiting: _ScheduledJob | None = None
        self.came_ms = 0.0  # the first of the images that the one which waits has replaced
        self.last_release_ms = -math.inf
        self.hangs = False

    @property
    def next_release_ms(self) -> float:
        return self.last_release_ms + self.plan.period_ms

    @property
    def takes_turns(self) -> bool:
        """Its next job may begin once it is released: the one before is done."""
        return not self.hangs and self.preempted is None


class NetworkScheduler:
    """See the module. `submit` and `follow` may be called by any thread and never block.

    Of a task's client, conversion, publication and record are asked for; a job that is aborted, fails or hangs has a
    record alone.

    Args:
        executor: that has been started, for this scheduler alone.
        tasks: levels of each task, and whose images its jobs answer, by name.
        hanging_ms: a job that is so long past its bound and its deadline hangs: a new thread takes over.
        raises_levels: use what jobs leave of their time for higher levels.
    """

    def __init__(
        self,
        executor: Executor,
        tasks: Mapping[str, tuple[Levels, JobClient]],
        *,
        hanging_ms: float = HANGING_MS,
        raises_levels: bool = True,
    ) -> None:
        self._executor, self._mailbox, self._watchdog = (
            executor,
            executor.mailbox,
            executor.watchdog,
        )
        self._hanging_ms, self._raises_levels = hanging_ms, raises_levels
        self._lock = threading.Lock()  # of all below; never held over a call that may hang
        self._at_work: tuple[_TaskState, _ScheduledJob] | None = None
        self._stopped = False
        self._states = {name: _TaskState(self, *task) for name, task in tasks.items()}
        for state in self._states.values():
            executor.admit(state.first)
            executor.admit(state.later)
        self._watchdog.watch(self._next_due)

    @property
    def counts(self) -> dict[str, TaskCount]:
        """Jobs of each task so far."""
        return {name: state.count for name, state in self._states.items()}

    @property
    def hanging(self) -> tuple[str, ...]:
        """Tasks whose job did not come back."""
        with self._lock:
            return tuple(name for name, state in self._states.items() if state.hangs)

    @property
    def is_at_work(self) -> bool:
        """A job has not come back, whether it was aborted or not."""
        with self._lock:
            return self._at_work is not None or any(state.hangs for state in self._states.values())

    def follow(self, plans: Mapping[str, TaskPlan]) -> None:
        """From the next job on goes by these plans; a task without one rests. A job at work is not disturbed.

        Raises:
            ValueError: a plan is of no task of this scheduler.
        """
        foreign = sorted(set(plans) - set(self._states))
        if foreign:
            raise ValueError(
                f'plan is of {", ".join(foreign)}, expected tasks among {", ".join(self._states)}'
            )
        with self._lock:
            for name, state in self._states.items():
                state.plan = plans.get(name)
                if state.plan is None:
                    state.waiting = None
                    self._mailbox.discard(state.first)
                elif state.waiting is not None:
                    self._place(state)

    def submit(self, task: str, image: object) -> None:
        """Leaves the newest image of a task, which replaces one that waits; a task that rests takes none.

        Raises:
            RuntimeError: in a fork of the process that has the threads.
        """
        if self._executor.left_behind:
            raise RuntimeError(self._executor.left_behind)
        with self._lock:
            state = self._states[task]
            if self._stopped or state.plan is None:
                return
            if state.waiting is not None:  # what waits keeps its place: its release and deadline
                state.count.replaced += 1
                state.waiting.message = image
                return
            state.came_ms = now_ms()
            state.waiting = _ScheduledJob(image, state.came_ms, _NO_STAMP)
            self._place(state)

    def stop(self) -> bool:
        """Closes the executor; a job at work is aborted at its next segment. Returns whether all came back."""
        self._end()
        for state in self._states.values():
            self._mailbox.discard(state.first)
        return self._executor.close(STOP_TIMEOUT_S)

    def _end(self) -> None:
        with self._lock:
            self._stopped = True

    def _place(self, state: _TaskState) -> None:
        """Settles when the job that waits is released and due; hold the lock."""
        job, due_ms = state.waiting, state.plan.deadline_ms
        job.arrived_ms, job.conditions = (
            max(state.came_ms, state.next_release_ms),
            Conditions(due_ms, 1.0, ''),
        )
        job.deadline_ms = job.arrived_ms + due_ms
        if state.takes_turns:  # else once it does
            self._mailbox.put(state.first, job, job.deadline_ms, job.arrived_ms)

    # --- on the worker ---

    def _begin(self, state: _TaskState, job: _ScheduledJob) -> None:
        """The first turn of a released job."""
        with self._lock:
            if self._stopped or state.waiting is not job:  # its task is inactive meanwhile
                return
            state.waiting, state.last_release_ms = None, job.arrived_ms
            job.taken_ms, job.given_ms = now_ms(), state.plan.time_ms
            self._allow(state, job, job.taken_ms)
            self._choose_level(state, job)
        self._take_turn(state, job)

    def _resume(self, state: _TaskState, job: _ScheduledJob) -> None:
        """A further turn of a job that was preempted."""
        with self._lock:
            state.preempted, at_ms = None, now_ms()
            job.preempted_ms += at_ms - job.left_ms
            self._allow(state, job, at_ms)
        self._take_turn(state, job)

    def _take_turn(self, state: _TaskState, job: _ScheduledJob) -> None:
        """Runs a job to its end, or until it is preempted."""
        with self._lock:
            left_ms = job.bound_ms - job.taken_so_far_ms(now_ms())
            job.fallback_ms = max(job.deadline_ms, now_ms() + left_ms) + self._hanging_ms
            self._at_work = state, job
        self._watchdog.arm(job.fallback_ms)
        ended = self._run(state, job)
        if ended is None:
            return
        outcome, failure = ended
        record = None if outcome is None else job.record(outcome, now_ms(), failure)
        with self._lock:
            hung, state.hangs = state.hangs, False
            if not hung:
                self._at_work = None
            if state.waiting is not None:  # it may have had to wait for this one
                self._place(state)
        if record is not None and not hung:  # else it was counted when it was aborted
            self._tell(state, record)

    def _allow(self, state: _TaskState, job: _ScheduledJob, at_ms: float) -> None:
        """Settles until when a job may run that is given the processor now; hold the lock."""
        others, coming = [], []
        for other in self._states.values():
            if other.preempted is not None:
                left_ms = other.preempted.left_of_bound_ms()
                others.append(Waiting(other.preempted.deadline_ms, left_ms))
            if other.plan is None or other.hangs:
                continue
            plan, next_ms = other.plan, max(at_ms, other.next_release_ms)
            if other.waiting is not None and other.waiting.arrived_ms <= at_ms:
                next_ms = max(at_ms, other.waiting.arrived_ms + plan.period_ms)
                others.append(Waiting(other.waiting.deadline_ms, plan.time_ms))
            coming.append(Coming(next_ms, plan.period_ms, plan.deadline_ms, plan.time_ms))
        latest_ms = latest_finish_ms(job.deadline_ms, others, coming)
        # What the schedule gives it is its own in any case, up to its deadline.
        own_ms = at_ms + job.given_ms - job.taken_so_far_ms(at_ms)
        job.until_ms = min(job.deadline_ms, max(latest_ms, own_ms))

    def _choose_level(self, state: _TaskState, job: _ScheduledJob) -> None:
        """The level of a job that begins; hold the lock."""
        plan = state.plan
        left_ms = job.until_ms - job.taken_ms
        raised = range(plan.highest if self._raises_levels else plan.level, plan.level, -1)
        fitting = [level for level in raised if plan.times_ms[level] * RAISED_ROOM <= left_ms]
        if not fitting:
            lowered = range(plan.level, -1, -1)
            fitting = [level for level in lowered if plan.times_ms[level] <= left_ms]
        job.planned_level, job.level = plan.level, fitting[0] if fitting else 0
        job.path, job.bound_ms = state.levels.paths[job.level], plan.times_ms[job.level]

    def _run(self, state: _TaskState, job: _ScheduledJob) -> tuple[Outcome | None, str] | None:
        """What came of a job, and its error; no outcome of an image that is rejected. None where it was preempted."""
        try:
            if job.run is None:
                image = state.client.convert(job)
                if image is None:
                    return None, ''
                job.begun_ms = now_ms()
                job.run = state.levels.network.start(image, job.path)
            while not job.run.finished:
                if state.hangs or self._stopped or now_ms() > job.until_ms:
                    return Outcome.ABORTED, ''
                if self._is_preempted(state, job):
                    return None
                job.leave('network', job.run.run_segment())
            job.result, job.ended_ms = job.run.result(), now_ms()
            if not self._claim(state, job):
                return Outcome.HUNG, ''
            state.client.publish(job, job.result)
            return (Outcome.DETECTED if now_ms() <= job.deadline_ms else Outcome.LATE), ''
        except BaseException as error:  # whatever a network throws, the other tasks go on
            state.client.on_failure(error)
            return Outcome.FAILED, f'{type(error).__name__}: {error}'

    def _is_preempted(self, state: _TaskState, job: _ScheduledJob) -> bool:
        """Leaves a job to a later turn where another task has one of an earlier deadline."""
        with self._lock:
            at_ms = now_ms()
            earlier = [
                other
                for other in self._states.values()
                if other is not state
                and other.takes_turns
                and other.waiting is not None
                and other.waiting.arrived_ms <= at_ms
                and other.waiting.deadline_ms < job.deadline_ms
            ]
            if not earlier or state.hangs or self._stopped:
                return False
            for other in earlier:
                blocked_ms = at_ms - other.waiting.arrived_ms
                other.count.longest_blocking_ms = max(other.count.longest_blocking_ms, blocked_ms)
            state.count.preemptions += 1
            self._mailbox.discard(state.first)  # its next job begins after this one
            job.left_ms, state.preempted, self._at_work = at_ms, job, None
            self._mailbox.put(state.later, job, job.deadline_ms)
            return True

    def _claim(self, state: _TaskState, job: _ScheduledJob) -> bool:
        """For publication, which has some time of its own. Returns whether the watchdog has not given the job up."""
        with self._lock:
            job.fallback_ms = max(job.fallback_ms, now_ms() + HANGING_PUBLICATION_MS)
            return not state.hangs

    # --- on a thread of the watchdog ---

    def _next_due(self, at_ms: float) -> tuple[float, Act | None]:
        """See `FramePipeline.next_due`: a job that does not come back is left to its thread."""
        with self._lock:
            if self._stopped or self._at_work is None:
                return math.inf, None
            state, job = self._at_work
            if job.fallback_ms > at_ms:
                return job.fallback_ms, None
            state.hangs, self._at_work = True, None
            # Its next one would hang the next thread; `_take_turn` leaves it again.
            self._mailbox.discard(state.first)
            return at_ms, partial(self._give_up, state, job)

    def _give_up(self, state: _TaskState, job: _ScheduledJob) -> None:
        self._executor.relieve_worker()
        self._tell(state, job.record(Outcome.HUNG, now_ms(), 'the network did not come back'))

    @staticmethod
    def _tell(state: _TaskState, record: JobRecord) -> None:
        state.count.note(record)
        state.client.on_record(record)
