"""Which paths a training step runs: the four strategies of the multi-path paper, and one that trains several paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deadline_perception.core.execution_path import SKIP, ExecutionPath, PathSpace


@dataclass(frozen=True)
class TrainedPath:
    """A path of one training step and the heads that are trained on its regions.

    Attributes:
        path: what runs; its `head` does not matter here.
        heads: the heads to train, each with a loss of its own.
        distillation_weight: weight of the teacher's output in this path's targets, in [0, 1]; the rest is the ground
            truth. The teacher is the first head of the step's first path.
        aggregated: the mean of the heads' outputs has one loss instead.
    """

    path: ExecutionPath
    heads: tuple[int, ...]
    distillation_weight: float = 0.0
    aggregated: bool = False


class Strategy(Protocol):
    """Chooses the paths of every training step."""

    def paths(
        self, space: PathSpace, progress: float, generator: np.random.Generator
    ) -> list[TrainedPath]:
        """Paths of the step at `progress`, the share of all steps that are done, in [0, 1); at least one."""


@dataclass(frozen=True)
class Sandwich:
    """The largest path alone first; then in every step the largest, a random one, and the smallest, distilled from it.

    Universally slimmable networks (Yu and Huang 2019, sections 3.2 and 3.3) train the largest, the smallest and
    random widths in every step, and let the largest teach the others; here the operators of a path take the place of
    widths, and the teacher's output is mixed with the ground truth. A drawn path is trained on the regions among its
    own number of proposals; the smallest, on all that the largest proposed.

    Attributes:
        alone_share: share of the steps that train the largest path alone, in [0, 1].
        distillation_weight: weight of the teacher's output in the targets of the other paths and heads, in [0, 1].

    Raises:
        ValueError: a share lies outside its range.
    """

    alone_share: float = 0.25
    distillation_weight: float = 0.5

    def __post_init__(self) -> None:
        for name in ('alone_share', 'distillation_weight'):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f'{name} is {getattr(self, name)}, expected a share in [0, 1]')

    def paths(
        self, space: PathSpace, progress: float, generator: np.random.Generator
    ) -> list[TrainedPath]:
        """See `Strategy`; the largest path comes first, with its own head first."""
        top = len(space.operator('head').settings) - 1
        heads = (top, int(generator.integers(top))) if top else (top,)
        if progress < self.alone_share:
            return [TrainedPath(space.largest, heads)]
        # Fewer skipped blocks at one draw, more at another: the paths that a frontier is made of.
        drawn = draw_path(space, generator, skip_share=generator.random())
        return [
            TrainedPath(space.largest, heads, self.distillation_weight),
            TrainedPath(drawn, tuple(sorted({int(drawn['head']), 0})), self.distillation_weight),
            # Few regions would teach it little, and more cost it little.
            TrainedPath(
                space.smallest.replace(proposals=space.operator('proposals').settings[-1]),
                (0,),
                self.distillation_weight,
            ),
        ]


@dataclass(frozen=True)
class OnePath:
    """One path in every step (multi-path paper, section V-C).

    The paper knows no widths and draws no number of proposals; here they are drawn where skips are, since they too
    leave out part of the work.

    Attributes:
        random_skipping: draw what is skipped, the widths, the scale and the proposals; without, nothing is skipped.
        random_switching: draw the one head that runs; without, all heads run and their outputs are averaged.
    """

    random_skipping: bool
    random_switching: bool

    def paths(
        self, space: PathSpace, progress: float, generator: np.random.Generator
    ) -> list[TrainedPath]:
        """See `Strategy`."""
        path = (
            draw_path(space, generator, skip_share=0.5) if self.random_skipping else space.largest
        )
        heads = len(space.operator('head').settings)
        if self.random_switching:
            return [TrainedPath(path, (int(generator.integers(heads)),))]
        return [TrainedPath(path, tuple(range(heads)), aggregated=True)]


@dataclass(frozen=True)
class Alone:
    """One path in every step and nothing else, as a network of that shape without operators would be trained.

    Attributes:
        path: what runs, its head with it.
    """

    path: ExecutionPath

    def paths(
        self, space: PathSpace, progress: float, generator: np.random.Generator
    ) -> list[TrainedPath]:
        """See `Strategy`."""
        return [TrainedPath(self.path, (int(self.path['head']),))]


STRATEGIES: dict[str, Strategy] = {
    'ns-ns': OnePath(False, False),
    'rs-ns': OnePath(True, False),
    'ns-rs': OnePath(False, True),
    'rs-rs': OnePath(True, True),
    'sandwich': Sandwich(),
}


def find_strategy(name: str, space: PathSpace) -> Strategy:
    """One of `STRATEGIES`, or that of a path alone, such as `alone:s000-w1.00-p100-h1`.

    Raises:
        ValueError: no strategy has that name, or the path is not one of the space.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    if not name.startswith('alone:'):
        raise ValueError(
            f'strategy is {name!r}, expected one of {", ".join(STRATEGIES)} or alone:PATH'
        )
    return Alone(space.parse(name.removeprefix('alone:')))


def draw_path(space: PathSpace, generator: np.random.Generator, skip_share: float) -> ExecutionPath:
    """A random path; each skip operator skips with a probability of its own, other settings are equally probable."""
    settings = [
        int(generator.random() >= skip_share)
        if operator.kind == SKIP
        else int(generator.integers(len(operator.settings)))
        for operator in space.operators
    ]
    return ExecutionPath(tuple(settings), space)
