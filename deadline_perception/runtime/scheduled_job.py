"""A job of a scheduled task: what was planned for it, when it ran, and what came of it. Free of ROS."""
from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from deadline_perception.latency.calibration import clopper_pearson_upper


class JobOutcome(Enum):
    """What came of a job.

    DONE: finished by its deadline.
    LATE: finished after it.
    CUT: stopped at a segment because its time was over.
    FAILED: image, network or publication raised an error.
    HUNG: did not come back; another thread serves the other tasks.
    """

    DONE = 'done'
    LATE = 'late'
    CUT = 'cut'
    FAILED = 'failed'
    HUNG = 'hung'


@dataclass(frozen=True)
class ScheduledJobRecord:
    """One job. Times are of the monotonic clock.

    Attributes:
        task: its name.
        planned_level: of the schedule as the job began.
        level: that it ran at, higher where earlier jobs had left time, lower where they had taken more.
        release_ms, deadline_ms, started_ms, finished_ms: in this order, but that it may finish after its deadline.
        bound_ms: of a job at that level.
        outcome: what came of it.
        failure: the error, empty without one.
    """

    task: str
    planned_level: int
    level: int
    release_ms: float
    deadline_ms: float
    started_ms: float
    finished_ms: float
    bound_ms: float
    outcome: JobOutcome
    failure: str = ''

    @property
    def took_ms(self) -> float:
        """From start to finish."""
        return self.finished_ms - self.started_ms

    @property
    def overran(self) -> bool:
        """Took longer than its bound."""
        return self.took_ms > self.bound_ms


@dataclass
class TaskCount:
    """Jobs of one task so far; written by the executor, read by any thread."""

    outcomes: Counter = field(default_factory=Counter)
    overruns: int = 0
    raised: int = 0
    replaced: int = 0
    last_failure: str = ''
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, record: ScheduledJobRecord) -> None:
        """Counts a job."""
        with self._lock:
            self.outcomes[record.outcome] += 1
            self.overruns += record.overran
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
            return sum(self.outcomes.values()) - self.outcomes[JobOutcome.DONE]

    @property
    def miss_ratio(self) -> float:
        """Share of the jobs; 0 without any."""
        jobs = self.jobs
        return self.misses / jobs if jobs else 0.0

    @property
    def miss_ratio_upper_95(self) -> float:
        """Clopper-Pearson upper 95 % limit of the miss probability; 1 without jobs."""
        return clopper_pearson_upper(self.misses, self.jobs)
