"""Bounds of what is left of a frame as one of its segments begins."""
from __future__ import annotations

import math

from deadline_perception.timing.calibration import BoundCalibrator

LEAST_RATIO, MOST_RATIO = 0.125, 8.0  # of a frame's part to what was expected; one beyond says no more than these
_KEPT = 0.995  # weight of what was seen before a frame: it halves every 140 frames
_LEAST_VARIANCE = 0.002  # of progress, as of frames that spread by 4.5 %; of less than that nothing is concluded


class RemainingCalibrator:
    """Bounds of what is left of a frame as one segment begins, from its forecast and from how slow the frame has been.

    What is left varies more than the whole frame, and a frame that began slowly mostly goes on slowly. So each segment
    has a calibrator of its own, of forecasts that are first multiplied by a power of `progress`: what the frame has
    taken so far over what was expected of that, in [LEAST_RATIO, MOST_RATIO], and 1 where nothing has run. The power is
    the slope of the line through what frames showed, on log scales, newer ones counting more. Since it rests on earlier
    frames alone, the calibrator keeps its promise.

    Args:
        whole: of whole frames; this one begins with its factor, and has its target and step.
        by_progress: look at how slow a frame has been.
    """

    def __init__(self, whole: BoundCalibrator, *, by_progress: bool = True) -> None:
        begin = min(max(whole.log_factor, -whole.score_width), whole.score_width)
        self._calibrator = BoundCalibrator(whole.alpha, whole.eta, whole.score_width, begin)
        self._by_progress = by_progress
        self._frames = self._progress = self._rest = self._square = self._product = 0.0

    def factor(self, progress: float) -> float:
        """What the forecast of the rest is multiplied with."""
        return self._pace(progress) * self._calibrator.factor

    def observe(self, progress: float, forecast_ms: float, took_ms: float) -> None:
        """Learns from a rest that ended.

        Raises:
            ValueError: a time is not a positive, finite number, and nothing was learnt.
        """
        self._calibrator.observe(forecast_ms * self._pace(progress), took_ms)
        if self._by_progress:
            x, y = math.log(progress), math.log(min(max(took_ms / forecast_ms, LEAST_RATIO), MOST_RATIO))
            self._frames = _KEPT * self._frames + 1.0
            self._progress = _KEPT * self._progress + x
            self._rest = _KEPT * self._rest + y
            self._square = _KEPT * self._square + x * x
            self._product = _KEPT * self._product + x * y

    def observe_aborted(self, progress: float, forecast_ms: float, would_take_ms: float) -> None:
        """Learns from a rest that was aborted, where it would have exceeded its bound; else that says nothing."""
        forecast_ms *= self._pace(progress)
        if would_take_ms > self._calibrator.bound_ms(forecast_ms):
            self._calibrator.observe(forecast_ms, None)

    def _pace(self, progress: float) -> float:
        """Factor on what is left, 1 for a frame that began as usual."""
        if not self._frames:
            return 1.0
        mean = self._progress / self._frames
        variance = self._square / self._frames - mean * mean + _LEAST_VARIANCE
        covariance = self._product / self._frames - mean * self._rest / self._frames
        return math.exp(min(max(covariance / variance, 0.0), 1.0) * (math.log(progress) - mean))
