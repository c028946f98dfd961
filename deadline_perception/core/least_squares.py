"""Least squares whose unknowns are not negative. (That of scipy takes 0.4 s and 50 MB to load, at every start.)"""

from __future__ import annotations

import numpy as np

_TOLERANCE = 1e-10  # of the largest slope at first


def non_negative_least_squares(rows: np.ndarray, target: np.ndarray) -> np.ndarray:
    """What is nowhere negative and brings `rows @ found` nearest to a target: float64 `[columns]`.

    By active sets (Lawson and Hanson 1974, algorithm NNLS), on normal equations.

    Args:
        rows: float64 `[N, columns]`; columns that are free together are independent.
        target: float64 `[N]`.
    """
    gram = rows.T @ rows
    aim = rows.T @ target
    found = np.zeros(len(aim))
    free = np.zeros(len(aim), bool)
    least = _TOLERANCE * np.abs(aim).max(initial=0.0)
    for _ in range(3 * len(aim)):
        slopes = np.where(free, 0.0, aim - gram @ found)
        if slopes.max(initial=0.0) <= least:
            break
        free[slopes.argmax()] = True
        while True:
            tried = np.zeros(len(aim))
            tried[free] = np.linalg.solve(gram[np.ix_(free, free)], aim[free])
            below = free & (tried < 0.0)
            if not below.any():
                break
            # As far towards it as nothing falls below 0; what gets there stays there.
            shares = found[below] / (found[below] - tried[below])
            found += shares.min() * (tried - found)
            free[np.flatnonzero(below)[shares.argmin()]] = False
            found[~free] = 0.0
        found = tried
    return found
