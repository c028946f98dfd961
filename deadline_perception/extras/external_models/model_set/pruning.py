"""Which of many candidates, models or execution paths, are worth keeping ready.

Two prunings, one after the other (contention paper, sections 3.4 and 4.1.3, Figs. 2 and 4), and one by memory. Each
takes and gives candidates; what is kept comes ascending in delay. The paper's third pruning, by the slopes between
neighbours, lies in research/contention_grading. Needs neither torch nor ROS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A model, or an execution path.

    Attributes:
        name: unique among those that are pruned together.
        delay_ms: time of a frame, > 0; over all contention levels where they are known (contention paper, section
            4.1.3).
        quality: such as average precision in [0, 1]; the more the better.
        memory_mb: that it takes while it is ready, >= 0; 0 where it is not known.

    Raises:
        ValueError: a number is outside its range.
    """

    name: str
    delay_ms: float
    quality: float
    memory_mb: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.delay_ms < math.inf:
            raise ValueError(
                f'delay of {self.name} is {self.delay_ms} ms, expected a finite time above 0'
            )
        if not math.isfinite(self.quality):
            raise ValueError(f'quality of {self.name} is {self.quality}, expected a finite number')
        if not 0.0 <= self.memory_mb < math.inf:
            raise ValueError(
                f'memory of {self.name} is {self.memory_mb} MB, expected a finite amount of at least 0'
            )


def pareto_prune(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those that no other is at least as fast and as good as; of equal ones the first stays.

    Source: contention paper, section 3.4, first stage. Changed: the paper keeps all of equal quality and delay.

    Raises:
        ValueError: a name occurs twice.
    """
    kept: list[Candidate] = []
    for candidate in _ascending(candidates):
        if not kept or candidate.quality > kept[-1].quality:
            kept.append(candidate)
    return tuple(kept)


def contention_prune(
    candidates: Sequence[Candidate],
    delays_by_level: Mapping[str, Sequence[float]],
    threshold_ms: float,
) -> tuple[Candidate, ...]:
    """Those that are the best within a time at some contention level.

    Source: contention paper, section 3.4, third stage. Changed: where at some level not even the fastest is in time,
    the paper keeps nothing for it; here the one that is fastest there is kept, since a frame must be answered by
    something.

    Args:
        candidates: to choose from.
        delays_by_level: by the name of every candidate, its delay in ms at each contention level, as many for each.
        threshold_ms: a delay must lie below it, > 0.

    Raises:
        ValueError: a name occurs twice.
    """
    ascending = _ascending(candidates)
    valid = set()
    for level in range(len(delays_by_level[ascending[0].name]) if ascending else 0):

        def delay_ms(candidate: Candidate) -> float:
            return delays_by_level[candidate.name][level]

        in_time = [candidate for candidate in ascending if delay_ms(candidate) < threshold_ms]
        # Of equal quality the faster one.
        best = max(
            in_time, key=lambda candidate: (candidate.quality, -delay_ms(candidate)), default=None
        )
        valid.add((best or min(ascending, key=delay_ms)).name)
    return tuple(candidate for candidate in ascending if candidate.name in valid)


def memory_prune(candidates: Sequence[Candidate], limit_mb: float) -> tuple[Candidate, ...]:
    """As many of the best as memory holds beside the fastest, which stays in any case that it fits.

    Args:
        candidates: any number, with their memory.
        limit_mb: for all of them together, > 0.

    Raises:
        ValueError: not even the fastest fits, the limit is not above 0, or a name occurs twice.
    """
    if not limit_mb > 0.0:
        raise ValueError(f'memory limit is {limit_mb} MB, expected more than 0')
    ascending = _ascending(candidates)
    if not ascending:
        return ()
    kept, left_mb = {ascending[0].name}, limit_mb - ascending[0].memory_mb
    if left_mb < 0.0:
        raise ValueError(
            f'{ascending[0].name}, the fastest, takes {ascending[0].memory_mb:.0f} MB of memory, expected '
            f'at most the limit of {limit_mb:.0f} MB'
        )
    for candidate in sorted(ascending[1:], key=lambda candidate: -candidate.quality):
        if candidate.memory_mb <= left_mb:
            kept.add(candidate.name)
            left_mb -= candidate.memory_mb
    return tuple(candidate for candidate in ascending if candidate.name in kept)


def paths_to_keep(candidates: Sequence[Candidate], number: int) -> tuple[str, ...]:
    """Names of the paths that are the best within one time at so many levels of contention, ascending in delay.

    The levels are spaced evenly, on a logarithmic scale, from an idle machine, on which the slowest of the frontier is
    just in time, to one on which only the fastest is: contention pruning (contention paper, section 3.4) without levels
    of a system.

    Args:
        candidates: at least one; delays on the idle machine.
        number: of levels, at least 1, and so the most paths that are kept.
    """
    frontier = pareto_prune(candidates)
    slowest_ms, most = frontier[-1].delay_ms, frontier[-1].delay_ms / frontier[0].delay_ms
    factors = [most ** (level / max(1, number - 1)) for level in range(number)]
    delays = {
        candidate.name: [candidate.delay_ms * factor for factor in factors]
        for candidate in frontier
    }
    return tuple(
        candidate.name
        for candidate in contention_prune(frontier, delays, slowest_ms * (1.0 + 1e-9))
    )


def _ascending(candidates: Sequence[Candidate]) -> list[Candidate]:
    """By delay; of equal delay the best first."""
    names = [candidate.name for candidate in candidates]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'candidate {twice!r} occurs {names.count(twice)} times, expected once')
    return sorted(candidates, key=lambda candidate: (candidate.delay_ms, -candidate.quality))
