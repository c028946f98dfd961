"""What the frames of a task say about the times of the next ones: best case, time of deciding and of publishing."""
from __future__ import annotations

from dataclasses import dataclass

from deadline_perception.decision.policy import Forecast, limited_factor
from deadline_perception.execution_path import ExecutionPath
from deadline_perception.latency.calibration import BoundCalibrator, LateMargin, RestCalibrators
from deadline_perception.runtime.reserve import FrameReserve, Reserve
from deadline_perception.runtime.timed_frame import RestFactor, TimedFrame

UNLIKELY_SHARE = 0.1  # frames that take longer than what is likely to fit
_LEAST_LIKELY = 0.2
_LIKELY_STEP = 0.05
BEST_CASE_SHARE = 0.1  # frames that are faster than the best case, which decides what is worth going on with
_BEST_CASE_STEP = 0.05


class FrameTimes:
    """Learns from frames on the thread that runs them; `publishing` learns where answers are published.

    Args:
        publishing: learns how long publishing takes.
        calibrator: of the task's bounds; what is likely begins as its bounds are.

    Attributes:
        margin: on the bounds that paths are chosen by, for late frames.
    """

    def __init__(self, publishing: Reserve, calibrator: BoundCalibrator) -> None:
        self._publishing, self._deciding = publishing, Reserve(0.0, quantile=0.5)
        width = calibrator.score_width
        self._best_case = BoundCalibrator(1.0 - BEST_CASE_SHARE, _BEST_CASE_STEP, width)
        self._likely = BoundCalibrator(UNLIKELY_SHARE, _LIKELY_STEP, width,
                                       min(max(calibrator.log_factor, -width), width))
        self.margin = LateMargin(calibrator.alpha, calibrator.eta)

    @property
    def best_case_factor(self) -> float:
        """From the expected time of a frame to one that so few stay below."""
        return self._best_case.factor

    def likely(self, factor: float) -> float:
        """Share of its bound, which is so many times the expected time, that a frame is likely to stay below."""
        return min(max(self._likely.factor / factor, _LEAST_LIKELY), 1.0)

    @property
    def reserve(self) -> FrameReserve:
        """What the next frame is to keep beside its network."""
        return FrameReserve(self._deciding.reserve_ms, self._publishing.reserve_ms)

    def observe(self, calibrator: BoundCalibrator, rests: RestCalibrators, forecast: Forecast, reserve: FrameReserve,
                ran: TimedFrame, *, publish_ms: float | None, in_time: bool) -> None:
        """Takes in one frame, after it is out.

        Args:
            calibrator: of the task's bounds; learns too.
            rests: of its bounds of what is left of a frame; learn from where its operators were decided.
            forecast: that the frame was decided by.
            reserve: that it had kept.
            ran: it, on a path.
            publish_ms: that its answer took; None where its image was answered beside its network, which the time of
                its decisions then has in it.
            in_time: its own result was published in time.

        Raises:
            ValueError: a time is none, because a clock has jumped; what comes after it has learnt nothing.
        """
        left_out_ms = ran.left_out_ms(forecast)
        expected_ms = forecast.forecast_ms(ran.path) * ran.slowdown + left_out_ms
        took_ms = ran.network_ms + left_out_ms
        if in_time or (ran.plan is not None and ran.plan.feasible):
            self.margin.observe(not in_time)
        overrun_ms = 0.0 if publish_ms is None else reserve.overrun_ms(ran.decision_ms, publish_ms)
        if ran.result is not None:
            self._best_case.observe(expected_ms, took_ms)
            self._likely.observe(expected_ms, took_ms + overrun_ms)
            calibrator.observe(expected_ms, took_ms + overrun_ms)
            for rest in _rests(forecast, ran):
                rests.observe(rest.segment, rest.begun, rest.expected_ms,
                              ran.network_ms - rest.spent_ms + rest.left_out_ms + overrun_ms)
            if publish_ms is not None:
                self._deciding.observe(ran.decision_ms)
            return
        # A frame is aborted because its deadline is near, and that alone says nothing about the times of its path. What
        # it had taken, with the forecast of its rest, does: without slow frames both would learn from fast ones alone.
        would_take_ms = ran.network_ms + forecast.forecast_ms(ran.path, ran.segment) * ran.slowdown
        for learner, extra_ms in ((calibrator, overrun_ms), (self._likely, overrun_ms), (self._best_case, 0.0)):
            if ran.network_ms > 0 and would_take_ms + left_out_ms + extra_ms > learner.bound_ms(expected_ms):
                learner.observe(expected_ms, None)
        for rest in _rests(forecast, ran):
            rests.observe_aborted(rest.segment, rest.begun, rest.expected_ms,
                                  would_take_ms - rest.spent_ms + rest.left_out_ms + overrun_ms)


def rest_factor(rests: RestCalibrators, forecast: Forecast, slowdown: float, margin: float = 1.0) -> RestFactor:
    """From the expected time of what is left of a frame to its bound, times a margin, by what is known as the frame
    begins."""
    return lambda path, segment, spent_ms: limited_factor(
        margin * rests.factor(segment, begun(forecast, path, segment, spent_ms, slowdown)), slowdown)


def begun(forecast: Forecast, path: ExecutionPath, segment: int, spent_ms: float, slowdown: float) -> float:
    """What a frame has taken until a segment over what was expected of that; 1 where nothing was."""
    expected_ms = (forecast.forecast_ms(path) - forecast.forecast_ms(path, segment)) * slowdown
    return spent_ms / expected_ms if expected_ms > 0.0 and spent_ms > 0.0 else 1.0


@dataclass(frozen=True)
class _Rest:
    """What was left of a frame where it was decided: the segment, how the frame had begun, what was expected of what
    was chosen there, what of that was left out afterwards, and what the frame had taken."""

    segment: int
    begun: float
    expected_ms: float
    left_out_ms: float
    spent_ms: float


def _rests(forecast: Forecast, ran: TimedFrame) -> list[_Rest]:
    found = []
    for decision in ran.decisions:
        ran_ms = forecast.forecast_ms(ran.path, decision.segment) * ran.slowdown
        left_out_ms = max(0.0, decision.forecast_ms * ran.slowdown - ran_ms)
        if ran_ms > 0.0:
            found.append(_Rest(decision.segment, begun(forecast, ran.path, decision.segment, decision.spent_ms,
                                                       ran.slowdown), ran_ms + left_out_ms, left_out_ms,
                               decision.spent_ms))
    return found
