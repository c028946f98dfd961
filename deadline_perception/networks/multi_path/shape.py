"""What the shapes of all families of networks have in common: a name, and a record that JSON can hold."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from deadline_perception.core.decoding import Count, Positive
from deadline_perception.core.execution_path import PathSpace

Name = Annotated[str, Meta(pattern=r'^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z')]  # part of file names


@dataclass(frozen=True)
class Shape:
    """The base of the frozen records that decide a network's shape, whose types have ranges for what a file holds.

    Attributes:
        name: what it is called, also in the names of files; letters, digits, dots, dashes and underscores.
        network, outline: `module:class` of what has the shape, with and without its layers.
    """

    name: Name
    network: ClassVar[str]
    outline: ClassVar[str]

    @property
    def record(self) -> dict[str, Any]:
        """All attributes as plain dicts, lists and numbers."""
        return asdict(self)

    def to_json(self) -> str:
        """One JSON object with a line per attribute; `read_shape` reads it."""
        lines = [
            f'  {json.dumps(name)}: {json.dumps(value)}' for name, value in self.record.items()
        ]
        return '{\n' + ',\n'.join(lines) + '\n}\n'


@dataclass(frozen=True)
class HeadConfig:
    """One subnet of the switch.

    Attributes:
        convolutions: number of 3x3 convolutions before the fully connected layers.
        fully_connected: width of each fully connected layer, at least one.
    """

    convolutions: Count
    fully_connected: Annotated[tuple[Positive, ...], Meta(min_length=1)]


class DetectorShape(Shape, ABC):
    """The shape of a multi-path detector, of whatever family, and with it its execution time.

    Attributes:
        input_size: height and width in px of its largest input, multiples of 32.
        heads: subnets of the switch, the cheapest first.
        norm: `frozen`, folded into the convolution before it, or another of the family.
    """

    input_size: tuple[int, int]
    heads: tuple[HeadConfig, ...]
    norm: str

    @property
    @abstractmethod
    def path_space(self) -> PathSpace:
        """The legal execution paths."""

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """All attributes but those that came with a later version and are at their default."""
