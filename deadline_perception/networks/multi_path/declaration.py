"""What the families of multi-path detectors can decide alike: operators, segments, sizes. Needs no torch."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Sequence

from deadline_perception.core.execution_path import (
    SCALE,
    SKIP,
    ExecutionPath,
    Operator,
    Segment,
)


def scale_operator(scales: Sequence[float]) -> Operator:
    settings = tuple(map(float, reversed(scales)))
    return Operator('scale', SCALE, settings, 'r', unnamed=len(scales) - 1)


def backbone_segments(
    skips_per_stage: Sequence[int], scale: tuple[str, ...], kept_groups: Sequence[int] = ()
) -> tuple[list[Operator], list[Segment]]:
    """The skip operators, and the segments before the pyramid; `scale`: name of the operator, if there is one."""
    skips = _skips(sum(skips_per_stage), kept_groups)
    decided = {operator.name for operator in skips}
    groups = (f'skip{number}' for number in itertools.count())
    segments = [Segment('pre', 'pre', scale[0] if scale else None, scale)]
    for stage, count in enumerate(skips_per_stage, 1):
        segments.append(
            Segment(f'stage{stage}', 'conv', 'width' if stage == 1 else None, (*scale, 'width'))
        )
        for name in itertools.islice(groups, count):
            operator = name if name in decided else None
            segments.append(Segment(name, 'conv', operator, (*scale, 'width')))
    return skips, segments


def _skips(groups: int, kept: Sequence[int]) -> list[Operator]:
    """An operator for each group of blocks that is not kept. A name has a digit for every group, so that it says the same
    whichever are kept: the 0 of a kept one is part of its neighbour's label."""
    free = [number for number in range(groups) if number not in kept]
    found = []
    for number, begin, end in zip(free, [0, *free[1:]], [*free[1:], groups]):
        before = '0' * (number - begin)
        after = '0' * (end - number - 1)
        labels = tuple(f'{before}{digit}{after}' for digit in '10')
        found.append(Operator(f'skip{number}', SKIP, ('skip', 'run'), 's', labels))
    return found


def check_choices(proposals: Sequence[int], **fractions: Sequence[float]) -> None:
    """Makes sure of what the operators of a detector can be set to.

    Args:
        proposals: numbers of proposals, ascending.
        fractions: by name, fractions that descend from 1, with two decimals at most.

    Raises:
        ValueError: one is empty or out of order, or a fraction does not survive in a path's name.
    """
    for name, values in fractions.items():
        if (
            not values
            or values[0] != 1.0
            or list(values) != sorted(set(values), reverse=True)
            or values[-1] <= 0
        ):
            raise ValueError(
                f'{name} is {tuple(values)}, expected fractions in (0, 1], descending from 1.0'
            )
        if any(round(value, 2) != value for value in values):
            raise ValueError(
                f'{name} is {tuple(values)}, expected at most two decimals, as in the names of paths'
            )
    if not proposals or list(proposals) != sorted(set(proposals)) or proposals[0] < 1:
        raise ValueError(
            f'proposals is {tuple(proposals)}, expected ascending counts of at least 1'
        )


def scale_of(path: ExecutionPath) -> float:
    """Fraction of the input's height and width that a path of a multi-path detector computes on, in (0, 1]."""
    return float(path['scale']) if 'scale' in path.space.place else 1.0


def check_sizes(size: tuple[int, int], scales: Sequence[float], most_px: int = 4096) -> None:
    """Makes sure of the sizes that a detector brings images to.

    Args:
        size: height and width in px of its largest input.
        scales: fractions of it, see `check_choices`.
        most_px: of a side.

    Raises:
        ValueError: a side is no multiple of 32 px or outside its range, or two scales give the same size.
    """
    if any(side % 32 for side in size) or not 64 <= min(size) <= max(size) <= most_px:
        raise ValueError(
            f'input_size is {reprlib.repr(size)} px, expected multiples of 32 from 64 to at most {most_px} px'
        )
    sizes = [scaled_size(size, scale) for scale in scales]
    if len(set(sizes)) < len(sizes) or min(size) * scales[-1] < 32:
        raise ValueError(
            f'scales is {scales}, of {size[0]}x{size[1]} px in multiples of 32 px these are {sizes}, expected '
            f'distinct sizes and sides of at least 32 px'
        )


def scaled_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """Height and width in px, multiples of 32 (the largest stride) of at least 32 nearest to a fraction of `size`."""
    height, width = (max(32, 32 * round(side * scale / 32)) for side in size)
    return height, width
