"""The speed of a vehicle over time, as data sets record it."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SpeedTrace:
    """Speeds at known times, straight lines between them.

    Attributes:
        stamps_s: strictly ascending, at least one; the epoch is the trace's own.
        speeds_mps: one per stamp, finite and not negative.

    Raises:
        ValueError: no entry, stamps out of order, or a speed that is not one.
    """

    stamps_s: tuple[float, ...]
    speeds_mps: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.stamps_s) != len(self.speeds_mps) or not self.stamps_s:
            raise ValueError(
                f'speed trace has {len(self.stamps_s)} stamps and {len(self.speeds_mps)} speeds, expected '
                f'as many and at least one'
            )
        for before, after in zip(self.stamps_s, self.stamps_s[1:]):
            if not after > before:
                raise ValueError(
                    f'stamp {after} s of the speed trace follows {before} s, expected a later one'
                )
        for stamp, speed in zip(self.stamps_s, self.speeds_mps):
            if not (math.isfinite(stamp) and math.isfinite(speed) and speed >= 0):
                raise ValueError(
                    f'speed at {stamp} s is {speed} m/s, expected a finite value of at least 0'
                )

    def speed_mps(self, stamp_s: float, reach_s: float = 1.0) -> float | None:
        """Speed at a time; None more than `reach_s` before the first or after the last stamp."""
        if not self.stamps_s[0] - reach_s <= stamp_s <= self.stamps_s[-1] + reach_s:
            return None
        after = bisect.bisect_left(self.stamps_s, stamp_s)
        if after == 0 or after == len(self.stamps_s):
            return self.speeds_mps[min(after, len(self.speeds_mps) - 1)]
        share = (stamp_s - self.stamps_s[after - 1]) / (
            self.stamps_s[after] - self.stamps_s[after - 1]
        )
        return self.speeds_mps[after - 1] * (1 - share) + self.speeds_mps[after] * share


def trace_of(source: Path, pairs: list[tuple[float, float]]) -> SpeedTrace:
    """The trace of stamps and speeds that a file holds.

    Raises:
        ValueError: they are none; names the file.
    """
    try:
        return SpeedTrace(tuple(stamp for stamp, _ in pairs), tuple(speed for _, speed in pairs))
    except ValueError as error:
        raise ValueError(f'{source}: {error}') from error
