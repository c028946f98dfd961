"""A sample of durations, summarised by its quantiles."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of durations in ms, interpolated linearly between order statistics.

    Attributes:
        p05, p25, p50, p75, p90, p95, p99: quantiles in ms, finite, not descending.
        max: longest duration in ms.
        count: durations in the sample, >= 1.

    Raises:
        ValueError: a value is negative, not finite or out of order, or the sample is empty.
    """

    p05: float
    p25: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float
    count: int

    def __post_init__(self) -> None:
        values = self.values_ms
        if not all(isinstance(value, (int, float)) and math.isfinite(value) and value >= 0.0 for value in values):
            raise ValueError(f'quantiles are {values} ms, expected finite numbers >= 0')
        if any(after < before for before, after in zip(values, values[1:])):
            raise ValueError(f'quantiles are {values} ms, expected none to be below the one before it')
        if not isinstance(self.count, int) or self.count < 1:
            raise ValueError(f'count of the sample is {self.count!r}, expected an integer of at least 1')

    @property
    def values_ms(self) -> tuple[float, ...]:
        """The quantiles for `PROBABILITIES`, in ms."""
        return (self.p05, self.p25, self.p50, self.p75, self.p90, self.p95, self.p99, self.max)

    @classmethod
    def from_samples(cls, durations_ms: Sequence[float]) -> Quantiles:
        """Summarises at least one duration, rounded to 0.1 us so that files stay readable.

        Raises:
            ValueError: no duration, or one that is negative or not finite.
        """
        if not len(durations_ms):
            raise ValueError('sample holds no duration, expected at least one')
        durations = np.asarray(durations_ms, dtype=float)
        if not np.isfinite(durations).all():
            raise ValueError('sample holds NaN or infinity, expected finite durations in ms')
        values = np.quantile(durations, PROBABILITIES)
        return cls(*(round(float(value), 4) for value in values), count=len(durations_ms))

    @classmethod
    def from_record(cls, record: dict) -> Quantiles:
        """Reads what `dataclasses.asdict` made.

        Raises:
            ValueError: a name is missing or unknown, or a value outside its range.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(record, dict) or set(record) != names:
            raise ValueError(f'quantiles are {record!r}, expected the names {", ".join(sorted(names))}')
        return cls(**record)
