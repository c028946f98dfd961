"""Runs the networks of several tasks on one device, one job at a time, by non-preemptive EDF as scheduled.

A task is released when its newest image is there and its period has passed since the release before, so releases are
never nearer to each other than the period: what `nested.feasibility` asks for. Its deadline is one period later. The
released job of the earliest deadline runs to its end; its level is chosen as it begins: that of the schedule, a higher
one where earlier jobs left so much time that all deadlines are still met, a lower one where they took too much. It is
cut at its next segment once its own deadline, or anybody else's, is in danger.

`runtime.mailbox` is not enough here: what lies in it is ready at once, and a job is not before its release.
"""
from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.nested.spare_time import Coming, Waiting, latest_finish_ms
from deadline_perception.runtime.scheduled_job import JobOutcome, ScheduledJobRecord, TaskCount
from deadline_perception.runtime.kernel_thread import name_thread

HANGING_MS = 500.0  # past its bound and its deadline; until then nobody else is served
STOP_TIMEOUT_S = 3.0
# A raised job that exceeds its bound by up to so much is still in time: none of the misses is for the sake of a level.
RAISED_ROOM = 1.25
_numbers = itertools.count()


@dataclass(frozen=True)
class TaskPlan:
    """What a schedule says of one task.

    Attributes:
        level: that its jobs run at.
        period_ms: least time between two releases, and from each to its deadline.
        times_ms: bound of a job at each level, ascending, all above 0.

    Raises:
        ValueError: a value lies outside its range.
    """

    level: int
    period_ms: float
    times_ms: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.level < len(self.times_ms) or not 0.0 < self.period_ms < math.inf:
            raise ValueError(f'level is {self.level} of {len(self.times_ms)} and period {self.period_ms} ms, expected '
                             f'one of the levels and a finite time above 0')
        if not all(0.0 < time_ms < math.inf for time_ms in self.times_ms):
            raise ValueError(f'bounds of jobs are {self.times_ms} ms, expected finite times above 0')

    @property
    def time_ms(self) -> float:
        """Bound of a job at the planned level."""
        return self.times_ms[self.level]


@dataclass(frozen=True)
class Jobber:
    """How the jobs of one task are done; all are called on the executor's thread.

    Attributes:
        begin: image and level -> a run with `finished`, `run_segment()` and `result()`; None when the image is
            rejected.
        end: image and result -> nothing; publishes.
        told: what a job came to; called after it has ended.
    """

    begin: Callable[[object, int], object]
    end: Callable[[object, object], None]
    told: Callable[[ScheduledJobRecord], None] = lambda record: None


class _Seat:
    """One task as the executor sees it."""

    def __init__(self, name: str, jobber: Jobber) -> None:
        self.name, self.jobber, self.count = name, jobber, TaskCount()
        self.plan: TaskPlan | None = None
        self.image: object | None = None
        self.arrived_ms = 0.0
        self.last_release_ms = -math.inf
        self.hangs = False

    @property
    def runs(self) -> bool:
        return self.plan is not None and not self.hangs

    def release_ms(self) -> float:
        """Of its next job; only while it has an image."""
        return max(self.arrived_ms, self.last_release_ms + self.plan.period_ms)


@dataclass
class _Job:
    """The job at work."""

    seat: _Seat
    plan: TaskPlan
    release_ms: float
    deadline_ms: float
    started_ms: float
    level: int
    until_ms: float

    def record(self, outcome: JobOutcome, finished_ms: float, failure: str = '') -> ScheduledJobRecord:
        return ScheduledJobRecord(self.seat.name, self.plan.level, self.level, self.release_ms, self.deadline_ms,
                         self.started_ms, finished_ms, self.plan.times_ms[self.level], outcome, failure)


class NetworkExecutor:
    """See the module. `submit` and `follow` may be called by any thread and never block.

    Args:
        jobbers: how the jobs of each task are done, by name.
        failed: is told errors that belong to no job.
        prepare: called by each thread that runs jobs before its first one.
        between: called after each job.
        hanging_ms: a job that is so long past its bound and its deadline hangs: a new thread takes over.
        raises_levels: use what jobs leave of their time for higher levels.
    """

    def __init__(self, jobbers: Mapping[str, Jobber], *, failed: Callable[[Exception], None],
                 prepare: Callable[[], None] = lambda: None, between: Callable[[], None] = lambda: None,
                 hanging_ms: float = HANGING_MS, raises_levels: bool = True) -> None:
        self._seats = {name: _Seat(name, jobber) for name, jobber in jobbers.items()}
        self._failed, self._prepare, self._between = failed, prepare, between
        self._hanging_ms, self._raises_levels = hanging_ms, raises_levels
        self._changed = threading.Condition()
        self._job: _Job | None = None
        self._worker: threading.Thread | None = None
        self._stopped = False
        self._watcher = threading.Thread(target=self._watch, name='executor watch', daemon=True)
        with self._changed:
            self._start_worker()
        self._watcher.start()

    @property
    def counts(self) -> dict[str, TaskCount]:
        """Jobs of each task so far."""
        return {name: seat.count for name, seat in self._seats.items()}

    @property
    def hanging(self) -> tuple[str, ...]:
        """Tasks whose job did not come back."""
        with self._changed:
            return tuple(name for name, seat in self._seats.items() if seat.hangs)

    def follow(self, plans: Mapping[str, TaskPlan]) -> None:
        """From the next job on goes by these plans; a task without one rests. A job at work is not disturbed.

        Raises:
            ValueError: a plan is of no task of this executor.
        """
        foreign = sorted(set(plans) - set(self._seats))
        if foreign:
            raise ValueError(f'plan is of {", ".join(foreign)}, expected tasks among {", ".join(self._seats)}')
        with self._changed:
            for name, seat in self._seats.items():
                seat.plan = plans.get(name)
                if seat.plan is None:
                    seat.image = None
            self._changed.notify_all()

    def submit(self, task: str, image: object) -> None:
        """Leaves the newest image of a task, which replaces one that waits; a task that rests takes none."""
        with self._changed:
            seat = self._seats[task]
            if self._stopped or seat.plan is None:
                return
            if seat.image is not None:
                seat.count.replaced += 1  # what waits keeps its place: its release and deadline
            else:
                seat.arrived_ms = now_ms()
            seat.image = image
            self._changed.notify_all()

    def stop(self) -> bool:
        """Ends the threads; a job at work is cut at its next segment. Returns whether all came back."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            worker = self._worker
        worker.join(STOP_TIMEOUT_S)
        self._watcher.join(STOP_TIMEOUT_S)
        return not worker.is_alive() and not self.hanging

    # --- on the thread that runs jobs ---

    def _start_worker(self) -> None:
        self._worker = threading.Thread(target=self._serve, name=f'executor {next(_numbers)}', daemon=True)
        self._worker.start()

    def _serve(self) -> None:
        name_thread('inference')
        me = threading.current_thread()
        try:
            self._prepare()
        except Exception as error:  # a permission that is refused; jobs run all the same
            self._failed(error)
        while True:
            with self._changed:
                job, image = self._next_job(me)
                if job is None:
                    return
                self._job = job
                self._changed.notify_all()  # the watch has a new time
            outcome, failure = self._run(job, image, me)
            record = job.record(outcome, now_ms(), failure)
            del image
            with self._changed:
                if self._worker is not me:  # it was given up as hanging and counted then
                    job.seat.hangs = False
                    self._changed.notify_all()
                    return
                self._job = None
            if outcome is not None:
                self._tell(job, record)
            try:
                self._between()
            except Exception as error:  # the thread's outermost frame
                self._failed(error)

    def _next_job(self, me: threading.Thread) -> tuple[_Job | None, object]:
        """Waits, holding the lock otherwise, until a job is released."""
        while not self._stopped and self._worker is me:
            at_ms = now_ms()
            waiting = [(seat.release_ms(), seat) for seat in self._seats.values() if seat.runs
                       and seat.image is not None]
            ready = [(release_ms + seat.plan.period_ms, place, release_ms, seat)
                     for place, (release_ms, seat) in enumerate(waiting) if release_ms <= at_ms]
            if ready:
                deadline_ms, _, release_ms, seat = min(ready)
                return self._begin(seat, release_ms, deadline_ms, at_ms)
            soonest_ms = min((release_ms for release_ms, _ in waiting), default=math.inf)
            self._changed.wait(None if soonest_ms == math.inf else (soonest_ms - at_ms) / 1000.0)
        return None, None

    def _begin(self, seat: _Seat, release_ms: float, deadline_ms: float, at_ms: float) -> tuple[_Job, object]:
        """Takes a released job out, and settles its level and until when it may run; hold the lock."""
        image, seat.image, seat.last_release_ms = seat.image, None, release_ms
        plan, others, coming = seat.plan, [], []
        for other in self._seats.values():
            if not other.runs:
                continue
            next_ms = max(at_ms, other.last_release_ms + other.plan.period_ms)
            if other.image is not None and other.release_ms() <= at_ms:
                first_ms = other.release_ms()
                others.append(Waiting(first_ms + other.plan.period_ms, other.plan.time_ms))
                next_ms = first_ms + other.plan.period_ms
            coming.append(Coming(next_ms, other.plan.period_ms, other.plan.time_ms))
        latest_ms = latest_finish_ms(deadline_ms, others, coming)
        # What the schedule gives it is its own in any case, up to its deadline.
        until_ms = min(deadline_ms, max(latest_ms, at_ms + plan.time_ms))
        highest = len(plan.times_ms) - 1 if self._raises_levels else plan.level
        level = next((level for level in range(highest, plan.level, -1)
                      if at_ms + plan.times_ms[level] * RAISED_ROOM <= until_ms), None)
        if level is None:
            level = next((level for level in range(plan.level, -1, -1) if at_ms + plan.times_ms[level] <= until_ms), 0)
        return _Job(seat, plan, release_ms, deadline_ms, at_ms, level, until_ms), image

    def _run(self, job: _Job, image: object, me: threading.Thread) -> tuple[JobOutcome | None, str]:
        try:
            run = job.seat.jobber.begin(image, job.level)
            if run is None:
                return None, ''
            while not run.finished:
                if self._worker is not me or self._stopped or now_ms() > job.until_ms:
                    return JobOutcome.CUT, ''
                run.run_segment()
            result = run.result()
            if self._worker is not me:
                return JobOutcome.HUNG, ''
            job.seat.jobber.end(image, result)
            return (JobOutcome.DONE if now_ms() <= job.deadline_ms else JobOutcome.LATE), ''
        except Exception as error:  # whatever a network throws, the other tasks go on
            self._failed(error)
            return JobOutcome.FAILED, f'{type(error).__name__}: {error}'

    # --- on the watching thread ---

    def _watch(self) -> None:
        """Replaces the thread of a job that does not come back."""
        while not self._stopped:
            with self._changed:
                job, wait_s, given_up = self._job, None, None
                if job is not None:
                    over_ms = max(job.deadline_ms, job.started_ms + job.plan.times_ms[job.level]) + self._hanging_ms
                    wait_s = (over_ms - now_ms()) / 1000.0
                if wait_s is not None and wait_s <= 0.0:
                    given_up = self._give_up(job)
                elif not self._stopped:
                    self._changed.wait(wait_s)
            if given_up is not None:
                self._tell(job, given_up)

    def _give_up(self, job: _Job) -> ScheduledJobRecord:
        """Leaves a job to its thread, and has another one serve the other tasks; hold the lock."""
        job.seat.hangs, self._job = True, None
        self._start_worker()
        return job.record(JobOutcome.HUNG, now_ms(), 'the network did not come back')

    def _tell(self, job: _Job, record: ScheduledJobRecord) -> None:
        job.seat.count.note(record)
        try:
            job.seat.jobber.told(record)
        except Exception as error:  # the thread's outermost frame
            self._failed(error)
