"""Layers of which a part of the channels is used, which part may change from frame to frame: ordinary kernels on it.

A layer knows to which groups of channels each axis of its weights belongs; a `Cut` says how many of every group are
kept, the first ones. What is used of the weights is a view; while gradients are off, one contiguous copy per cut is
kept, with a norm that follows a convolution folded in. Behind a concatenation the used columns are several stretches,
put side by side once. The multi-path detector, the nested classifier and elastic networks are built of these layers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Span:
    """A stretch of one axis of a weight that belongs to one group of channels.

    Attributes:
        group: number of the group.
        units: of the group, each kept or skipped as a whole.
        per_unit: length of one unit here.
    """

    group: int
    units: int
    per_unit: int = 1

    @property
    def size(self) -> int:
        """Length at full width."""
        return self.units * self.per_unit


class Cut(Protocol):
    """Which part of a layer is used.

    Attributes:
        kept: units kept, by group: the first ones.
        row: of weights that each setting has for itself.
        key: under which layers keep their weights laid out; None where they shall not.
    """

    @property
    def kept(self) -> Sequence[int]: ...
    @property
    def row(self) -> int: ...
    @property
    def key(self) -> Hashable: ...


Axes = Mapping[str, Mapping[int, Sequence[Span]]]
# Of a layer, in the order of `WEIGHTS`: tensors, and None for one that it does not have; a kernel takes more behind them.
Weights: TypeAlias = tuple[Any, ...]


def kept_ranges(spans: Sequence[Span], kept: Sequence[int]) -> list[tuple[int, int]]:
    """Where along an axis the values lie that are kept: begin and end of each stretch, neighbouring ones joined.

    Args:
        spans: one behind the other.
        kept: number of units kept, by group.
    """
    ranges: list[tuple[int, int]] = []
    offset = 0
    for span in spans:
        begin = offset
        end = offset + kept[span.group] * span.per_unit
        if ranges and ranges[-1][1] == begin:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((begin, end))
        offset += span.size
    return ranges


def joined(axis: int, pieces: list[Tensor]) -> Tensor | None:
    """Stretches of a weight side by side; the only one as it is; None for none."""
    if not pieces:
        return None
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, axis)


class SlicedLayer(nn.Module):
    """Weights of which a part is used.

    Args:
        axes: by name of the weight and by axis, what lies along it; axes that are not named are always used whole.
        layer: whose parameters and buffers are taken over, not copied; a layer without one makes its own.

    Attributes:
        WEIGHTS: names of the weights, in the order in which the kernel takes them.
        PER_SETTING: those of them that each setting has for itself, along axis 0.
        leaves: in the place of views, while a training step runs.
        dependants: of the laid-out weights, by key; they are dropped with these.
    """

    WEIGHTS: tuple[str, ...] = ('weight', 'bias')
    PER_SETTING: tuple[str, ...] = ()

    def __init__(self, axes: Axes, layer: nn.Module | None = None) -> None:
        super().__init__()
        if layer is not None:
            for name, parameter in layer._parameters.items():  # those that are None too
                self.register_parameter(name, parameter)
            for name, buffer in layer.named_buffers(recurse=False):
                self.register_buffer(name, buffer)
        self.axes = {
            name: {axis: tuple(spans) for axis, spans in of_weight.items()}
            for name, of_weight in axes.items()
        }
        self.leaves: Weights | None = None
        self._laid_out: dict[object, Weights] = {}
        self.dependants: dict[Hashable, object] = {}
        # torch has no types for it, nor for `_apply`.
        self.register_load_state_dict_post_hook(lambda module, keys: module.forget_copies())  # type: ignore[no-untyped-call]

    def forget_copies(self) -> None:
        """Drops laid-out weights, because the weights have changed or may."""
        self._laid_out.clear()
        self.dependants.clear()

    def train(self, mode: bool = True) -> SlicedLayer:
        """Sets training or evaluation mode."""
        self.forget_copies()
        return super().train(mode)

    def _apply(self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> SlicedLayer:
        self.forget_copies()
        return super()._apply(function, recurse)  # type: ignore[no-untyped-call]

    def used(self, cut: Cut, folded: Norm | None = None) -> Weights:
        """What the kernel takes after its input: first the weights that a cut uses.

        Args:
            cut: what is used.
            folded: a norm that a convolution takes into its weights.
        """
        if self.leaves is not None:
            return self._arguments(self.leaves)
        if torch.is_grad_enabled() or self.training or cut.key is None:
            return self._arguments(self._in_use(cut, folded))
        key = (cut.key, folded)
        found = self._laid_out.get(key)
        if found is None:
            parts = (
                None if part is None else _contiguous(part.detach())
                for part in self._in_use(cut, folded)
            )
            found = self._laid_out[key] = self._arguments(tuple(parts))
        return found

    def views(self, cut: Cut) -> Weights:
        """The weights that a cut uses as views of the parameters, through which gradients pass."""
        return tuple(joined(*self.pieces(name, cut)) for name in self.WEIGHTS)

    def pieces(self, name: str, cut: Cut) -> tuple[int, list[Tensor]]:
        """A weight's stretches that are used, as views, and the axis along which they are to be joined; none for a
        weight that the layer does not have."""
        weight = getattr(self, name, None)
        if weight is None:
            return 0, []
        axis_of_pieces = 0
        pieces = [weight]
        for axis, spans in self.axes.get(name, {}).items():
            ranges = kept_ranges(spans, cut.kept)
            if len(ranges) > 1:
                assert len(pieces) == 1, 'no layer reads and writes concatenated channels at once'
                axis_of_pieces = axis
            pieces = [
                piece.narrow(axis, begin, end - begin) for piece in pieces for begin, end in ranges
            ]
        if name in self.PER_SETTING:
            row = self.row(cut)
            return axis_of_pieces - 1, [piece[row] for piece in pieces]
        return axis_of_pieces, pieces

    def row(self, cut: Cut) -> int:
        """Number of the setting whose own weights a cut uses."""
        return cut.row

    def _in_use(self, cut: Cut, folded: Norm | None) -> Weights:
        """The weights as inference uses them."""
        return self.views(cut)

    def _arguments(self, weights: Weights) -> Weights:
        """What the kernel takes, the weights first."""
        return weights


def _contiguous(part: Tensor) -> Tensor:
    return (
        part.contiguous(memory_format=torch.channels_last) if part.dim() == 4 else part.contiguous()
    )


class Norm(SlicedLayer):
    """What may follow a convolution and have a cut in common with it.

    Attributes:
        folds: at present it only scales and shifts each channel, so that the convolution takes it into its weights.
    """

    folds = False

    def scale_and_shift(self, cut: Cut) -> tuple[Tensor, Tensor]:
        """What the norm does while it folds: factor and summand of each channel, `[c]` both."""
        raise NotImplementedError


class Convolution(SlicedLayer):
    """Convolution of one to three dimensions, with groups and dilation.

    Args:
        axes: see `SlicedLayer`.
        layer: `nn.Conv1d`, `nn.Conv2d` or `nn.Conv3d` that pads with zeros; see `SlicedLayer`.

    Attributes:
        function: its kernel.
        norm: what follows; where it is given, the layer computes both.
    """

    weight: Tensor
    _FUNCTIONS = (F.conv1d, F.conv2d, F.conv3d)

    def __init__(self, axes: Axes, layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> None:
        super().__init__(axes, layer)
        self.stride = layer.stride
        self.padding = layer.padding
        self.dilation = layer.dilation
        self.groups = layer.groups
        self.norm: Norm | None = None
        self.function = self._FUNCTIONS[len(self.stride) - 1]
        # One number for all axes is handed to the kernel 0.4 us faster than a tuple.
        self._geometry = [
            axes[0] if isinstance(axes, tuple) and len(set(axes)) == 1 else axes
            for axes in (self.stride, self.padding, self.dilation)
        ]

    def forward(
        self,
        x: Tensor,
        cut: Cut,
        norm: Norm | None = None,
    ) -> Tensor:
        """`[N, c, ...]` -> `[N, outputs, ...]`, both of the channels that the cut keeps.

        Args:
            x: features.
            cut: what is used.
            norm: what follows, in the place of the layer's own; one that folds costs nothing.
        """
        norm = norm or self.norm
        folded = norm if norm and norm.folds else None
        weight, bias, *geometry = self.used(cut, folded)
        if torch.is_grad_enabled() and self._reads_every_few_pixels:
            # The same values. oneDNN's own gradient writes past its memory for few channels (its issue 6035).
            x = x[tuple(slice(None, None, step) for step in (1, 1, *self.stride))]
            geometry[0] = 1
        y = self.function(x, weight, bias, *geometry)
        return norm(y, cut) if norm and not folded else y

    @property
    def _reads_every_few_pixels(self) -> bool:
        return max(self.stride) > 1 and not any(self.padding) and set(self.weight.shape[2:]) == {1}

    def _arguments(self, weights: Weights) -> Weights:
        groups = (self.groups * len(weights[0]) // len(self.weight),) if self.groups > 1 else ()
        return *weights, *self._geometry, *groups

    def _in_use(self, cut: Cut, folded: Norm | None) -> Weights:
        weight, bias = self.views(cut)
        if folded is None:
            return weight, bias
        scale, shift = folded.scale_and_shift(cut)
        shift = shift if bias is None else shift + bias * scale
        return (weight * scale.view(-1, *[1] * (weight.dim() - 1))).to(weight.dtype), shift.to(
            weight.dtype
        )


class Linear(SlicedLayer):
    """Fully connected layer over the last axis."""

    def forward(self, x: Tensor, cut: Cut) -> Tensor:
        """`[..., c]` -> `[..., outputs]`, both of the channels that the cut keeps."""
        return F.linear(x, *self.used(cut))
