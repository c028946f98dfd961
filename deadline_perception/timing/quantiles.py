"""A sample of durations, summarised by its quantiles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.decoding import Count

_LONGEST_MS = 3.6e6  # an hour; a profile of longer ones is damaged
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of durations in ms, interpolated linearly between order statistics.

    Attributes:
        p05, p25, p50, p75, p90, p95, p99: quantiles in ms, not descending, at most an hour.
        max: longest duration in ms.
        count: durations in the sample; 0 where they are an estimate, made of other samples.

    Raises:
        ValueError: a value is negative, above an hour, NaN or out of order.
    """

    p05: float
    p25: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float
    count: Count

    def __post_init__(self) -> None:
        limits_ms = (0.0, *self.values_ms, _LONGEST_MS)
        if not all(before <= after for before, after in itertools.pairwise(limits_ms)):
            raise ValueError(
                f'quantiles are {self.values_ms} ms, expected finite numbers from 0 to '
                f'{_LONGEST_MS:.0f}, none below the one before it'
            )

    @property
    def values_ms(self) -> tuple[float, ...]:
        """The quantiles for `PROBABILITIES`, in ms."""
        return (self.p05, self.p25, self.p50, self.p75, self.p90, self.p95, self.p99, self.max)

    @classmethod
    def from_samples(cls, durations_ms: Sequence[float]) -> Quantiles:
        """Summarises at least one duration, rounded to 0.1 us so that files stay readable.

        Raises:
            ValueError: a duration is negative or not finite.
        """
        durations = np.asarray(durations_ms, dtype=float)
        return cls.of(np.quantile(durations, PROBABILITIES).round(4).tolist(), len(durations_ms))

    @classmethod
    def of(cls, values_ms: Sequence[float], count: int) -> Quantiles:
        """Of `values_ms` as the attribute has them."""
        p05, p25, p50, p75, p90, p95, p99, longest = values_ms
        return cls(p05, p25, p50, p75, p90, p95, p99, longest, count)
