"""The factor by which other programs slow a frame down now, from probes and from the frames themselves."""

from __future__ import annotations

import math
import statistics
from collections import deque

MAX_SLOWDOWN = 100.0
_WINDOW = 3  # observations in the median: one outlier is dropped
_NEWEST = 6  # of which none says as much, for a load to be over: one that scatters shows itself among them
_GAIN = 0.05  # share of the way to the median that is taken per observation
# Of the logarithms' noise on an idle machine: above twice the deviation of medians of 3 when times scatter by 5 %.
_SPREAD = 0.08
# That is so many deviations of such a scatter; where observations scatter more, so many of theirs.
_SPREAD_DEVIATIONS = 1.6
# 1.4826 / sqrt(2): the deviation over the median distance of two normal observations in a row.
_STEP_TO_DEVIATION = 1.05
_STEPS = 30  # of these distances that are looked at
_LEAST_STEPS = 8  # before so many the idle machine's scatter holds
_PHASES = 0.15  # how far an idle machine's times drift, of the logarithms
_MOST_EVIDENCE = 20.0  # frames that weigh against one probe at most
_FRAME_MEMORY = 0.8  # share of the evidence from frames that is left after each probe


class RatioFilter:
    """A ratio that follows a load up at once and down slowly, and takes the noise of an idle machine for none.

    The median of the last few logarithms is followed slowly both ways, so that noise averages out; but what follows
    never lies more than the deviation of the noise below it, that of an idle machine or of the last observations where
    these scatter more: beside two busy programs without priority, one load for 1,000 replayed frames, nine of ten
    readings lay between 1.42 and 1.97 with the former. Nor does it lie above the newest six: a neighbour's burst of a
    dozen frames was otherwise remembered for three dozen. Within the width of an idle machine's phases it
    reads 0, from twice that width on as it is. Single observations below 1 count in full: only the reading is limited,
    or noise would be read as a load.

    The constants were chosen on six recordings of 160 to 1,700 frames, idle to loaded, two of them at real-time
    priority: against a gain of 0.1 and phases of 0.08, with at most 5 frames against one probe, the bound that 99 % of
    frames keep went from 1.62, 2.74, 2.02, 1.34, 1.34 and 1.67 times the latency in the median to 1.46, 2.41, 1.91,
    1.32, 1.32 and 1.51. On two recordings made afterwards it went from 1.98 to 1.88 and, at real-time priority, stayed
    at 1.33.

    Attributes:
        log_ratio: the reading, in [0, log(MAX_SLOWDOWN)]; 0 before the first observation.
    """

    def __init__(self) -> None:
        # As if idle before, so that a cold first frame is an outlier as any other.
        self._recent: deque[float] = deque([0.0] * (_WINDOW - 1), maxlen=_NEWEST)
        self._steps: deque[float] = deque(maxlen=_STEPS)
        self._followed = self._before = 0.0
        self.log_ratio = 0.0

    def observe(self, ratio: float, *, again: bool = False) -> None:
        """Takes in a ratio above 0; one outside [1 / MAX_SLOWDOWN, MAX_SLOWDOWN] counts as the nearer limit.

        Args:
            ratio: of a frame or a probe.
            again: in place of the last one, which was a part of the same frame.
        """
        if again and self._steps:
            self._recent.pop()
            self._steps.pop()
            self._followed = self._before
        log = math.log(min(max(ratio, 1.0 / MAX_SLOWDOWN), MAX_SLOWDOWN))
        self._steps.append(abs(log - self._recent[-1]))
        self._before = self._followed
        self._recent.append(log)
        median = statistics.median(list(self._recent)[-_WINDOW:])
        followed = self._followed + _GAIN * (median - self._followed)
        self._followed = min(max(followed, median - self._spread), max(self._recent))
        self.log_ratio = max(0.0, min(self._followed, 2.0 * (self._followed - _PHASES)))

    @property
    def _spread(self) -> float:
        """Of the noise now. From one observation to the next, since a load that comes or goes is one step of many."""
        if len(self._steps) < _LEAST_STEPS:
            return _SPREAD
        return max(
            _SPREAD, _SPREAD_DEVIATIONS * _STEP_TO_DEVIATION * statistics.median(self._steps)
        )


class SlowdownEstimator:
    """Slowdown from two kinds of evidence: the probe's ratio and the frames' ratios of latency to forecast.

    Frames are believed more the more of them came lately (they are the very work in question); the probe keeps the
    estimate alive while no frame runs. A frame beyond its bound is either the rare one that may be, or the first after
    a step, which the filter takes for an outlier until a second one follows: the next frame is planned as if it were a
    step. Impossible observations are ignored.

    Attributes:
        slowdown: factor in [1, MAX_SLOWDOWN]; 1 before the first observation.
        sources: evidence behind it: `probe`, `frames`, both or none.
    """

    def __init__(self) -> None:
        self._probe = RatioFilter()
        self._frames = RatioFilter()
        self._frame_evidence = 0.0
        self._has_probe = False
        self._surprise = 1.0  # ratio of the last frame, when it took longer than its bound
        self._last_is_unfinished = False
        self.slowdown = 1.0
        self.sources: tuple[str, ...] = ()

    def observe_probe(self, probe_ms: float, idle_ms: float) -> None:
        """Takes in one probe.

        Args:
            probe_ms: time it took.
            idle_ms: its time on the idle machine, such as `Probe.idle_ms`.
        """
        if not (_is_time(probe_ms) and _is_time(idle_ms)):
            return
        self._probe.observe(probe_ms / idle_ms)
        self._has_probe = True
        self._surprise = 1.0
        self._frame_evidence *= _FRAME_MEMORY
        self._weigh()

    def observe_frame(
        self,
        forecast_ms: float,
        latency_ms: float,
        bound_ms: float = math.inf,
        *,
        again: bool = False,
    ) -> None:
        """Takes in one frame.

        Args:
            forecast_ms: its expected time on the idle machine.
            latency_ms: the time it took.
            bound_ms: the time that it was not to exceed; infinite, NaN or 0 when not known.
            again: in place of what was reported of it as unfinished.
        """
        if not (_is_time(forecast_ms) and _is_time(latency_ms)):
            return
        ratio = latency_ms / forecast_ms
        self._surprise = ratio if latency_ms > bound_ms > 0.0 else 1.0
        self._frames.observe(ratio, again=again)
        if not again:
            self._frame_evidence = min(self._frame_evidence + 1.0, _MOST_EVIDENCE)
        self._last_is_unfinished = False
        self._weigh()

    def observe_unfinished(
        self, forecast_ms: float, so_far_ms: float, bound_ms: float = math.inf
    ) -> None:
        """Takes in a frame that was answered before its network had ended. It would have taken longer than it did until
        then, so it counts where that already says more than is known."""
        if so_far_ms > self.slowdown * forecast_ms:
            self.observe_frame(forecast_ms, so_far_ms, bound_ms)
            self._last_is_unfinished = _is_time(forecast_ms) and _is_time(so_far_ms)
        elif _is_time(
            forecast_ms
        ):  # another frame has started, and the one before ended without a word
            self._last_is_unfinished = False
            self._surprise = 1.0
            self._weigh()

    def observe_late(
        self, forecast_ms: float, latency_ms: float, bound_ms: float = math.inf
    ) -> None:
        """Takes in a frame that ended after its deadline, in place of what was reported of it as unfinished: counted twice,
        one pause of the machine would pass for a load, as the filter takes the second of two outliers for one."""
        self.observe_frame(forecast_ms, latency_ms, bound_ms, again=self._last_is_unfinished)

    def _weigh(self) -> None:
        """Weighs the two kinds of evidence against each other."""
        share = self._frame_evidence / (self._frame_evidence + 1.0) if self._has_probe else 1.0
        log_ratio = share * self._frames.log_ratio + (1.0 - share) * self._probe.log_ratio
        self.slowdown = min(max(math.exp(log_ratio), self._surprise, 1.0), MAX_SLOWDOWN)
        self.sources = ('probe',) * self._has_probe + ('frames',) * (self._frame_evidence > 0.0)


def _is_time(value: float | None) -> bool:
    return value is not None and 0.0 < value < math.inf
