"""The shape of a YOLOX-Nano: which sizes of its input can be chosen, and what its classes mean."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from deadline_perception.core.decoding import Number
from deadline_perception.core.execution_path import SCALE, Operator, PathSpace, Segment
from deadline_perception.networks.multi_path.declaration import check_choices, check_sizes
from deadline_perception.networks.multi_path.shape import Shape

STRIDES = (8, 16, 32)
_MOST_SOURCES = 10_000


@dataclass(frozen=True)
class YoloxConfig(Shape):
    """Everything that decides the shape of a YOLOX-Nano.

    Attributes:
        name: see `Shape`.
        input_size: height and width in px of the largest input, multiples of 32.
        scales: fractions of `input_size` to choose from, descending from 1, two decimals at most.
        sources: for each class of the answer, the classes of the weights that it stands for, at least one. The
            weights hold these alone, in this order.
        activation: of all convolutions, `silu`, or `hard_swish`, which takes less time (research/first_look).

    Raises:
        ValueError: a value lies outside its range.
    """

    input_size: tuple[int, int]
    scales: tuple[Number, ...]
    sources: tuple[tuple[str, ...], ...]
    activation: Literal['silu', 'hard_swish'] = 'silu'

    network = 'deadline_perception.networks.yolox.network:YoloxDetector'
    outline = 'deadline_perception.networks.yolox.outline:YoloxOutline'

    def __post_init__(self) -> None:
        names = [name for of_class in self.sources for name in of_class]
        if not all(self.sources) or not 0 < len(set(names)) == len(names) <= _MOST_SOURCES:
            raise ValueError(
                f'sources are {reprlib.repr(self.sources)}, expected 1 to {_MOST_SOURCES} distinct '
                f'names, at least one of each class'
            )
        check_choices((1,), scales=self.scales)
        check_sizes(self.input_size, self.scales)

    @property
    def identity(self) -> dict[str, Any]:
        """What execution times depend on: all but the names."""
        return {
            'input_size': self.input_size,
            'scales': self.scales,
            'sources': [len(of_class) for of_class in self.sources],
            **({} if self.activation == 'silu' else {'activation': self.activation}),
        }

    @cached_property
    def path_space(self) -> PathSpace:
        """One operator: the size of the input, decided before the image is resized."""
        scale = Operator('scale', SCALE, tuple(map(float, reversed(self.scales))), 'r')
        parts = (('backbone', 'conv'), ('neck', 'conv'), ('head', 'head'), ('post', 'post'))
        segments = (
            Segment('pre', 'pre', 'scale', ('scale',)),
            *(Segment(name, phase, None, ('scale',)) for name, phase in parts),
        )
        return PathSpace((scale,), segments)
