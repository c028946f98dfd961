"""What the shapes of all families of networks have in common: a name, and a record that JSON can hold."""

from __future__ import annotations

import json
import re
import reprlib
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from deadline_perception.core.execution_path import PathSpace

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,99}')  # it becomes part of file names


def check_name(name: object) -> None:
    """Makes sure that a name can be part of those of files.

    Raises:
        ValueError: it cannot.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f'name of the configuration is {reprlib.repr(name)}, expected at most 100 letters, digits and '
            f'. _ -'
        )


@dataclass(frozen=True)
class Shape:
    """The base of the frozen records that decide a network's shape.

    Attributes:
        name: what it is called, also in the names of files; letters, digits, dots, dashes and underscores.
        network, outline: `module:class` of what has the shape, with and without its layers.
    """

    name: str
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

    Raises:
        ValueError: there is no fully connected layer, or a count lies outside its range.
    """

    convolutions: int
    fully_connected: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.convolutions < 0:
            raise ValueError(f'convolutions of a head is {self.convolutions}, expected at least 0')
        if not self.fully_connected or min(self.fully_connected) < 1:
            raise ValueError(
                f'fully_connected of a head is {self.fully_connected}, expected widths of at least 1'
            )


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
