"""Online calibration factor that holds a target share of late frames, whatever the distribution of latencies.

The bound of a frame is `U = base * exp(q)`, whose base was known before the frame began: a forecast, or what recent
frames make of it (`part_bound.py`). After each frame `q += eta * (e - alpha)`. A frame counts whole, `e = 1`, when it
was late, though its bound had fit; or when it took longer than U, or would have if it had not been aborted, and nobody
had waited for it by a deadline. It counts half, `e = 0.5`, when it took longer than U and was in time all the same.
Else `e = 0`. (Online conformal inference: Gibbs and Candes 2021, with the quantile itself tracked as in Angelopoulos,
Candes and Tibshirani 2023, on log ratios; changed in that a miss without harm counts half.)

What it promises. Call `log(latency / base)` a frame's score; the latency of a frame that was aborted is the time it had
taken plus the forecast of its rest, and it is reported only when that exceeds U, or its frame is late: so T counts the
frames that finished and those misses. Summing the update over T frames gives, exactly,
`mean(e) - alpha = (q_T - q_0) / (eta * T)`. If all scores lie in one interval of width B that contains `q_0`, and no
frame is late where q lies above it, then a q above the interval can only sink (nothing counts) and a q below it can
only rise (every frame counts half at least, and alpha is less), so q never leaves the interval by more than one step,
`|q_T - q_0| <= B + eta`, and therefore `|mean(e) - alpha| <= (B + eta) / (eta * T)`: for every sequence, also one chosen
by an adversary who knows q. Nothing is assumed about independence or load. Since late frames count whole, at most
`alpha * T + (B + eta) / eta` are late, and at most twice as many exceed their bound. test/timing/test_promise.py has
both proved by an SMT solver, of the two functions below.

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
from typing import Any

from deadline_perception.core.decoding import Count, decode
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.replaced_file import replace_file

FORMAT = 2  # of a calibration file; the first one had none, and no recent times
_LARGEST_EXPONENT = math.log(sys.float_info.max) - 1.0
_MOST_FRAMES = 2**53  # what a float counts exactly; a camera of 1000 Hz needs 285,000 years
# A frame of an eighth or of 64 times its forecast is a fault of forecast or device; no calibration begins with it.
_KEPT_FACTORS = (1.0 / 8.0, 64.0)
IN_TIME_WEIGHT = 0.5  # of a frame that exceeded its bound and was in time all the same
_PARAMETERS = ('alpha', 'eta', 'score_width', 'initial_log_factor')
_COUNTS = ('frames', 'misses', 'exceeded_in_time')


def counted_weight(exceeds: bool, is_late: bool, in_time: bool) -> float:
    """What a frame counts: 1 where it was late or nobody knows that it was in time, half of that where it was."""
    if is_late:
        return 1.0
    if not exceeds:
        return 0.0
    return IN_TIME_WEIGHT if in_time else 1.0


def log_factor_after(
    initial: float, eta: float, alpha: float, frames: float, weight: float
) -> float:
    """q after so many frames, of which so much counted; of any numbers, also symbolic ones."""
    return initial + eta * (weight - alpha * frames)


@dataclass(frozen=True)
class Certificate:
    """What is known about the misses of a bound.

    Attributes:
        frames: frames observed.
        misses: of these, those that counted whole: late ones, and those that exceeded their bound where nobody waited.
        exceeded_in_time: those that exceeded it and were in time all the same, which count half.
        guaranteed_miss_ratio: the share of misses among these frames is at most this, for every sequence; 1 without
            frames.
    """

    frames: int
    misses: int
    exceeded_in_time: int
    guaranteed_miss_ratio: float


class BoundCalibrator:
    """Scales forecasts into bounds that are missed with probability alpha in the long run.

    Args:
        alpha: target miss ratio, in (0, 1).
        eta: step of the log of the factor per frame, > 0. A large one reacts fast and bounds loosely; with 0.05 one
            miss raises the bound by 5 %.
        score_width: width B of the interval that holds all scores `log(latency / forecast)`, > 0; log(8) when a frame
            may take from half to four times its forecast.
        initial_log_factor: q of the first frame, within `score_width` of 0; a positive one, such as a high quantile of
            the profile's residuals, makes the first frames safe.

    Attributes:
        frames, misses, exceeded_in_time: observed, see `Certificate`.
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
        self.frames = self.misses = self.exceeded_in_time = 0
        self._renew()

    def _renew(self) -> None:
        """Sets q from the counts rather than summing it up, so that no rounding gathers over millions of frames."""
        weight = self.misses + IN_TIME_WEIGHT * self.exceeded_in_time
        self.log_factor = log_factor_after(
            self.initial_log_factor, self.eta, self.alpha, self.frames, weight
        )
        self.factor = math.exp(min(max(self.log_factor, -_LARGEST_EXPONENT), _LARGEST_EXPONENT))

    def observe(
        self, forecast_ms: float, latency_ms: float | None, *, in_time: bool = False
    ) -> None:
        """Learns from one frame. Nothing changes when an argument is refused.

        Args:
            forecast_ms: forecast of the path that ran, or another base that was known before.
            latency_ms: how long it took; None when it was late, or when it was aborted, and what it had taken exceeds
                its bound together with the forecast of the rest. Any other frame that was aborted says nothing and must
                not be reported.
            in_time: it had a deadline, and met it, so that a bound exceeded counts half.

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
        is_late = latency_ms is None
        if latency_ms is None or latency_ms > forecast_ms * self.factor:  # any other counts nothing
            weight = counted_weight(True, is_late, in_time)
            self.misses += weight == 1.0
            self.exceeded_in_time += weight == IN_TIME_WEIGHT
        self.frames += 1
        self._renew()

    def certificate(self) -> Certificate:
        """What holds for the frames observed so far."""
        guaranteed = 1.0
        if self.frames:
            drift = max(self.score_width + self.eta, abs(self.log_factor - self.initial_log_factor))
            guaranteed = min(1.0, self.alpha + drift / (self.eta * self.frames))
        return Certificate(self.frames, self.misses, self.exceeded_in_time, guaranteed)

    def state(self) -> dict[str, float | int]:
        """All that the calibrator knows, as plain numbers."""
        return {name: getattr(self, name) for name in (*_PARAMETERS, *_COUNTS)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> BoundCalibrator:
        """A calibrator that goes on where `state` was taken.

        Raises:
            ValueError: a value is missing, of another type, or outside its range; the factor, too, has one here.
        """
        parameters = {name: state.get(name) for name in _PARAMETERS}
        counts = {name: state.get(name) for name in _COUNTS}
        calibrator = cls(**decode(parameters, dict[str, float], 'calibrator'))
        frames, *misses = decode(counts, dict[str, Count], 'calibrator').values()
        if not sum(misses) <= frames <= _MOST_FRAMES:
            raise ValueError(
                f'misses is {misses[0]} and exceeded_in_time {misses[1]} of {frames} frames, expected 0 '
                f'to all of them, and at most {_MOST_FRAMES} frames'
            )
        calibrator.frames = frames
        calibrator.misses, calibrator.exceeded_in_time = misses
        calibrator._renew()
        check_kept_factor(math.exp(min(calibrator.initial_log_factor, _LARGEST_EXPONENT)))
        check_kept_factor(calibrator.factor)
        return calibrator


def check_kept_factor(factor: float) -> None:
    """Refuses a factor that no calibration begins with.

    Raises:
        ValueError: it is one.
    """
    if not _KEPT_FACTORS[0] <= factor <= _KEPT_FACTORS[1]:
        raise ValueError(
            f'calibration factor is {factor:g}, expected {_KEPT_FACTORS[0]:g} to {_KEPT_FACTORS[1]:g}'
        )


class CalibrationMismatch(DeadlinePerceptionError):
    """The state was learnt with another network, profile, device or setting than the one at hand."""


class ForeignFile(DeadlinePerceptionError):
    """What lies at the place of a calibration file is something else, which must not be overwritten."""


@dataclass(frozen=True)
class CalibrationFile:
    """Keeps the state of a bound over a restart, and says what it holds for.

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

    def save(self, state: Mapping[str, Any]) -> None:
        """Writes what `PartBound.state` gave, in one step: the file is never half written. Waits for the disk.

        Raises:
            ForeignFile: something else lies there.
            OSError: the file cannot be written.
        """
        self.check_place()
        content = {'format': FORMAT, 'origin': dict(self.origin), **state}
        lines = [f'  {json.dumps(name)}: {json.dumps(value)}' for name, value in content.items()]
        replace_file(self.file, '{\n' + ',\n'.join(lines) + '\n}\n')

    def load(self, *, alpha: float, eta: float) -> dict[str, Any]:
        """The state of a bound of this target and step, for `PartBound.from_state`.

        Raises:
            JsonFileError: the file is missing, unreadable, of another format, or holds something else.
            CalibrationMismatch: it was written for something else.
        """
        state = read_object(self.file, 'calibration file')
        if state.get('format') != FORMAT:
            raise JsonFileError(
                f'calibration file {self.file} cannot be used: its format is '
                f'{state.get("format")!r:.100}, expected {FORMAT}'
            )
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
        return state
