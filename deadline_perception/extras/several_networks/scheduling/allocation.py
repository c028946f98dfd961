"""Which level and period each task gets, so that all meet their deadlines and their qualities add up to the most.

Problem 4.1 of the nested-network thesis. Its greedy method (algorithms 1 and 2) is here, beside one that goes on where
the greedy one stops; the optimum is found in `exact_allocation`. The selections that the thesis compares with lie in
research/nested_networks.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from deadline_perception.core.stopwatch import ms_from_ns
from deadline_perception.extras.several_networks.scheduling.choices import (
    Choices,
    Infeasible,
    Option,
)
from deadline_perception.extras.several_networks.scheduling.exact_allocation import improve
from deadline_perception.extras.several_networks.scheduling.feasibility import analyse

_ROOM = 1e-9  # sums of utilisations this near to 1 are added up exactly
_MOST_EXCHANGES = 50
_LEAST_GAIN = 1e-12  # of quality: less is rounding


class Method(Enum):
    """How options are selected.

    GREEDY: the thesis's: from the lowest utilisations, the step that gains most quality per utilisation, until one does
        not fit.
    GREEDY_NEXT: as GREEDY, but a step that does not fit is dropped for the next best one, and at the end single
        options are exchanged while that gains quality.
    EXACT: the best selection there is, by mixed-integer programming.
    """

    GREEDY = 'greedy'
    GREEDY_NEXT = 'greedy_next'
    EXACT = 'exact'


@dataclass(frozen=True)
class Allocation:
    """One option for each task.

    Attributes:
        options: of the tasks, in their order.
        schedulable: all deadlines are met under EDF that preempts between segments.
        gap: by how much, relative to its own quality, a better selection could exceed this one; 0 for a proven optimum,
            NaN where nothing is known.
    """

    options: tuple[Option, ...]
    schedulable: bool
    gap: float = math.nan

    @property
    def quality(self) -> float:
        """Sum over the tasks."""
        return math.fsum(option.quality for option in self.options)

    @property
    def utilisation(self) -> float:
        """Sum over the tasks."""
        return math.fsum(option.utilisation for option in self.options)


def allocate(
    tasks: Sequence[Sequence[Option]],
    method: Method = Method.EXACT,
    *,
    names: Sequence[str] = (),
    time_limit_s: float = 60.0,
) -> Allocation:
    """Selects an option for each task.

    Args:
        tasks: the options of each task.
        method: how.
        names: of the tasks, for errors; by default their numbers.
        time_limit_s: of the method EXACT, which then gives the best selection that it has found, and its gap.

    Raises:
        ValueError: there is no task, or one has no option.
        Infeasible: no selection meets all deadlines.
    """
    names = list(names) or [f'{number}' for number in range(len(tasks))]
    choices = Choices(tasks, names)
    selection, gap = (
        _greedy(choices, least_demand(choices, names), goes_on=method is not Method.GREEDY),
        math.nan,
    )
    if method is Method.EXACT:
        selection, gap = improve(choices, selection, time_limit_s)
    return Allocation(tuple(choices.options[at] for at in selection.tolist()), True, gap)


def least_demand(choices: Choices, names: Sequence[str]) -> np.ndarray:
    """A schedulable selection to begin with: the lowest utilisation of each task, or else any.

    Raises:
        Infeasible: there is none.
    """
    order = np.lexsort((-choices.qualities, choices.utilisations, choices.task))
    selection = order[choices.begins[:-1]]
    if choices.fits(selection):
        return selection
    # Shorter jobs and longer periods never do harm, but a task may have its shortest job in another option.
    found, _ = improve(choices, None, math.inf)
    if found is None:
        raise Infeasible(_why(choices, selection, names))
    return found


def frontier(utilisations: np.ndarray, qualities: np.ndarray, start: int) -> list[int]:
    """The convex frontier of quality over utilisation from an option on (algorithm 1): indices, both ascending.

    From each member the next is the one to which quality rises most steeply; the last one has the highest quality.
    """
    order = np.lexsort((-qualities, utilisations))
    order = order[
        (utilisations[order] > utilisations[start]) & (qualities[order] > qualities[start])
    ]
    best = np.maximum.accumulate(qualities[order])
    order = order[np.concatenate([[True], best[1:] > best[:-1]])] if len(order) else order
    hull = [(float(utilisations[start]), float(qualities[start]), start)]
    for cost, gain, at in zip(
        utilisations[order].tolist(), qualities[order].tolist(), order.tolist()
    ):
        while len(hull) > 1:
            (cost_before, gain_before, _), (cost_last, gain_last, _) = hull[-2:]
            if (gain - gain_last) * (cost_last - cost_before) < (gain_last - gain_before) * (
                cost - cost_last
            ):
                break
            hull.pop()
        hull.append((cost, gain, at))
    return [at for _, _, at in hull]


def _greedy(choices: Choices, start: np.ndarray, *, goes_on: bool) -> np.ndarray:
    """Algorithm 2, from a schedulable selection; going on after the first step that does not fit where asked to."""
    steps, costs, gains = [], choices.utilisations, choices.qualities
    for task, (begin, end) in enumerate(zip(choices.begins.tolist(), choices.begins[1:].tolist())):
        hull = frontier(costs[begin:end], gains[begin:end], int(start[task]) - begin)
        steps += [(task, begin + of, begin + to) for of, to in zip(hull, hull[1:])]
    if not steps:
        return exchange(choices, start) if goes_on else start
    task, of, to = np.array(steps).T
    order = np.argsort(
        -(gains[to] - gains[of]) / (costs[to] - costs[of]), kind='stable'
    )  # falls along each frontier
    task, of, to = task[order], of[order], to[order]
    taken = _fitting(choices, start, task, of, to)
    selection = start.copy()
    selection[task[:taken]] = to[:taken]  # of several steps of one task the last one stays
    if not goes_on:
        return selection
    room = 1.0 - float(costs[selection].sum()) + _ROOM
    for task, of, to in zip(task[taken:].tolist(), of[taken:].tolist(), to[taken:].tolist()):
        if selection[task] == of and costs[to] - costs[of] <= room:
            selection[task] = to
            if choices.fits(selection):
                room -= float(costs[to] - costs[of])
            else:
                selection[task] = of
    return exchange(choices, selection)


def _fitting(
    choices: Choices, start: np.ndarray, task: np.ndarray, of: np.ndarray, to: np.ndarray
) -> int:
    """How many of the steps can be taken until the first one does not fit; all are looked at together."""
    costs = choices.utilisations
    used = float(costs[start].sum()) + np.cumsum(costs[to] - costs[of])
    count = int(np.searchsorted(used, 1.0 + _ROOM, side='right'))  # each step takes more
    task, of, to = task[:count], of[:count], to[:count]
    selections = np.repeat(start[None], count, axis=0)
    for row, (column, place) in enumerate(zip(task.tolist(), to.tolist())):
        selections[row:, column] = place
    table, times, places = choices.table, choices.times, choices.places
    demand = table.demand(times[start], places[start]) + np.cumsum(
        times[to, None] * table.releases[places[to]] - times[of, None] * table.releases[places[of]],
        axis=0,
    )
    fits = table.holds(choices.segments[selections], places[selections], demand)
    unsure = choices.are_due_early | (used[:count] > 1.0 - _ROOM)
    for row in np.flatnonzero(fits & unsure).tolist():
        fits[row] = choices.fits(selections[row])
    return count if fits.all() else int(np.argmin(fits))


def exchange(choices: Choices, selection: np.ndarray) -> np.ndarray:
    """Exchanges single options for better ones that fit, the largest gain first, until none is left."""
    for _ in range(_MOST_EXCHANGES):
        costs = choices.utilisations[selection]
        gains = choices.qualities - choices.qualities[selection][choices.task]
        room = 1.0 - costs.sum() + costs[choices.task] + _ROOM
        better = np.flatnonzero((gains > _LEAST_GAIN) & (choices.utilisations <= room))
        for candidate in better[np.argsort(-gains[better], kind='stable')].tolist():
            trial = selection.copy()
            trial[choices.task[candidate]] = candidate
            if choices.fits(trial):
                selection = trial
                break
        else:
            return selection
    return selection


def _why(choices: Choices, selection: np.ndarray, names: Sequence[str]) -> str:
    """Why the selection of least demand does not fit, and what would."""
    tasks = tuple(
        of[selection].tolist()
        for of in (choices.times, choices.periods, choices.segments, choices.deadlines)
    )
    times, periods, _, deadlines = tasks
    analysis = analyse(*tasks)
    said = []
    if analysis.utilisation > 1:
        shares = ', '.join(
            f'{name} {time / period:.3f}' for name, time, period in zip(names, times, periods)
        )
        said.append(
            f'even at their lowest options the tasks take {float(analysis.utilisation):.3f} of the processor '
            f'({shares})'
        )
    for condition in analysis.failing:
        late = ', '.join(name for name, due in zip(names, deadlines) if due < condition.length)
        cause = (
            f'{late} together are late'
            if condition.blocker is None
            else f'a segment of {names[condition.blocker]} that has just begun makes {late} late'
        )
        said.append(
            f'{cause}: {ms_from_ns(condition.demand):.2f} ms of work within '
            f'{ms_from_ns(condition.length):.2f} ms'
        )
    fitting = _what_fits(tasks, names)
    return f'no selection of options is schedulable: {"; ".join(said)}. {fitting}'


def _what_fits(tasks: tuple[list[int], ...], names: Sequence[str]) -> str:
    times, periods, segments, deadlines = tasks

    def too_long(share: int) -> bool:
        shorter, parts = ([max(1, time * share >> 20) for time in of] for of in (times, segments))
        return not analyse(shorter, periods, parts, deadlines).schedulable

    fits = (
        bisect.bisect_left(range(1 << 20), True, lo=1, key=too_long) - 1
    )  # 2^20 of 2^20 does not fit
    words = [f'execution times of {math.floor(1000 * fits / 2**20) / 10:.1f} % of these would fit']
    without = [
        name
        for at, name in enumerate(names)
        if len(names) > 1 and analyse(*(of[:at] + of[at + 1 :] for of in tasks)).schedulable
    ]
    if without:
        words.append(f'so would all tasks but {" or but ".join(without)}')
    return ', '.join(words)
