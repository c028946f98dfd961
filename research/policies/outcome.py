"""What a frame can have come to."""

from __future__ import annotations


def check_outcome(latency_ms: float, remaining_ms: float) -> None:
    """Refuses what no frame can have come to.

    Raises:
        ValueError: the latency is NaN or negative, or the time that was left is NaN.
    """
    if not latency_ms >= 0.0 or remaining_ms != remaining_ms:
        raise ValueError(
            f'frame took {latency_ms} ms of {remaining_ms} ms, expected a time of at least 0, infinite '
            f'when it was cut, of a time that is known'
        )
