"""The bound of a frame, or of one part of frames: `(execution + interruption) * exp(q)`.

Execution and interruption follow recent times (`recent_times.py`) and are right within some ten frames. q, the
integral (`calibration.py`), is there for what they get wrong, and has the promise: their sum is its base, known before
the frame. Needs no torch.
"""

from __future__ import annotations

import math
from typing import Any

from deadline_perception.timing.calibration import BoundCalibrator, check_kept_factor
from deadline_perception.timing.recent_times import RecentTimes, StartRatio

# Of a frame's part to what was expected; one beyond says no more than these.
LEAST_RATIO, MOST_RATIO = 0.125, 8.0
_KEPT = 0.995  # weight of what was seen before a frame: it halves every 140 frames
# Of x, as of frames whose deviation is 4.5 %; of less than that nothing is concluded.
_LEAST_VARIANCE = 0.002


class FadingSlope:
    """Slope of the line through pairs of numbers, of which newer ones count more, in [0, 1].

    Args:
        prior: slope while x hardly varies.

    Attributes:
        slope, mean: of the line, and of x.
    """

    def __init__(self, prior: float) -> None:
        self._sums = [0.0] * 5
        self._prior = self.slope = prior
        self.mean = 0.0

    def observe(self, x: float, y: float) -> None:
        """Takes in a pair."""
        seen = 1.0, x, y, x * x, x * y
        self._sums = [_KEPT * before + new for before, new in zip(self._sums, seen)]
        count, sum_x, sum_y, squares, products = self._sums
        self.mean = mean = sum_x / count
        variance = squares / count - mean * mean + _LEAST_VARIANCE
        covariance = products / count - mean * (sum_y / count) + _LEAST_VARIANCE * self._prior
        self.slope = min(max(covariance / variance, 0.0), 1.0)


class PartBound:
    """Bounds what whole frames, or one part of them, take.

    Args:
        integral: q; begins at 0 where recent times are in force.
        recent: their times.

    Attributes:
        integral, recent: as given.
        factor: from expected time to the bound, but for interruptions.
        interruption_ms: what the bound has on top.
    """

    def __init__(
        self,
        integral: BoundCalibrator,
        recent: RecentTimes,
    ) -> None:
        self.integral = integral
        self.recent = recent
        self._rests: list[PartBound] = []
        self.use()

    def use(
        self,
        *,
        execution: bool = True,
        interruption: bool = True,
        calm: bool = True,
        learns: bool = True,
    ) -> None:
        """Says what is in force from now on.

        Args:
            execution: the limit follows recent times; else it stays as at first.
            interruption: they add ms.
            calm: they do so too where none came in the last frames.
            learns: q does; else it stays.
        """
        self._parts = {
            'execution': execution,
            'interruption': interruption,
            'calm': calm,
            'learns': learns,
        }
        self._renew()

    def _renew(self) -> None:
        """Takes over what frames have shown: after an answer, so that no decision has to."""
        integral = self.integral
        recent = self.recent
        parts = self._parts
        limits = recent if parts['execution'] and recent.has_limit else recent.start
        self._execution_factor = math.exp(limits.log_limit)
        adds = parts['interruption'] and (recent.is_soon_after or parts['calm'])
        self._excess_ms = recent.interruption_ms * adds
        of_q = integral.factor if parts['learns'] else math.exp(integral.initial_log_factor)
        self.factor = of_q * self._execution_factor
        self.interruption_ms = of_q * self._excess_ms
        for rest in self._rests:
            if not (parts['execution'] and rest.recent.has_limit):  # by frames of its own
                rest._renew()

    def bound_ms(self, expected_ms: float) -> float:
        """The time in ms that few frames exceed of which so much is expected; of a positive, finite one."""
        return expected_ms * self.factor + self.interruption_ms

    def observe(
        self,
        expected_ms: float,
        took_ms: float,
        *,
        is_late: bool = False,
        in_time: bool = False,
    ) -> None:
        """Learns from one frame, or from one that was aborted and would have taken so long, which is more than its
        bound.

        Args:
            expected_ms: of what ran.
            took_ms: that it took.
            is_late: it was to be in time, and was not.
            in_time: it was.

        Raises:
            ValueError: a time is not a positive, finite number, and nothing was learnt.
        """
        if not (0.0 < took_ms < math.inf and 0.0 < expected_ms < math.inf):
            raise ValueError(
                f'expected are {expected_ms} ms, and the time is {took_ms} ms, expected positive, '
                f'finite numbers'
            )
        base_ms = expected_ms * self._execution_factor + self._excess_ms
        self.integral.observe(base_ms, None if is_late else took_ms, in_time=in_time)
        self.recent.observe(expected_ms, took_ms)
        self._renew()

    def observe_aborted(self, expected_ms: float, would_take_ms: float, **outcome: bool) -> None:
        """Learns from a frame that was aborted: whether it was late, and how long it would have taken where that is
        more than its bound; else the time says nothing, as it was aborted for want of it. In time is one whose image
        was answered by what the network had found until then; see `observe`.

        Raises:
            ValueError: the expected time is not a positive, finite number.
        """
        if would_take_ms > self.bound_ms(expected_ms):
            self.observe(expected_ms, would_take_ms, **outcome)
        elif outcome.get('is_late'):
            self.integral.observe(expected_ms, None)  # late, whatever its bound was
            self._renew()

    def state(self) -> dict[str, Any]:
        """All that it knows, as plain values."""
        return {**self.integral.state(), 'recent': self.recent.state()}

    @classmethod
    def from_state(cls, state: dict[str, Any], start: StartRatio) -> PartBound:
        """Goes on where `state` was taken.

        Args:
            state: from `state`.
            start: what the profile says, for the case that few frames were seen.

        Raises:
            ValueError: a value is missing, of another type, or outside its range.
        """
        integral = BoundCalibrator.from_state(state)
        recent = RecentTimes.from_state(integral.alpha, start, state.get('recent'))
        check_kept_factor(math.exp(recent.log_limit))
        return cls(integral, recent)

    def of_rest(self) -> PartBound:
        """A bound of a part of these frames, which goes by their times until it has seen some of its own."""
        of_whole = self.integral
        width = of_whole.score_width
        begin = min(max(of_whole.log_factor, -width), width)
        rest = PartBound(
            BoundCalibrator(of_whole.alpha, of_whole.eta, width, begin),
            RecentTimes(of_whole.alpha, self.recent),
        )
        rest.use(**self._parts)
        self._rests.append(rest)
        return rest


class RemainingBound:
    """Bounds what is left of a frame as one segment begins, from its forecast and from how slow the frame has been.

    What is left varies more than the whole frame, and a frame that began slowly mostly goes on slowly. So each segment
    has a bound of its own, of forecasts that are first multiplied by a power of `progress`: what the frame has taken so
    far over what was expected of that, in [LEAST_RATIO, MOST_RATIO], and 1 where nothing has run. The power is the
    slope of the line through what frames showed, on log scales, newer ones counting more. Since it rests on earlier
    frames alone, the bound keeps its promise.

    Args:
        whole: of whole frames; until this one has seen some, it goes by their times, and has their target and step.
        by_progress: look at how slow a frame has been.

    Attributes:
        bound: of forecasts times that power.
        line: through the logarithms.
    """

    def __init__(self, whole: PartBound, *, by_progress: bool = True) -> None:
        self.bound = whole.of_rest()
        self._by_progress = by_progress
        # What is left has a factor of 1 until something was seen.
        self.line = FadingSlope(0.0)

    def observe(self, progress: float, expected_ms: float, took_ms: float, **outcome: bool) -> None:
        """Learns from a rest that ended; see `PartBound.observe`.

        Raises:
            ValueError: a time is not a positive, finite number, and nothing was learnt.
        """
        factor = self.progress_factor(progress)
        self.bound.observe(expected_ms * factor, took_ms, **outcome)
        if self._by_progress:
            ratio = min(max(took_ms / expected_ms, LEAST_RATIO), MOST_RATIO)
            self.line.observe(math.log(progress), math.log(ratio))

    def observe_aborted(
        self, progress: float, expected_ms: float, would_take_ms: float, **outcome: bool
    ) -> None:
        """Learns from a rest that was aborted, where it would have exceeded its bound; else that says nothing."""
        expected_ms *= self.progress_factor(progress)
        self.bound.observe_aborted(expected_ms, would_take_ms, **outcome)

    def progress_factor(self, progress: float) -> float:
        """What the rest is multiplied with for how slow the frame has been."""
        return math.exp(self.line.slope * (math.log(progress) - self.line.mean))
