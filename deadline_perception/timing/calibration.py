"""Online calibration factor that holds a target miss probability, whatever the distribution of latencies.

The bound of a frame is `U = forecast * exp(q)`. After each frame `q += eta * (e - alpha)`, with `e = 1`
when the frame took longer than U, or would have if it had not been aborted, else 0. (Online conformal inference: Gibbs
and Candes 2021, with the quantile itself tracked as in Angelopoulos, Candes and Tibshirani 2023; unchanged, on log
ratios.)

What it promises. Call `log(latency / forecast)` a frame's score; the latency of a frame that was aborted
is the time it had taken plus the forecast of its rest, and it is reported only when that exceeds U: so T counts the
frames that finished and those misses. Summing the update over T frames gives, exactly,
`mean(e) - alpha = (q_T - q_0) / (eta * T)`. If all scores lie in one interval of width B that contains `q_0`, then a
q above the interval can only sink (no score exceeds it) and a q below it can only rise, so q never leaves the interval
by more than one step, `|q_T - q_0| <= B + eta`, and therefore `|mean(e) - alpha| <= (B + eta) / (eta * T)`: for every
sequence, also one chosen by an adversary who knows q. Nothing is assumed about independence or load.

What happens when a score leaves the interval. q is not clamped: it follows, the first equation still holds, and the
miss ratio still returns to alpha, only later. The certificate then states the larger of the two bounds, so that it is
true in every case.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scipy.special import betaincinv

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.replaced_file import replace_file

_LARGEST_EXPONENT = math.log(sys.float_info.max) - 1.0
_MOST_FRAMES = 2**53  # what a float counts exactly; a camera of 1000 Hz needs 285,000 years
# A frame of an eighth or of 64 times its forecast is a fault of forecast or device; no calibration begins with it.
_KEPT_FACTORS = (1.0 / 8.0, 64.0)
LEAST_RATIO, MOST_RATIO = (
    0.125,
    8.0,
)  # of a frame's part to what was expected; one beyond says no more than these
_KEPT = 0.995  # weight of what was seen before a frame: it halves every 140 frames
_LEAST_VARIANCE = (
    0.002  # of progress, as of frames that spread by 4.5 %; of less than that nothing is concluded
)
_PARAMETERS = ('alpha', 'eta', 'score_width', 'initial_log_factor')


@dataclass(frozen=True)
class Certificate:
    """What is known about the misses of a bound.

    Attributes:
        frames: frames observed.
        misses: of these, frames that took longer than their bound, and frames aborted whose time so far, with the
            forecast of their rest, exceeded it.
        guaranteed_miss_ratio: the miss ratio over these frames is at most this, for every sequence; 1 without frames.
            Of the calibrator's own bound: one that something else has lowered since may be missed more often.
        upper_95: Clopper-Pearson upper 95 % confidence limit of the miss probability of a further frame; unlike the
            guarantee it assumes that frames are independent and alike. 1 without frames.
    """

    frames: int
    misses: int
    guaranteed_miss_ratio: float
    upper_95: float


def clopper_pearson_upper(misses: int, frames: int) -> float:
    """One-sided upper 95 % confidence limit of a probability, from `misses` in `frames` independent trials.

    Returns:
        The probability under which as few misses happen with a chance of 5 %; 1 when all missed or nothing was tried.

    Raises:
        ValueError: the counts contradict each other.
    """
    if not 0 <= misses <= frames:
        raise ValueError(f'misses is {misses} of {frames} frames, expected 0 to {frames}')
    if misses == frames:
        return 1.0
    return float(betaincinv(misses + 1, frames - misses, 0.95))


class BoundCalibrator:
    """Turns forecasts into bounds that are missed with probability alpha in the long run.

    Args:
        alpha: target miss ratio, in (0, 1).
        eta: step of the log of the factor per frame, > 0. A large one reacts fast and bounds loosely; with 0.05 one
            miss raises the bound by 5 %.
        score_width: width B of the interval that holds all scores `log(latency / forecast)`, > 0; log(8) when a frame
            may take from half to four times its forecast.
        initial_log_factor: q of the first frame, within `score_width` of 0; a positive one, such as a high quantile of
            the profile's residuals, makes the first frames safe.

    Attributes:
        frames, misses: observed.
        log_factor: q.
        factor: exp(q), what a forecast is multiplied with; > 0 and finite, however far q has drifted.

    Raises:
        ValueError: a value lies outside its range.
    """

    def __init__(
        self, alpha: float, eta: float, score_width: float, initial_log_factor: float = 0.0
    ) -> None:
        if not 0.0 < alpha < 1.0:
            raise ValueError(f'alpha is {alpha}, expected a miss ratio in (0, 1)')
        if not 0.0 < eta <= sys.float_info.max:
            raise ValueError(f'eta is {eta}, expected a finite step > 0')
        if not 0.0 < score_width <= sys.float_info.max:
            raise ValueError(f'score_width is {score_width}, expected a finite width > 0')
        if not abs(initial_log_factor) <= score_width:
            raise ValueError(
                f'initial_log_factor is {initial_log_factor}, expected at most score_width = '
                f'{score_width} away from 0'
            )
        self.alpha = float(alpha)
        self.eta = float(eta)
        self.score_width = float(score_width)
        self.initial_log_factor = float(initial_log_factor)
        self._count(0, 0)

    def _count(self, frames: int, misses: int) -> None:
        """Sets q from the counts rather than summing it up, so that no rounding gathers over millions of frames."""
        self.frames, self.misses = frames, misses
        self.log_factor = self.initial_log_factor + self.eta * (misses - self.alpha * frames)
        self.factor = math.exp(min(max(self.log_factor, -_LARGEST_EXPONENT), _LARGEST_EXPONENT))

    def bound_ms(self, forecast_ms: float) -> float:
        """The time in ms that a frame of this forecast will not exceed, but for a share alpha of frames.

        Raises:
            ValueError: the forecast is not a positive, finite number.
        """
        if not 0.0 < forecast_ms < math.inf:
            raise ValueError(f'forecast is {forecast_ms} ms, expected a positive, finite number')
        return min(float(forecast_ms) * self.factor, sys.float_info.max)

    def observe(self, forecast_ms: float, latency_ms: float | None) -> None:
        """Learns from one frame. Nothing changes when an argument is refused.

        Args:
            forecast_ms: forecast of the path that ran.
            latency_ms: how long it took; None when it was aborted, and what it had taken exceeds its bound together
                with the forecast of the rest. Any other frame that was aborted says nothing and must not be reported.

        Raises:
            ValueError: an argument is not a positive, finite number.
        """
        if not 0.0 < forecast_ms < math.inf or not (
            latency_ms is None or 0.0 < latency_ms < math.inf
        ):
            raise ValueError(
                f'forecast is {forecast_ms} ms and latency {latency_ms} ms, expected positive, finite '
                f'numbers'
            )
        is_miss = latency_ms is None or latency_ms > forecast_ms * self.factor
        self._count(self.frames + 1, self.misses + int(is_miss))

    def certificate(self) -> Certificate:
        """What holds for the frames observed so far."""
        guaranteed = 1.0
        if self.frames:
            drift = max(self.score_width + self.eta, abs(self.log_factor - self.initial_log_factor))
            guaranteed = min(1.0, self.alpha + drift / (self.eta * self.frames))
        return Certificate(
            self.frames, self.misses, guaranteed, clopper_pearson_upper(self.misses, self.frames)
        )

    def state(self) -> dict[str, float | int]:
        """All that the calibrator knows, as plain numbers."""
        return {
            **{name: getattr(self, name) for name in _PARAMETERS},
            'frames': self.frames,
            'misses': self.misses,
        }

    @classmethod
    def from_state(cls, state: dict[str, float | int]) -> BoundCalibrator:
        """A calibrator that goes on where `state` was taken.

        Raises:
            ValueError: a value is missing, of another type, or outside its range; the factor, too, has one here.
        """
        for name in (*_PARAMETERS, 'frames', 'misses'):
            expected = int if name in ('frames', 'misses') else (int, float)
            value = state.get(name)
            if not isinstance(value, expected) or isinstance(value, bool):
                raise ValueError(f'{name} of the calibrator is {value!r}, expected a number')
        calibrator = cls(*(state[name] for name in _PARAMETERS))
        if not 0 <= state['misses'] <= state['frames'] <= _MOST_FRAMES:
            raise ValueError(
                f'misses is {state["misses"]} of {state["frames"]} frames, expected 0 to all of them, '
                f'and at most {_MOST_FRAMES} frames'
            )
        calibrator._count(int(state['frames']), int(state['misses']))
        for factor in (
            math.exp(min(calibrator.initial_log_factor, _LARGEST_EXPONENT)),
            calibrator.factor,
        ):
            if not _KEPT_FACTORS[0] <= factor <= _KEPT_FACTORS[1]:
                raise ValueError(
                    f'calibration factor is {factor:g}, expected {_KEPT_FACTORS[0]:g} to '
                    f'{_KEPT_FACTORS[1]:g}'
                )
        return calibrator


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
        self._slope = self._mean = (
            0.0  # of the line: what is left has a factor of 1 until something was seen
        )

    def factor(self, progress: float) -> float:
        """What the forecast of the rest is multiplied with."""
        return self._pace(progress) * self._calibrator.factor

    def observe(self, progress: float, forecast_ms: float, took_ms: float) -> None:
        """Learns from a rest that ended.

        Raises:
            ValueError: a time is not a positive, finite number, and nothing was learnt.
        """
        x = math.log(progress)
        self._calibrator.observe(forecast_ms * math.exp(self._slope * (x - self._mean)), took_ms)
        if not self._by_progress:
            return
        y = math.log(min(max(took_ms / forecast_ms, LEAST_RATIO), MOST_RATIO))
        self._frames = _KEPT * self._frames + 1.0
        self._progress = _KEPT * self._progress + x
        self._rest = _KEPT * self._rest + y
        self._square = _KEPT * self._square + x * x
        self._product = _KEPT * self._product + x * y
        self._mean = self._progress / self._frames
        variance = self._square / self._frames - self._mean * self._mean + _LEAST_VARIANCE
        covariance = self._product / self._frames - self._mean * self._rest / self._frames
        self._slope = min(max(covariance / variance, 0.0), 1.0)

    def observe_aborted(self, progress: float, forecast_ms: float, would_take_ms: float) -> None:
        """Learns from a rest that was aborted, where it would have exceeded its bound; else that says nothing."""
        forecast_ms *= self._pace(progress)
        if would_take_ms > self._calibrator.bound_ms(forecast_ms):
            self._calibrator.observe(forecast_ms, None)

    def _pace(self, progress: float) -> float:
        return math.exp(self._slope * (math.log(progress) - self._mean))


class MissCorrection:
    """Factor >= 1 on bounds that holds the share of late frames, whatever has made them late.

    A frame rests on several bounds: that of its plan, those of what is left at each of its decisions, and the reserve.
    So more of them may be late than exceed any one. Here late frames themselves are counted. After each frame that was
    to be in time, the log m of the factor becomes `max(0, m + eta * (late - alpha))`, at most log(2). Until it reaches
    that, no step adds less than `eta * (late - alpha)`, so of T frames at most `alpha * T + m_T / eta` were late, for
    every sequence: T / 100 and 14 more with the defaults.

    Args:
        alpha: target share of late frames, in (0, 1).
        eta: step, > 0.

    Attributes:
        frames: observed.
        late: of these.
        factor: m, what bounds are multiplied with.
    """

    _MOST = math.log(
        2.0
    )  # what is late for other reasons than the network's time does not make every path too long

    def __init__(self, alpha: float, eta: float) -> None:
        self._alpha, self._eta, self._log = alpha, eta, 0.0
        self.frames = self.late = 0
        self.factor = 1.0

    def observe(self, late: bool) -> None:
        """Takes in a frame that was to be in time, or was so against expectation."""
        self.frames += 1
        self.late += late
        self._log = min(max(self._log + self._eta * (late - self._alpha), 0.0), self._MOST)
        self.factor = math.exp(self._log)


class CalibrationMismatch(DeadlinePerceptionError):
    """The state was learnt with another network, profile, device or setting than the one at hand."""


class ForeignFile(DeadlinePerceptionError):
    """What lies at the place of a calibration file is something else, which must not be overwritten."""


@dataclass(frozen=True)
class CalibrationFile:
    """Keeps the state of a calibrator over a restart, and says what it holds for.

    Attributes:
        file: JSON file; made with its folder when first saved.
        origin: all that the state holds for, such as the profile whose forecasts it multiplies, by name.
    """

    file: Path
    origin: Mapping[str, str | int]

    def check_place(self) -> None:
        """Makes sure that nothing but an earlier state, or an empty file, would be overwritten.

        Raises:
            ForeignFile: something else lies there, or something that cannot be read.
        """
        try:
            if not self.file.exists() or (self.file.is_file() and self.file.stat().st_size == 0):
                return
            ours = {'alpha', 'eta', 'frames', 'misses'} <= set(
                read_object(self.file, 'calibration file')
            )
        except (JsonFileError, OSError) as error:
            raise ForeignFile(
                f'calibration_file is {self.file}, which is none and is left as it is: {error}'
            ) from error
        if not ours:
            raise ForeignFile(
                f'calibration_file is {self.file}, which holds something else and is left as it is'
            )

    def save(self, state: dict[str, float | int]) -> None:
        """Writes what `BoundCalibrator.state` gave, in one step: the file is never half written. Waits for the disk.

        Raises:
            ForeignFile: something else lies there.
            OSError: the file cannot be written.
        """
        self.check_place()
        replace_file(self.file, json.dumps({'origin': dict(self.origin), **state}, indent=2) + '\n')

    def load(self, *, alpha: float, eta: float) -> BoundCalibrator:
        """A calibrator of this target and step that goes on where the file was written.

        Raises:
            JsonFileError: the file is missing, unreadable, or holds something else.
            CalibrationMismatch: it was written for something else.
        """
        state = read_object(self.file, 'calibration file')
        origin = state.get('origin')
        wanted = {'alpha': alpha, 'eta': eta}
        learnt = {
            **(origin if isinstance(origin, dict) else {}),
            **{name: state.get(name) for name in wanted},
        }
        differences = [
            f'{name} is {learnt.get(name)!r:.100} in the file and {value!r} here'
            for name, value in {**self.origin, **wanted}.items()
            if learnt.get(name) != value
        ]
        if differences:
            raise CalibrationMismatch(
                f'calibration file {self.file} does not fit: {"; ".join(differences)}'
            )
        try:
            return BoundCalibrator.from_state(state)
        except ValueError as error:
            raise JsonFileError(f'calibration file {self.file} cannot be used: {error}') from error
