"""Which paths a training step runs."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadline_perception.execution_path import ExecutionPath, PathSpace


@dataclass(frozen=True)
class TrainedPath:
    """A path of one training step and the heads that are trained on its regions, each with its own loss."""

    path: ExecutionPath
    heads: tuple[int, ...]


@dataclass(frozen=True)
class Sandwich:
    """The largest path alone first, then the largest, and a random or the smallest one in every step.

    Universally slimmable networks (Yu and Huang 2019, section 3.2) train the largest, the smallest and random widths
    in every step; here the operators of a path take the place of widths.

    Attributes:
        alone_share: share of the steps that train the largest path alone, in [0, 1).
        smallest_share: share of the other steps whose second path is the smallest, in [0, 1].
    """

    alone_share: float = 0.25
    smallest_share: float = 0.25

    def paths(self, space: PathSpace, progress: float, generator: np.random.Generator) -> list[TrainedPath]:
        """Paths of the step at `progress`, the share of all steps that are done, in [0, 1)."""
        largest = space.largest
        top = space.heads - 1
        other = int(generator.integers(top)) if top else None
        first = TrainedPath(largest, (top,) if other is None else (top, other))
        if progress < self.alone_share:
            return [first]
        if generator.random() < self.smallest_share:
            second = space.smallest
        else:
            # Fewer skipped blocks at wide widths, more at narrow ones: the paths that a frontier is made of.
            share = generator.random()
            second = ExecutionPath(tuple(generator.random(space.skips) < share),
                                   float(generator.choice(space.widths)), space.proposals[-1],
                                   int(generator.integers(space.heads)), float(generator.choice(space.pyramid_widths)))
        return [first, TrainedPath(second, tuple({second.head, 0}))]
