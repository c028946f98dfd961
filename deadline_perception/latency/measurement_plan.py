"""Which paths to time so that every segment is timed often, whatever the time allows."""
from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

from deadline_perception.execution_path import ExecutionPath, PathSpace

_CANDIDATES = 24


def random_path(path_space: PathSpace, rng: random.Random) -> ExecutionPath:
    """A path in which every operator's setting is equally likely."""
    return ExecutionPath(tuple(rng.randrange(size) for size in path_space.sizes), path_space)


def covering_paths(path_space: PathSpace, repeats: int, rng: random.Random) -> list[ExecutionPath]:
    """Random paths that together run every segment at least `repeats` times.

    Each next path is the one, of some random candidates, that runs most of what was run least. So the list may be
    truncated anywhere and what remains is still balanced.

    Args:
        path_space: the paths to choose from.
        repeats: times that each segment is run, >= 1.
        rng: source of randomness; equal states give equal lists.

    Raises:
        ValueError: `repeats` is below 1.
    """
    if repeats < 1:
        raise ValueError(f'repeats is {repeats}, expected at least 1')
    carriers = path_space.carriers()
    counts = Counter(dict.fromkeys(carriers, 0))
    paths = []
    while True:
        least = min(counts.values())
        if least >= repeats:
            return paths
        candidates = [random_path(path_space, rng) for _ in range(_CANDIDATES - 1)]
        rarest = rng.choice([name for name, count in counts.items() if count == least])
        candidates.append(with_settings(random_path(path_space, rng), carriers[rarest]))
        best = max(candidates, key=lambda path: sum(
            (counts[name] - least + 1) ** -2 for name in path_space.keys(path)))
        if least not in (counts[name] for name in path_space.keys(best)):
            best = candidates[-1]  # every path adds to what was run least, so the loop ends
        counts.update(path_space.keys(best))
        paths.append(best)


def fewest_covering(paths: Iterable[ExecutionPath]) -> list[ExecutionPath]:
    """Some of the paths that run every segment that any of them runs, as few as a greedy choice finds."""
    left = {path: set(path.space.keys(path)) for path in paths}
    chosen = []
    while left:
        best = max(left, key=lambda path: len(left[path]))
        chosen.append(best)
        run = left.pop(best)
        left = {path: keys - run for path, keys in left.items() if keys - run}
    return chosen


def with_settings(path: ExecutionPath, needed: dict[int, int]) -> ExecutionPath:
    """The path with some settings given by the place of their operator."""
    return ExecutionPath(tuple(needed.get(at, index) for at, index in enumerate(path.settings)), path.space)


def distinct_paths(path_space: PathSpace, count: int, rng: random.Random,
                   first: tuple[ExecutionPath, ...] = ()) -> list[ExecutionPath]:
    """Distinct paths: the smallest, the largest, those that are wished for, then random ones.

    Args:
        path_space: the paths to choose from.
        count: how many, >= 1; a smaller space gives all that it has.
        rng: source of randomness.
        first: paths that come right after the smallest and the largest.

    Raises:
        ValueError: `count` is below 1.
    """
    if count < 1:
        raise ValueError(f'number of whole paths is {count}, expected at least 1')
    if count >= len(path_space):
        return list(path_space)
    chosen = dict.fromkeys((path_space.smallest, path_space.largest, *first))
    while len(chosen) < count:
        chosen[random_path(path_space, rng)] = None
    return list(chosen)[:count]


def one_at_a_time(path_space: PathSpace) -> tuple[ExecutionPath, ...]:
    """The largest path with one operator at a time at each of its other settings."""
    return tuple(path_space.largest.replace(**{operator.name: setting}) for operator in path_space.operators
                 for setting in operator.settings[:-1])


def interleave(first: list, second: list) -> list[tuple[bool, ExecutionPath]]:
    """Merges two lists evenly, each in its order; the flag is True for what comes from `second`."""
    placed = [((i + 0.5) / len(first), False, path) for i, path in enumerate(first)]
    placed += [((i + 0.5) / len(second), True, path) for i, path in enumerate(second)]
    placed.sort(key=lambda item: item[:2])
    return [(is_second, path) for _, is_second, path in placed]
