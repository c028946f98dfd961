"""Which paths to time so that every segment is timed often, whatever the time allows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable

from deadline_perception.core.execution_path import ExecutionPath

_CANDIDATES = 24


def covering_paths(
    paths: Iterable[ExecutionPath],
    repeats: int,
    rng: random.Random,
) -> list[ExecutionPath]:
    """Random paths that together run every segment that any of the paths runs at least `repeats` times.

    Each next one runs what was run least, and is the one of some candidates that runs most of that. So the list may be
    truncated anywhere and what remains is still balanced.

    Args:
        paths: to choose from, such as a path space.
        repeats: times that each segment is run, >= 1.
        rng: source of randomness; equal states give equal lists.

    Raises:
        ValueError: `repeats` is below 1.
    """
    if repeats < 1:
        raise ValueError(f'repeats is {repeats}, expected at least 1')
    runs = {path: path.space.keys(path) for path in paths}
    carriers: dict[str, list[ExecutionPath]] = {}
    for path, keys in runs.items():
        for key in keys:
            carriers.setdefault(key, []).append(path)
    counts = Counter(dict.fromkeys(carriers, 0))
    chosen: list[ExecutionPath] = []
    while True:
        least = min(counts.values(), default=repeats)
        if least >= repeats:
            return chosen
        of_rarest = carriers[rng.choice([key for key, count in counts.items() if count == least])]
        best = max(
            rng.sample(of_rarest, min(_CANDIDATES, len(of_rarest))),
            key=lambda path: sum((counts[key] - least + 1) ** -2 for key in runs[path]),
        )
        counts.update(runs[best])
        chosen.append(best)


def fewest_covering(
    paths: Iterable[ExecutionPath], keys: Collection[str] | None = None
) -> list[ExecutionPath]:
    """Some of the paths that run every segment that any of them runs, as few as a greedy choice finds.

    Args:
        paths: to choose from.
        keys: of the segments that matter; None: all.
    """
    runs = {path: set(path.space.keys(path)) for path in paths}
    left = {path: own if keys is None else own.intersection(keys) for path, own in runs.items()}
    left = {path: own for path, own in left.items() if own}
    chosen: list[ExecutionPath] = []
    while left:
        best = max(left, key=lambda path: len(left[path]))
        chosen.append(best)
        run = left.pop(best)
        left = {path: keys - run for path, keys in left.items() if keys - run}
    return chosen


def distinct_paths(
    paths: Iterable[ExecutionPath],
    count: int,
    rng: random.Random,
    first: Iterable[ExecutionPath] = (),
) -> list[ExecutionPath]:
    """Distinct paths: the first and the last, which are the smallest and the largest of a path space, those that are
    wished for, then random ones.

    Args:
        paths: to choose from, such as a path space.
        count: how many, >= 1; fewer paths give all.
        rng: source of randomness.
        first: paths that come right after the first and the last.
    """
    known = list(paths)
    if count >= len(known):
        return known
    chosen = dict.fromkeys((known[0], known[-1], *first))
    left = [path for path in known if path not in chosen]
    return [*chosen, *rng.sample(left, min(len(left), max(0, count - len(chosen))))][:count]


def interleave(
    first: list[ExecutionPath], second: list[ExecutionPath]
) -> list[tuple[bool, ExecutionPath]]:
    """Merges two lists evenly, each in its order; the flag is True for what comes from `second`."""
    placed = [((i + 0.5) / len(first), False, path) for i, path in enumerate(first)]
    placed += [((i + 0.5) / len(second), True, path) for i, path in enumerate(second)]
    placed.sort(key=lambda item: item[:2])
    return [(is_second, path) for _, is_second, path in placed]
