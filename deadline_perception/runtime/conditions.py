"""The budget and the slowdown in force, and what takes their place while nobody says them. Free of ROS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deadline_perception.core.number import number_or_nan, told_value
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.runtime.job import Conditions, JobRecord, Outcome
from deadline_perception.timing.contention.slowdown import MAX_SLOWDOWN, SlowdownEstimator

OWN_SOURCE = 'own frames'
CONTENTION_TIMEOUT_MS = 3000.0  # nine states of the contention monitor


@dataclass(frozen=True)
class _Budget:
    budget_ms: float
    min_budget_ms: float
    reason: str
    heard_ms: float


@dataclass(frozen=True)
class _Contention:
    slowdown: float
    source: str
    heard_ms: float
    own_slowdown: float


class SlowdownTracker:
    """Remembers the last contention state, and what the frames have said since it was heard, so that it may be a third
    of a second old; any thread may read while another writes.

    An older contention state than `CONTENTION_TIMEOUT_MS` is stale, and so said. The frames' own times over their
    forecasts then give the slowdown; without frames the stale one stays in force, because 1 would promise bounds that a
    busy machine cannot hold.

    Args:
        is_expected: it is said, too, that none was heard yet.
        clock_ms: monotonic clock.
    """

    def __init__(
        self, *, is_expected: bool = False, clock_ms: Callable[[], float] = now_ms
    ) -> None:
        self._is_expected = is_expected
        self._clock_ms = clock_ms
        self._contention: _Contention | None = None
        self._own = SlowdownEstimator()

    def on_frame(self, record: JobRecord) -> None:
        """Takes in how a frame went: it moves the last contention state, and takes its place when there is none."""
        observe: dict[Outcome, Callable[[float, float, float], None]] = {
            Outcome.DETECTED: self._own.observe_frame,
            Outcome.COASTED: self._own.observe_unfinished,
            Outcome.LATE: self._own.observe_late,
        }
        # An answer may hold what the network had found until then.
        outcome = Outcome.COASTED if record.result is None else record.outcome
        observe[outcome](record.forecast_ms, record.network_ms, record.bound_ms)

    def on_contention(self, slowdown: float, source: str) -> None:
        """Takes in a contention state.

        Raises:
            ValueError: the slowdown is no factor in [1, MAX_SLOWDOWN]; it is then dropped.
        """
        if not 1.0 <= number_or_nan(slowdown) <= MAX_SLOWDOWN:
            raise ValueError(
                f'slowdown is {told_value(slowdown)}, expected a factor in [1, {MAX_SLOWDOWN:g}]'
            )
        self._contention = _Contention(slowdown, source, self._clock_ms(), self._own.slowdown)

    def now(self) -> tuple[float, str, str]:
        """The slowdown, its source, and why it is degraded, empty when it is not."""
        contention = self._contention
        own = self._own.slowdown
        has_own = bool(self._own.sources)
        if contention is None:
            words = f'slowdown of {own:.2f} by its own frames' if has_own else 'slowdown taken as 1'
            reason = f'no contention state heard yet, {words}' if self._is_expected else ''
            return own, OWN_SOURCE if has_own else '', reason
        age_ms = self._clock_ms() - contention.heard_ms
        if age_ms <= CONTENTION_TIMEOUT_MS:
            moved = contention.slowdown * own / contention.own_slowdown
            return min(max(1.0, moved), MAX_SLOWDOWN), contention.source, ''
        words = f'contention state is {age_ms / 1000:.1f} s old'
        if has_own:
            return own, OWN_SOURCE, f'{words}, slowdown of {own:.2f} by its own frames'
        return (
            contention.slowdown,
            contention.source,
            (f'{words}, its slowdown of {contention.slowdown:.2f} stays in force'),
        )


class ConditionTracker:
    """Remembers the last valid budget and contention; any thread may read while another writes.

    Args:
        default_budget_ms: budget until the first one is heard, > 0.
        budget_timeout_ms: an older budget is stale; the smallest one that was named is then in force.
        standing: why every frame is degraded, whatever is received.
        clock_ms: monotonic clock.
    """

    def __init__(
        self,
        *,
        default_budget_ms: float,
        budget_timeout_ms: float,
        standing: tuple[str, ...] = (),
        clock_ms: Callable[[], float] = now_ms,
    ) -> None:
        self._default_budget_ms = default_budget_ms
        self._budget_timeout_ms = budget_timeout_ms
        self._standing = standing
        self._clock_ms = clock_ms
        self._budget: _Budget | None = None
        self._slowdown = SlowdownTracker(is_expected=True, clock_ms=clock_ms)
        self.on_frame = self._slowdown.on_frame
        self.on_contention = self._slowdown.on_contention

    def on_budget(
        self,
        budget_ms: float,
        min_budget_ms: float,
        reason: str,
    ) -> None:
        """Takes in a budget.

        Args:
            budget_ms: budget now, in (0, MAX_BUDGET_MS].
            min_budget_ms: smallest that its policy gives.
            reason: why it is degraded, empty when it is not.
        """
        smallest_ms = min_budget_ms if 0 < min_budget_ms <= budget_ms else budget_ms
        self._budget = _Budget(budget_ms, smallest_ms, reason, self._clock_ms())

    def now(self) -> Conditions:
        """What the next frame is decided under."""
        at_ms = self._clock_ms()
        budget_ms, budget_reason = self._budget_now(at_ms)
        slowdown, source, contention_reason = self._slowdown.now()
        reasons = tuple(
            reason for reason in (budget_reason, contention_reason, *self._standing) if reason
        )
        return Conditions(budget_ms, slowdown, source, reasons)

    def _budget_now(self, at_ms: float) -> tuple[float, str]:
        budget = self._budget
        if budget is None:
            return self._default_budget_ms, (
                f'no budget heard yet, {self._default_budget_ms:.0f} ms of '
                f'default_budget_ms in force'
            )
        age_ms = at_ms - budget.heard_ms
        if age_ms > self._budget_timeout_ms:
            return budget.min_budget_ms, (
                f'budget is {age_ms / 1000:.1f} s old, the smallest of '
                f'{budget.min_budget_ms:.0f} ms in force'
            )
        return budget.budget_ms, f'budget: {budget.reason}' if budget.reason else ''
