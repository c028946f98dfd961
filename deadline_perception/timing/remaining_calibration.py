"""Bounds of what is left of a frame as one of its segments begins."""
from __future__ import annotations

import math

from deadline_perception.timing.calibration import BoundCalibrator


class RemainingCalibrators:
    """Bounds of what is left of a frame as one of its segments begins: from its forecast, and from how slow the frame
    has been so far.

    What is left varies more than the whole frame, and a frame that began slowly mostly goes on slowly. So each segment
    has a calibrator of its own, of forecasts that are first multiplied by a power of `progress`: what the frame has
    taken so far over what was expected of that. The power is the slope of the line through what frames showed, on log
    scales, newer ones counting more. Since it rests on earlier frames alone, each calibrator keeps its promise.

    Args:
        whole: of whole frames; the others begin with its factor, and have its target and step.
        segments: of the network, at least 1.
        by_progress: look at how slow a frame has been.
    """

    def __init__(self, whole: BoundCalibrator, segments: int, *, by_progress: bool = True) -> None:
        begin = min(max(whole.log_factor, -whole.score_width), whole.score_width)
        self._from = [BoundCalibrator(whole.alpha, whole.eta, whole.score_width, begin) for _ in range(segments)]
        self._slopes = [_Slope() for _ in range(segments)]
        self._by_progress = by_progress

    def factor(self, segment: int, progress: float) -> float:
        """What the forecast of the rest from a segment on is multiplied with; `progress` is a `limited_ratio`, and 1
        where nothing has run."""
        return self._pace(segment, progress) * self._from[segment].factor

    def observe(self, segment: int, progress: float, forecast_ms: float, took_ms: float) -> None:
        """Learns from a rest that ended.

        Raises:
            ValueError: a time is not a positive, finite number, and nothing was learnt.
        """
        self._from[segment].observe(forecast_ms * self._pace(segment, progress), took_ms)
        self._slopes[segment].observe(progress, took_ms / forecast_ms)

    def observe_aborted(self, segment: int, progress: float, forecast_ms: float, would_take_ms: float) -> None:
        """Learns from a rest that was aborted, where it would have exceeded its bound; else that says nothing."""
        forecast_ms *= self._pace(segment, progress)
        if would_take_ms > self._from[segment].bound_ms(forecast_ms):
            self._from[segment].observe(forecast_ms, None)

    def _pace(self, segment: int, progress: float) -> float:
        return self._slopes[segment].pace(progress) if self._by_progress else 1.0


class _Slope:
    """By what power of `progress` rests grow: regression on log scales, of weights that halve every 140 frames."""

    _KEPT = 0.995
    _LEAST_VARIANCE = 0.002  # of progress, as of frames that spread by 4.5 %; of less than that nothing is concluded

    def __init__(self) -> None:
        self._frames = self._progress = self._rest = self._square = self._product = 0.0

    def pace(self, progress: float) -> float:
        """Factor on what is left, 1 for a frame that began as usual."""
        if not self._frames:
            return 1.0
        mean = self._progress / self._frames
        variance = self._square / self._frames - mean * mean + self._LEAST_VARIANCE
        covariance = self._product / self._frames - mean * self._rest / self._frames
        return math.exp(min(max(covariance / variance, 0.0), 1.0) * (math.log(progress) - mean))

    def observe(self, progress: float, rest: float) -> None:
        """Takes in a frame: what its begin and its rest took over what was expected."""
        x, y, kept = math.log(progress), math.log(limited_ratio(rest)), self._KEPT
        self._frames = kept * self._frames + 1.0
        self._progress = kept * self._progress + x
        self._rest = kept * self._rest + y
        self._square = kept * self._square + x * x
        self._product = kept * self._product + x * y


def limited_ratio(ratio: float) -> float:
    """Of a frame's part; one of an eighth or of eight times what was expected says no more than that."""
    return min(max(ratio, 0.125), 8.0)
