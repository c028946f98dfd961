"""What the detector says about itself: counts since activation, and the diagnostic made of them. Free of ROS."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from statistics import median

from deadline_perception.core.errors import command_line
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.runtime.image_flow import TOLD_MS
from deadline_perception.runtime.job import JobRecord, Outcome
from deadline_perception.runtime.pipeline import FramePipeline

WINDOW = 200  # frames that the miss ratio is taken over
HANGING_MS = 5000.0
LOOSE = 3.0  # times that a bound lies above what frames take; beyond it paths that would fit are not taken
_LEAST_RATIOS = 30  # frames, before that is reported


@dataclass
class DetectorStatus:
    """Counts since the node was activated; worker, watchdog and executor write to it."""

    replaced: int = 0
    rejected: int = 0
    last_rejection: str = ''
    frames: int = 0
    unanswered: int = 0
    failures: int = 0
    last_failure: str = ''
    failed_ms: float = -math.inf
    rejected_ms: float = -math.inf
    last: JobRecord | None = None
    misses: Counter[str] = field(default_factory=Counter)
    last_miss: str = ''
    _bound_ratios: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _missed: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _missed_in_a_row: int = 0
    _delayed_since_ms: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reject(self, cause: str) -> None:
        """Counts an image that could not be used."""
        with self._lock:
            self.rejected += 1
            self.last_rejection = cause
            self.rejected_ms = now_ms()

    def note(self, record: JobRecord) -> None:
        """Counts a published frame."""
        with self._lock:
            missed = not record.is_in_time
            self.frames += 1
            self.replaced += record.superseded
            self.last = record
            self._missed.append(missed)
            if missed:
                self.misses[miss_cause(record)] += 1
                self.last_miss = record.explanation
            elif record.network_ms > 0.0 and math.isfinite(record.bound_ms):
                self._bound_ratios.append(record.bound_ms / record.network_ms)
            self._missed_in_a_row = self._missed_in_a_row + 1 if missed else 0
            if not missed:
                self._delayed_since_ms = None
            elif self._delayed_since_ms is None:
                self._delayed_since_ms = now_ms()

    def fail(self, error: BaseException) -> None:
        """Counts a failure of conversion, network or publication."""
        self.failures += 1
        self.last_failure = f'{type(error).__name__}: {error}'
        self.failed_ms = now_ms()

    def halt(self, pipeline: FramePipeline) -> None:
        """Counts what the node held as it was deactivated, which no published frame tells of."""
        with self._lock:
            self.replaced = pipeline.replaced
            left = pipeline.arrived - pipeline.replaced - self.frames - self.rejected
            self.unanswered = max(
                0, left
            )  # one whose conversion took so long counts as published and as rejected

    @property
    def deadline_miss_ratio(self) -> float:
        """Share of the recent frames without own detections in time; 0 before the first."""
        with self._lock:
            return sum(self._missed) / len(self._missed) if self._missed else 0.0

    @property
    def bound_ratio(self) -> float:
        """How many times what frames took their bounds were, median of the recent ones in time; NaN before enough."""
        with self._lock:
            ratios = list(self._bound_ratios)
        return median(ratios) if len(ratios) >= _LEAST_RATIOS else math.nan

    def values(self) -> dict[str, str]:
        """Keys and values of the diagnostic."""
        last = self.last
        values = {
            'frames': str(self.frames),
            'replaced_frames': str(self.replaced),
            'unanswered_frames': str(self.unanswered),
            'rejected_frames': str(self.rejected),
            'failures': str(self.failures),
            'deadline_miss_ratio': f'{self.deadline_miss_ratio:.4f}',
        }
        values |= {f'misses: {cause}': str(count) for cause, count in list(self.misses.items())}
        if self.last_miss:
            values['last_miss'] = self.last_miss
        if self.last_rejection:
            values['last_rejection'] = self.last_rejection
        if not math.isnan(self.bound_ratio):
            values['bound_over_network'] = f'{self.bound_ratio:.2f}'
        if last is not None:
            since_ms = self._delayed_since_ms  # read once: the worker may clear it meanwhile
            delayed_ms = 0.0 if since_ms is None else now_ms() - since_ms
            values |= {
                'processing_time_ms': f'{last.elapsed_ms:.2f}',
                'network_ms': f'{last.network_ms:.2f}',
                'is_processing_time_ms_in_expected_range': str(last.deadline_met),
                'consecutive_processing_delay_ms': f'{delayed_ms:.0f}',
                'deadline_ms': f'{last.conditions.budget_ms:.2f}',
                'bound_ms': f'{last.bound_ms:.2f}',
                'path': str(last.path or ''),
                'slowdown': f'{last.conditions.slowdown:.3f}',
                'contention_source': last.conditions.contention_source,
                'outcome': last.outcome.name.lower(),
            }
        return values

    def concerns(self) -> tuple[str, ...]:
        """What is degraded, for a person."""
        found = list(self.last.reasons) if self.last is not None else []
        if self.failures and now_ms() - self.failed_ms < TOLD_MS:
            found.append(f'{self.failures} failures, the last: {self.last_failure}')
        if now_ms() - self.rejected_ms < TOLD_MS:
            found.append(f'{self.rejected} images rejected, the last: {self.last_rejection}')
        if self._missed_in_a_row:
            found.append(f'{self._missed_in_a_row} deadlines missed in a row')
        if self.bound_ratio > LOOSE:
            found.append(
                f'bounds are {self.bound_ratio:.1f} times what frames take, so smaller paths run than would fit; measure '
                f'again on an idle machine: {command_line("profile")}'
            )
        return tuple(found)


def miss_cause(record: JobRecord) -> str:
    """What is to blame that a frame's own result was not in time, in a few words."""
    if record.failure:
        return 'failure'
    if record.plan is None:
        return 'waited for the frame before'
    if not record.feasible:
        if record.stamp.known_age_ms > 0.5 * record.conditions.budget_ms:
            return 'image arrived late'
        return 'budget too short'
    if record.network_ms > record.bound_ms:
        return 'bound exceeded'
    if record.outcome is Outcome.COASTED:
        return 'aborted, the rest no longer fitted'
    return 'time outside the network'


def hanging(busy_since_ms: float | None) -> str:
    """Why the worker's frame does not come out; empty when all is well."""
    if busy_since_ms is None or now_ms() - busy_since_ms < HANGING_MS:
        return ''
    return f'the network has not answered for {(now_ms() - busy_since_ms) / 1000:.0f} s'
