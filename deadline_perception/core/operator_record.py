"""What one operator of a path was set to."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class OperatorRecord:
    """What one operator was set to; fields are those of OperatorDecision.msg."""

    name: str
    kind: str
    setting: str
    level: int
    levels: int
    decided: bool
    changed: bool = False
    bound_ms: float = math.nan
    decision_us: float = math.nan
    remaining_ms: float = math.nan
