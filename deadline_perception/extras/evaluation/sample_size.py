"""What the longest of independent samples bounds.

The r-th smallest of n independent samples lies at or above the p quantile of their distribution, whichever that is,
with probability `P(Binomial(n, p) < r)` (Wilks 1941, distribution-free tolerance limits). So the number of samples
alone says which of them may serve as a bound, and how many it takes before any of them may.
"""

from __future__ import annotations

import math

_CONFIDENCE = 0.95


def samples_needed(probability: float) -> int:
    """The fewest independent samples whose largest bounds a quantile with 95 % confidence: 299 for 0.99.

    Raises:
        ValueError: the probability lies outside (0, 1).
    """
    if not 0.0 < probability < 1.0:
        raise ValueError(f'probability is {probability}, expected a value in (0, 1)')
    return max(1, math.ceil(math.log1p(-_CONFIDENCE) / math.log(probability) - 1e-9))


def bounded_share(count: int) -> float:
    """The share of further samples that the largest of `count` independent ones bounds, with 95 % confidence.

    Raises:
        ValueError: the count is below 1.
    """
    if not count >= 1:
        raise ValueError(f'count is {count} samples, expected at least 1')
    return (1.0 - _CONFIDENCE) ** (1.0 / count)
