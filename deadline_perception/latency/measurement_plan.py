"""Which paths to time so that every segment is timed often, whatever the time allows."""
from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from deadline_perception.execution_path import ExecutionPath, PathSpace

_CANDIDATES = 24


def all_segments(path_space: PathSpace) -> list[str]:
    """Every segment that some path of the space runs, in the order in which a frame meets them."""
    return list(_carriers(path_space))


def _carriers(space: PathSpace) -> dict[str, list[ExecutionPath]]:
    """For each segment, the paths without a skip that run it."""
    carriers: dict[tuple[int, str], list[ExecutionPath]] = {}
    for width in space.widths:
        for pyramid_width in space.pyramid_widths:
            for proposals in space.proposals:
                for head in range(space.heads):
                    path = ExecutionPath((False,) * space.skips, width, proposals, head, pyramid_width)
                    for slot in range(len(space.slots)):
                        carriers.setdefault((slot, space.segment(slot, path)), []).append(path)
    return {name: carriers[slot, name] for slot, name in sorted(carriers, key=lambda key: key[0]) if name is not None}


def random_path(path_space: PathSpace, rng: random.Random) -> ExecutionPath:
    """A path in which every operator's choice is equally likely."""
    return ExecutionPath(tuple(rng.random() < 0.5 for _ in range(path_space.skips)), rng.choice(path_space.widths),
                         rng.choice(path_space.proposals), rng.randrange(path_space.heads),
                         rng.choice(path_space.pyramid_widths))


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
    carriers = _carriers(path_space)
    counts = Counter(dict.fromkeys(carriers, 0))
    paths = []
    while True:
        least = min(counts.values())
        if least >= repeats:
            return paths
        candidates = [random_path(path_space, rng) for _ in range(_CANDIDATES - 1)]
        rarest = [name for name, count in counts.items() if count == least]
        candidates.append(_path_through(rng.choice(rarest), path_space, carriers, rng))
        best = max(candidates, key=lambda path: sum(
            (counts[name] - least + 1) ** -2 for name in path_space.segments(path)))
        if least not in (counts[name] for name in path_space.segments(best)):
            best = candidates[-1]  # every path adds to what was run least, so the loop ends
        counts.update(path_space.segments(best))
        paths.append(best)


def _path_through(segment: str, space: PathSpace, carriers: dict[str, list[ExecutionPath]],
                  rng: random.Random) -> ExecutionPath:
    """A random path that runs a segment."""
    path = rng.choice(carriers[segment])
    some_skipped = replace(path, skip=tuple(rng.random() < 0.5 for _ in range(space.skips)))
    return some_skipped if segment in space.segments(some_skipped) else path


def distinct_paths(path_space: PathSpace, count: int, rng: random.Random) -> list[ExecutionPath]:
    """Distinct paths to time as a whole: the smallest, the largest, then random ones.

    Args:
        path_space: the paths to choose from.
        count: how many, >= 1; a smaller space gives all that it has.
        rng: source of randomness.

    Raises:
        ValueError: `count` is below 1.
    """
    if count < 1:
        raise ValueError(f'number of whole paths is {count}, expected at least 1')
    if count >= len(path_space):
        return list(path_space)
    chosen = dict.fromkeys((path_space.smallest, path_space.largest))
    while len(chosen) < count:
        chosen[random_path(path_space, rng)] = None
    return list(chosen)[:count]


def interleave(first: list, second: list) -> list[tuple[bool, ExecutionPath]]:
    """Merges two lists evenly, each in its order; the flag is True for what comes from `second`."""
    placed = [((i + 0.5) / len(first), False, path) for i, path in enumerate(first)]
    placed += [((i + 0.5) / len(second), True, path) for i, path in enumerate(second)]
    placed.sort(key=lambda item: item[:2])
    return [(is_second, path) for _, is_second, path in placed]
