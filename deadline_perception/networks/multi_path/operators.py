"""The operators of a multi-path network: layers whose width is a prefix of their channels, Skip, Switch.

DynamicProposals, the fourth, lives beside the first stage it belongs to. What they can be
set to, `declaration.py` declares; how weights are cut, laid out and joined with norms, `engines/sliced_layers.py`.
Source: multi-path paper, section V-A; width as a prefix of channels: nested-network thesis, SubFlow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines import sliced_layers as sliced
from deadline_perception.engines.sliced_layers import Cut, Span

Part = TypeVar('Part', bound=nn.Module)
if TYPE_CHECKING:

    class Layers(nn.ModuleList, Generic[Part]):
        """`nn.ModuleList` that knows what it holds."""

        def __init__(self, layers: Iterable[Part] = ()) -> None: ...
        def __iter__(self) -> Iterator[Part]: ...
        def __getitem__(self, place: int) -> Part: ...  # type: ignore[override]  # nobody takes slices
else:
    Layers = nn.ModuleList


class Prefix(NamedTuple):
    """A `Cut` of one layer, whose groups are its outputs and, where it joins channels, its inputs."""

    kept: tuple[int, ...]
    key: tuple[int, ...]
    row: int = 0  # a norm's follows from its channels


@cache
def prefix(*channels: int) -> Prefix:
    """The cut of the first channels, so many of each group."""
    return Prefix(channels, channels)


class _Unset(nn.Conv2d):
    """Has weights that are yet to be set."""

    def reset_parameters(self) -> None:
        """Draws no numbers for them."""


class SlicedConv2d(sliced.Convolution):
    """Convolution that uses the first channels of its input and output.

    Args:
        inputs, outputs: channels at full width.
        kernel: odd side length of the kernel; padding keeps the size.
        stride: step in px.
        groups: 1, or as many as channels: each is convolved for itself.
        bias: adds one value per output channel.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        made = {0: (Span(0, outputs),)}
        read = {1: (Span(1, inputs),)} if groups == 1 else {}
        padding = kernel // 2
        layer = _Unset(inputs, outputs, kernel, stride, padding, groups=groups, bias=bias)
        super().__init__({'weight': {**made, **read}, 'bias': made}, layer)
        if bias:
            nn.init.zeros_(self.get_parameter('bias'))
        nn.init.kaiming_normal_(self.weight, mode='fan_out', nonlinearity='relu')

    # A number of channels stands for the cut.
    def forward(
        self,
        x: Tensor,
        outputs: int,  # type: ignore[override]
        norm: SlicedNorm | None = None,  # type: ignore[override]
    ) -> Tensor:
        """`[N, c, H, W]` with any c up to the layer's inputs -> `[N, outputs, H / stride, W / stride]`.

        Args:
            x: features.
            outputs: channels to compute.
            norm: what follows; a frozen one costs nothing, for it changes weights and bias.
        """
        return super().forward(x, prefix(outputs, x.shape[1]), norm)


class SlicedLinear(sliced.Linear):
    """Fully connected layer over `positions` x channels that uses the first channels and all its outputs.

    The features of one row are ordered position by position, the channels of a position together, so that a
    channels-last feature map is such a row without a copy.
    """

    def __init__(
        self,
        positions: int,
        channels: int,
        outputs: int,
    ) -> None:
        super().__init__({'weight': {0: (Span(0, outputs),), 2: (Span(1, channels),)}})
        self.weight = nn.Parameter(torch.empty(outputs, positions, channels))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.normal_(self.weight, std=(2.0 / (positions * channels)) ** 0.5)
        self._outputs = outputs
        self._positions = positions

    # The cut follows from the features.
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """`[N, positions * c]` with any c up to the layer's channels -> `[N, outputs]`."""
        return super().forward(x, prefix(self._outputs, x.shape[1] // self._positions))

    def views(self, cut: Cut) -> tuple[Tensor, Tensor]:
        """See `SlicedLayer`; positions and channels on one axis."""
        weight, bias = super().views(cut)
        return weight.flatten(1), bias


class SlicedNorm(sliced.Norm):
    """Scale and shift of every channel; each number of channels that is in use has its own, for statistics differ.

    Args:
        channels: channels at full width.
        widths: the fractions of the channels that will be used.

    Attributes:
        rows: row of `weight` and `bias`, by number of channels.
    """

    PER_SETTING = ('weight', 'bias', 'mean', 'deviation')

    def __init__(
        self,
        channels: int,
        widths: tuple[float, ...],
    ) -> None:
        sliced.SlicedLayer.__init__(self, dict.fromkeys(self.WEIGHTS, {1: (Span(0, channels),)}))
        self.rows = {round(channels * width): row for row, width in enumerate(widths)}
        self.weight = nn.Parameter(torch.ones(len(widths), channels))
        self.bias = nn.Parameter(torch.zeros(len(widths), channels))

    def row(self, cut: Cut) -> int:
        """See `SlicedLayer`."""
        return self.rows[cut.kept[0]]


class SlicedFrozenNorm(SlicedNorm):
    """Batch norm whose statistics no longer change, so that it is a scale and a shift, folded into a convolution.

    What they are, `training.norm_statistics` measures; until then they are 0 and 1.

    Attributes:
        mean, deviation: of each channel before the norm, by rows as `weight`.
        folds: as in `Norm`; switched off while statistics are measured, in training mode.
    """

    mean: Tensor
    deviation: Tensor
    WEIGHTS = SlicedNorm.PER_SETTING

    def __init__(
        self,
        channels: int,
        widths: tuple[float, ...],
    ) -> None:
        super().__init__(channels, widths)
        self.folds = True
        self.register_buffer('mean', torch.zeros(len(widths), channels))
        self.register_buffer('deviation', torch.ones(len(widths), channels))

    def scale_and_shift(self, cut: Cut) -> tuple[Tensor, Tensor]:
        """See `Norm`."""
        weight, bias, mean, deviation = self.views(cut)
        scale = weight / deviation
        return scale, bias - mean * scale

    def _in_use(self, cut: Cut, folded: sliced.Norm | None) -> tuple[Tensor, Tensor]:
        return self.scale_and_shift(cut)

    def forward(self, x: Tensor, cut: Cut | None = None) -> Tensor:
        """`[N, c, H, W]` -> the same shape; c is one of the layer's widths. The cut follows from it."""
        scale, shift = self.used(prefix(x.shape[1]))
        return x * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)


class Skip(nn.Module, Generic[Part]):
    """A group of residual blocks that a path runs or leaves out; the shape stays the same either way.

    Args:
        name: of the skip operator.
        blocks: residual blocks that keep their input's shape.
    """

    def __init__(self, name: str, blocks: Sequence[Part]) -> None:
        super().__init__()
        self.name = name
        self.blocks = Layers(blocks)

    def forward(self, x: Tensor, path: ExecutionPath) -> Tensor:
        """Runs the blocks unless the path skips them; a skipped block is never computed."""
        if self.name in path.space.place and path[self.name] == 'skip':
            return x
        for block in self.blocks:
            x = block(x, path['width'])
        return x


class Switch(nn.Module, Generic[Part]):
    """Several subnets with weights of their own, of which a path runs exactly one.

    Nothing is shared between them, fully connected layers included (multi-path paper, section V-A).
    """

    def __init__(self, subnets: Sequence[Part]) -> None:
        super().__init__()
        self.subnets = Layers(subnets)
