"""The best schedulable selection of options, as a mixed-integer program solved by HiGHS (`scipy.optimize.milp`).

One binary variable per option, exactly one option per task. The conditions of `feasibility` are linear in them. At a
length L and for a blocking task i: `sum over all tasks' options of floor((L - 1) / p) c x`, and for the options of i
with `p >= L` `min(c, L) x` instead, is at most L. The `min` lets a job that is longer than L block while nothing
shorter than L is selected, and forbids it otherwise: so the row is exact whichever periods are selected. Rows are added
where a solution breaks them; a solution is accepted only when the exact test in whole nanoseconds accepts it.
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


def _undominated(times: np.ndarray, periods: np.ndarray, qualities: np.ndarray) -> np.ndarray:
    """Options that no other beats in time, period and quality: a shorter job or a longer period never does harm."""
    as_good = (
        (times[:, None] <= times)
        & (periods[:, None] >= periods)
        & (qualities[:, None] >= qualities)
    )
    same = as_good & as_good.T
    first = np.arange(len(times))[:, None] < np.arange(len(times))
    return np.flatnonzero(~((as_good & ~same) | (same & first)).any(axis=0))


def _promising(choices: Choices, known: float) -> np.ndarray:
    """Places of the options that a selection better than the known one can have, by dominance and utilisation alone;
    empty when there is none.

    For any price of utilisation, the best sum of quality less price, plus the price of a whole processor, bounds every
    selection. The lowest such bound is found by golden-section search over the price.
    """
    kept = np.concatenate(
        [
            begin
            + _undominated(
                choices.times[begin:end], choices.periods[begin:end], choices.qualities[begin:end]
            )
            for begin, end in zip(choices.begins, choices.begins[1:])
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
        self._times, self._periods, self._places = (
            choices.times[kept],
            choices.periods[kept],
            choices.places[kept],
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
        failing = self._choices.table.failing(
            self._choices.times[selection], self._choices.places[selection]
        )
        new = [at for at in failing.tolist() if at not in self._lengths][:_LENGTHS_AT_ONCE]
        for at in new:
            self._lengths.add(at)
            self._add(at)
        if not new:
            self._rows.append(np.isin(self._kept, selection).astype(float))
            self._limits.append(len(selection) - 1.0)

    def _add(self, at: int) -> None:
        """The rows of one length: one for each task that can block there."""
        length = int(self._choices.table.lengths[at])
        demand = self._choices.table.releases[self._places, at] * self._times / length
        can_block = self._periods >= length
        blocks = np.where(can_block, np.minimum(self._times, length) / length, demand)
        for task in np.unique(self._task[can_block]).tolist():
            self._rows.append(np.where(self._task == task, blocks, demand))
            self._limits.append(1.0)
