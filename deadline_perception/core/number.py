"""Numbers as callers of the API give them: of any type, until they were looked at."""

from __future__ import annotations

import math
import operator
import reprlib
from typing import Any


def number_or_nan(value: Any) -> float:
    """The value as a float; NaN, which lies in no range, where it is no single number."""
    if isinstance(value, (str, bytes, bytearray)):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def is_count(value: Any) -> bool:
    """It is a whole number of at least 0, of a type for whole numbers."""
    try:
        return operator.index(value) >= 0
    except TypeError:
        return False


def told_value(value: Any) -> str:
    """A value that is refused, as an error shows it: short, in one line."""
    return ' '.join(reprlib.repr(value).split())
