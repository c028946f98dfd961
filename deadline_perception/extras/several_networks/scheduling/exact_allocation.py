"""The best schedulable selection of options, as a mixed-integer program solved by HiGHS (`scipy.optimize.milp`).

One binary variable per option, exactly one option per task. The conditions of `feasibility` are linear in them. At a
length L and for a blocking task i: `sum over all tasks' options of h(L - 1) x`, and for the options of i with
`D >= L` `min(b, L) x` instead, is at most L. The `min` lets a segment that is longer than L block while nothing due
within L is selected, and forbids it otherwise: so the row is exact whichever options are selected. Rows are added where
a solution breaks them; a solution is accepted only when the exact test in whole nanoseconds accepts it.
"""

from __future__ import annotations

import math
import time

import numpy as np

from deadline_perception.extras.several_networks.scheduling.choices import Choices

_LENGTHS_AT_ONCE = 8
_GOLDEN, _PRICE_STEPS = 0.6180339887498949, 45
_ROUNDING = 1e-9  # of quality: a bound this little above what is known is not above it


def improve(
    choices: Choices, incumbent: np.ndarray | None, time_limit_s: float
) -> tuple[np.ndarray | None, float]:
    """The best schedulable selection.

    Args:
        choices: options of all tasks.
        incumbent: a schedulable selection, int64 `[n]`; None when none is known.
        time_limit_s: after which the best one known is returned.

    Returns:
        The selection, None where there is none; and by how much, relative to its quality, a better one could exceed it.
    """
    until_s = time.monotonic() + time_limit_s
    known = -math.inf if incumbent is None else choices.quality(incumbent)
    kept = _promising(choices, known)
    if not len(kept):
        return incumbent, 0.0
    program = _Program(choices, kept)
    while True:
        left_s = until_s - time.monotonic()
        solution, bound = program.solve(left_s) if left_s > 0 else (None, math.inf)
        if (
            solution is None or bound <= known + _ROUNDING
        ):  # nothing else is schedulable, better, or found in time
            return incumbent, _gap(known, bound)
        if choices.fits(solution):
            value = choices.quality(solution)
            if value >= known:
                incumbent, known = solution, value
            return incumbent, _gap(known, bound)
        program.forbid(solution)


def _gap(known: float, bound: float) -> float:
    if bound <= known + _ROUNDING or bound == -math.inf:
        return 0.0
    return (bound - known) / max(abs(known), 1e-12) if math.isfinite(known) else math.inf


def _undominated(choices: Choices, begin: int, end: int) -> np.ndarray:
    """Places of a task's options that no other beats in all that matters: shorter jobs and segments, longer periods and
    deadlines never do harm."""
    cost = np.array([choices.times, choices.segments, -choices.periods, -choices.deadlines])
    cost = np.vstack([cost, -choices.qualities])[:, begin:end]
    as_good = (cost[:, :, None] <= cost[:, None, :]).all(axis=0)
    same = as_good & as_good.T
    first = np.arange(end - begin)[:, None] < np.arange(end - begin)
    return begin + np.flatnonzero(~((as_good & ~same) | (same & first)).any(axis=0))


def _promising(choices: Choices, known: float) -> np.ndarray:
    """Places of the options that a selection better than the known one can have, by dominance and utilisation alone;
    empty when there is none.

    For any price of utilisation, the best sum of quality less price, plus the price of a whole processor, bounds every
    selection. The lowest such bound is found by golden-section search over the price.
    """
    kept = np.concatenate(
        [
            _undominated(choices, begin, end)
            for begin, end in zip(choices.begins.tolist(), choices.begins[1:].tolist())
        ]
    )
    qualities, costs, task = choices.qualities[kept], choices.utilisations[kept], choices.task[kept]
    begins = np.searchsorted(task, np.arange(len(choices)))

    def bound_of(price: float) -> float:
        return float(np.maximum.reduceat(qualities - price * costs, begins).sum()) + price

    low, high = 0.0, 1.0
    while high < 1e9 and bound_of(high * 2.0) < bound_of(high):
        high *= 2.0
    high *= 2.0
    for _ in range(_PRICE_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if bound_of(left) < bound_of(right) else (left, high)
    values = qualities - high * costs
    best = np.maximum.reduceat(values, begins)
    bound = float(best.sum()) + high
    return (
        kept[bound - (best[task] - values) > known + _ROUNDING]
        if bound > known + _ROUNDING
        else kept[:0]
    )


class _Program:
    """The program with the rows known so far.

    Args:
        choices: options of all tasks.
        kept: places of those that are variables, by task.
    """

    def __init__(self, choices: Choices, kept: np.ndarray) -> None:
        self._choices, self._kept, self._task = choices, kept, choices.task[kept]
        self._times, self._periods, self._segments, self._deadlines = (
            of[kept] for of in (choices.times, choices.periods, choices.segments, choices.deadlines)
        )
        # Sums of ratios that are 1 but for rounding are let through here, and judged by the exact test.
        self._rows, self._limits = [choices.utilisations[kept]], [1.0]
        self._lengths: set[int] = set()

    def solve(self, time_limit_s: float) -> tuple[np.ndarray | None, float]:
        """The best selection under the rows so far and a bound of all; None and -inf when there is none."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        tasks = np.arange(len(self._choices))
        one_each = (self._task == tasks[:, None]).astype(float)
        if not one_each.any(axis=1).all():
            return None, -math.inf
        options = {'mip_rel_gap': 0.0}
        if math.isfinite(time_limit_s):
            options['time_limit'] = time_limit_s
        found = milp(
            -self._choices.qualities[self._kept],
            integrality=np.ones(len(self._kept)),
            bounds=Bounds(0, 1),
            options=options,
            constraints=[
                LinearConstraint(one_each, 1, 1),
                LinearConstraint(np.array(self._rows), -np.inf, np.array(self._limits)),
            ],
        )
        if found.status == 2:
            return None, -math.inf
        if found.x is None:
            return None, math.inf
        bound = -found.fun if found.mip_dual_bound is None else -found.mip_dual_bound
        return self._kept[np.argmax(one_each * (found.x + 1.0), axis=1)], float(bound)

    def forbid(self, selection: np.ndarray) -> None:
        """Adds rows that a selection breaks; where they are all known, and only rounding lets it through, one against
        it alone."""
        choices = self._choices
        failing = choices.table.failing(
            choices.times[selection], choices.segments[selection], choices.places[selection]
        )
        lengths = choices.table.lengths[failing].tolist()
        if not lengths and (beyond := self._overloaded_length(selection)) is not None:
            lengths = [beyond + 1]
        new = [length for length in lengths if length not in self._lengths][:_LENGTHS_AT_ONCE]
        for length in new:
            self._lengths.add(length)
            self._add(length)
        if not new:
            self._rows.append(np.isin(self._kept, selection).astype(float))
            self._limits.append(len(selection) - 1.0)

    def _overloaded_length(self, selection: np.ndarray) -> int | None:
        try:
            return self._choices.overloaded_length(selection)
        except ValueError:  # of a utilisation of nearly 1, or above it by rounding
            return None

    def _add(self, length: int) -> None:
        """The rows of one length: one for each task that can block there, and one where nothing blocks."""
        due = np.maximum((length - 1 - self._deadlines) // self._periods + 1, 0)
        demand = due * self._times / length
        can_block = self._deadlines >= length
        blocks = np.where(can_block, np.minimum(self._segments, length) / length, demand)
        for task in np.unique(self._task[can_block]).tolist():
            self._rows.append(np.where(self._task == task, blocks, demand))
            self._limits.append(1.0)
        if self._choices.are_due_early:
            self._rows.append(demand)
            self._limits.append((length - 1) / length)
