"""Deadline arithmetic: when an answer is due, how much time is left, and whether it was in time. One formula each."""
from __future__ import annotations

from typing import Any

Times = Any  # float, or float64 array of any shape

MAX_BUDGET_MS = 60_000.0  # a longer one is a fault: no vehicle drives blind for a minute
TOLD_MS = 5000.0  # that a diagnostic tells of what has passed


def deadline_at_ms(captured_ms: Times, budget_ms: Times) -> Times:
    """Monotonic time by which the answer of an image must be published."""
    return captured_ms + budget_ms


def left_ms(until_ms: Times, at_ms: Times, reserve_ms: Times = 0.0) -> Times:
    """Time left until a deadline, less what is reserved for later work; negative once it has passed."""
    return until_ms - at_ms - reserve_ms


def is_met(took_ms: Times, budget_ms: Times) -> bool:
    """What took so long came within its budget; for arrays, element by element."""
    return took_ms <= budget_ms
