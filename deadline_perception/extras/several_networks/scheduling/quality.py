"""How good a network is at a level and a period: total accuracy of a classifier, detection in time of a detector.

Both say how much a vehicle knows of an object that it drives towards, so both fall with speed and with the period.
Total accuracy: nested-network thesis, problem 3.1; exact here, where the thesis leaves open how to calculate it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.json_file import read_object

SLOWEST_MPS = 0.5  # at a standstill any period is as good as any other; below this speed quality does not change
MOST_LOOKS = 20_000  # at one object
_REMEMBERED = 4096  # qualities, by level and way between two looks


class QualityFileError(DeadlinePerceptionError):
    """A file of accuracies that cannot be used, and why."""


class LevelQuality(Protocol):
    """How good a network is that runs at one level, once per period."""

    def quality(self, level: int, period_ms: float, speed_mps: float) -> float:
        """Quality in [0, 1].

        Args:
            level: 0 is the cheapest.
            period_ms: time between two jobs, > 0.
            speed_mps: of the vehicle, >= 0.

        Raises:
            ValueError: an argument lies outside its range.
        """


@dataclass(frozen=True)
class AccuracyTable:
    """Measured accuracy of a classifier per level and width of its object in the image.

    The JSON file holds the attributes by name; others are dropped.

    Attributes:
        levels: names of the levels, cheapest first.
        sizes_px: widths of the object, ascending, px.
        accuracy: for each level, the share of right answers at each width, in [0, 1].

    Raises:
        ValueError: the rows do not fit each other, or a value lies outside its range.
    """

    levels: tuple[str, ...]
    sizes_px: tuple[float, ...]
    accuracy: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if (
            not self.levels
            or len(set(self.levels)) != len(self.levels)
            or len(self.accuracy) != len(self.levels)
        ):
            raise ValueError(
                f'{len(self.accuracy)} rows of accuracy for the levels {self.levels}, expected a row for '
                f'each of at least one level, and distinct names'
            )
        if not self.sizes_px or not all(
            a < b for a, b in zip((0.0, *self.sizes_px), (*self.sizes_px, math.inf))
        ):
            raise ValueError(
                f'sizes are {self.sizes_px} px, expected at least one, ascending, finite and above 0'
            )
        for level, row in zip(self.levels, self.accuracy):
            if len(row) != len(self.sizes_px) or not all(0.0 <= value <= 1.0 for value in row):
                raise ValueError(
                    f'accuracy of level {level} is {row}, expected a share in [0, 1] for each of '
                    f'{len(self.sizes_px)} sizes'
                )

    @classmethod
    def load(cls, file: Path) -> AccuracyTable:
        """Reads a file.

        Raises:
            JsonFileError: it cannot be read.
            QualityFileError: it holds no such table.
        """
        content = read_object(file, 'accuracy table')
        try:
            return cls(
                tuple(str(level) for level in content['levels']),
                tuple(float(size) for size in content['sizes_px']),
                tuple(tuple(float(value) for value in row) for row in content['accuracy']),
            )
        except (KeyError, TypeError, ValueError) as error:
            missing = f'{error} is missing' if isinstance(error, KeyError) else error
            raise QualityFileError(
                f'accuracy table {file} cannot be used: {missing}; expected levels, sizes_px and '
                f'accuracy[level][size]'
            ) from error

    def at(self, level: int, size_px: float) -> float:
        """Accuracy of a level, between two measured widths on the line between them, beyond them as at the last one."""
        return float(np.interp(size_px, self.sizes_px, self.accuracy[level]))


@dataclass(frozen=True)
class Approach:
    """An object that the vehicle drives towards, as problem 3.1 has it.

    Attributes:
        distance_m: from which on it is looked at, > 0.
        size_px_m: its width in px at 1 m: real width in m times focal length in px, > 0.
        largest_px: width that the network takes; a larger object is no clearer. >= 1.

    Raises:
        ValueError: a value lies outside its range.
    """

    distance_m: float = 50.0
    size_px_m: float = 400.0
    largest_px: int = 32

    def __post_init__(self) -> None:
        if not (
            0.0 < self.distance_m < math.inf
            and 0.0 < self.size_px_m < math.inf
            and self.largest_px >= 1
        ):
            raise ValueError(
                f'approach from {self.distance_m} m to an object of {self.size_px_m} px at 1 m, at most '
                f'{self.largest_px} px, expected finite numbers above 0'
            )

    def widths_px(self, period_ms: float, speed_mps: float) -> list[int]:
        """Width of the object at each look, the first one from the whole distance: whole px, at least 1, ascending.

        Raises:
            ValueError: period or speed lies outside its range, or the looks are more than `MOST_LOOKS`.
        """
        step_m = _step_m(period_ms, speed_mps)
        last = math.floor(self.distance_m / step_m + 1e-9)  # i_max; a last look from 0 m counts
        if last >= MOST_LOOKS:
            raise ValueError(
                f'period is {period_ms} ms at {speed_mps} m/s, which is more than {MOST_LOOKS} looks at '
                f'one object; expected a longer period'
            )
        widths = []
        for look in range(last + 1):
            ahead_m = self.distance_m - look * step_m
            clear = ahead_m * self.largest_px <= self.size_px_m  # also at 0 m
            widths.append(self.largest_px if clear else max(1, round(self.size_px_m / ahead_m)))
        return widths


def _step_m(period_ms: float, speed_mps: float) -> float:
    """How far the vehicle comes within a period."""
    if not 0.0 < period_ms < math.inf:
        raise ValueError(f'period is {period_ms} ms, expected a finite time above 0')
    if not 0.0 <= speed_mps < math.inf:
        raise ValueError(f'speed is {speed_mps} m/s, expected a finite number of at least 0')
    return max(speed_mps, SLOWEST_MPS) * period_ms / 1000.0


def majority_probability(accuracies: Sequence[float], weights: Sequence[int]) -> float:
    """Probability that the weights of the successes among independent trials exceed half of all weights. Exact.

    The sums of weights are whole numbers, so their distribution is carried from trial to trial; only those that do not
    exceed half need to be known.

    Args:
        accuracies: probability of success of each trial, at least one.
        weights: of each trial, whole numbers >= 1.
    """
    unit = math.gcd(*weights)
    weights = [weight // unit for weight in weights]
    half = sum(weights) // 2
    probability = np.zeros(half + 1)
    probability[0], reached = 1.0, 0
    for accuracy, weight in zip(accuracies, weights):
        reached = min(reached + weight, half)
        before = probability[: max(0, reached + 1 - weight)] * accuracy
        probability[: reached + 1] *= 1.0 - accuracy
        probability[weight : reached + 1] += before
    return float(min(1.0, max(0.0, 1.0 - probability.sum())))


@dataclass(frozen=True)
class TotalAccuracy(LevelQuality):
    """TOT of problem 3.1: the chance that right answers outweigh wrong ones, each weighing its width squared.

    Attributes:
        table: accuracy per level and width.
        approach: what is driven towards.
    """

    table: AccuracyTable
    approach: Approach = Approach()

    def quality(self, level: int, period_ms: float, speed_mps: float) -> float:
        """See `LevelQuality`."""
        step_m = _step_m(
            period_ms, speed_mps
        )  # all that it depends on; a slow approach has thousands of looks
        found = self._known.get((level, step_m))
        if found is None:
            found = majority_probability(*self._trials(level, period_ms, speed_mps))
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[level, step_m] = found
        return found

    @cached_property
    def _known(self) -> dict[tuple[int, float], float]:
        return {}

    def _trials(
        self, level: int, period_ms: float, speed_mps: float
    ) -> tuple[list[float], list[int]]:
        _check_level(level, len(self.table.levels))
        widths = self.approach.widths_px(period_ms, speed_mps)
        known = {width: self.table.at(level, width) for width in Counter(widths)}
        return [known[width] for width in widths], [width * width for width in widths]


@dataclass(frozen=True)
class DetectedInTime(LevelQuality):
    """The chance that an object is found in at least one of the looks at it while the vehicle comes nearer.

    A look finds an object with the average precision of the level in the mean. Of classification the thesis has looks
    independent; looks at one object are not: what one of them misses the next mostly misses too. So the chance differs
    from object to object, by a beta distribution (Skellam 1948). How often the vehicle looks is the mean over all
    phases of period and approach.

    Attributes:
        average_precision: of each level, cheapest first, in [0, 1].
        distance_m: within which it must be found, > 0.
        correlation: of two looks at one object, in (0, 1). Measured at
            commit 68d0af47 on two rendered drives, benchmarks/known_in_time.py.

    Raises:
        ValueError: there is no level, or a value lies outside its range.
    """

    average_precision: tuple[float, ...]
    distance_m: float = 5.0
    correlation: float = 0.7

    def __post_init__(self) -> None:
        if not self.average_precision or not all(
            0.0 <= value <= 1.0 for value in self.average_precision
        ):
            raise ValueError(
                f'average precision is {self.average_precision}, expected a number in [0, 1] per level'
            )
        if not 0.0 < self.distance_m < math.inf:
            raise ValueError(f'distance is {self.distance_m} m, expected a finite one above 0')
        if not 0.0 < self.correlation < 1.0:
            raise ValueError(
                f'correlation is {self.correlation}, expected a number above 0 and below 1'
            )

    def quality(self, level: int, period_ms: float, speed_mps: float) -> float:
        """See `LevelQuality`."""
        _check_level(level, len(self.average_precision))
        looks = self.distance_m / _step_m(period_ms, speed_mps)
        whole, missed = math.floor(looks), 1.0 - self.average_precision[level]
        share = looks - whole  # of the phases in which there is one look more
        if not missed:
            return min(looks, 1.0)
        looked = (
            1.0 / self.correlation - 1.0
        )  # the beta distribution is worth so many looks, of which some missed
        all_missed = math.exp(
            math.lgamma(missed * looked + whole)
            - math.lgamma(missed * looked)
            - math.lgamma(looked + whole)
            + math.lgamma(looked)
        )
        one_more = (missed * looked + whole) / (looked + whole)
        return 1.0 - all_missed * (1.0 - share + share * one_more)


def _check_level(level: int, levels: int) -> None:
    if not 0 <= level < levels:
        raise ValueError(f'level is {level}, expected 0 to {levels - 1}')
