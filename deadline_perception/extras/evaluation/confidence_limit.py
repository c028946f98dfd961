"""What a count of misses says of their probability, where trials are independent and alike."""

from __future__ import annotations

from scipy.special import betaincinv


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
