"""The operators of a multi-path network: layers whose width is a prefix of their channels, Skip, Switch.

DynamicProposals, the fourth, lives in `proposals.py` beside the region proposal network it belongs to. What they can be
set to, `declaration.py` declares.
Source: multi-path paper, section V-A; width as a prefix of channels: nested-network thesis, SubFlow.
"""
from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.detector.configuration import DetectorConfig
from deadline_perception.execution_path import ExecutionPath


class _Sliced(nn.Module):
    """Keeps one contiguous copy of its weights per slice while gradients are off; training drops the copies."""

    def __init__(self) -> None:
        super().__init__()
        self._slices: dict[tuple[int, int], tuple[Tensor, ...]] = {}
        self.register_load_state_dict_post_hook(lambda module, keys: module._slices.clear())

    def train(self, mode: bool = True) -> nn.Module:
        self._slices.clear()
        return super().train(mode)

    def _apply(self, function, recurse: bool = True):
        self._slices.clear()
        return super()._apply(function, recurse)

    def sliced(self, outputs: int, inputs: int, *norm: SlicedFrozenNorm) -> tuple[Tensor, ...]:
        """The weights of the first `outputs` outputs and `inputs` inputs; of a convolution, with a norm folded in."""
        if torch.is_grad_enabled() or self.training:
            return self._cut(outputs, inputs, *norm)
        key = (outputs, inputs)
        if key not in self._slices:
            self._slices[key] = tuple(self._lay_out(part.detach()) for part in self._cut(outputs, inputs, *norm))
        return self._slices[key]

    @property
    def copied_bytes(self) -> int:
        """Memory of the copies that are kept beside the weights."""
        own = {parameter.untyped_storage().data_ptr() for parameter in self.parameters()}
        return sum(part.nbytes for parts in self._slices.values() for part in parts
                   if part.untyped_storage().data_ptr() not in own)

    @abstractmethod
    def _cut(self, outputs: int, inputs: int) -> tuple[Tensor, ...]:
        """The weights of a slice, as views."""

    @staticmethod
    def _lay_out(part: Tensor) -> Tensor:
        return part.contiguous(memory_format=torch.channels_last) if part.dim() == 4 else part.contiguous()


class SlicedConv2d(_Sliced):
    """Convolution that uses the first channels of its input and output.

    Args:
        inputs, outputs: channels at full width.
        kernel: odd side length of the kernel; padding keeps the size.
        stride: step in px.
        bias: adds one value per output channel.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        nn.init.kaiming_normal_(self.weight, mode='fan_out', nonlinearity='relu')
        self.stride = stride
        self.padding = kernel // 2

    def _cut(self, outputs: int, inputs: int, *norm: SlicedFrozenNorm) -> tuple[Tensor, ...]:
        weight = self.weight[:outputs, :inputs]
        parts = (weight,) if self.bias is None else (weight, self.bias[:outputs])
        return norm[0].folded_into(*parts) if norm else parts

    def forward(self, x: Tensor, outputs: int, norm: SlicedGroupNorm | SlicedFrozenNorm | None = None) -> Tensor:
        """`[N, c, H, W]` with any c up to the layer's inputs -> `[N, outputs, H / stride, W / stride]`.

        Args:
            x: features.
            outputs: channels to compute.
            norm: what follows, always the same one; a frozen one costs nothing, for it changes weights and bias.
        """
        folded = (norm,) if norm is not None and norm.folds else ()
        parts = self.sliced(outputs, x.shape[1], *folded)
        y = F.conv2d(x, parts[0], parts[1] if len(parts) > 1 else None, self.stride, self.padding)
        return y if norm is None or folded else norm(y)


class SlicedLinear(_Sliced):
    """Fully connected layer over `positions` x channels that uses the first channels and all its outputs.

    The features of one row are ordered position by position, the channels of a position together, so that a
    channels-last feature map is such a row without a copy.
    """

    def __init__(self, positions: int, channels: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, positions, channels))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.normal_(self.weight, std=(2.0 / (positions * channels)) ** 0.5)

    def _cut(self, outputs: int, inputs: int) -> tuple[Tensor, ...]:
        channels = inputs // self.weight.shape[1]
        return self.weight[:outputs, :, :channels].flatten(1), self.bias[:outputs]

    def forward(self, x: Tensor) -> Tensor:
        """`[N, positions * c]` with any c up to the layer's channels -> `[N, outputs]`."""
        weight, bias = self.sliced(len(self.weight), x.shape[1])
        return F.linear(x, weight, bias)


class SlicedNorm(_Sliced):
    """Scale and shift of every channel; each number of channels that is in use has its own, for statistics differ.

    Args:
        channels: channels at full width.
        widths: the fractions of the channels that will be used.
        gain: initial scale.

    Attributes:
        rows: row of `weight` and `bias`, by number of channels.
        folds: a convolution takes the norm into its own weights and bias.
    """

    folds = False

    def __init__(self, channels: int, widths: tuple[float, ...], *, gain: float = 1.0) -> None:
        super().__init__()
        self.rows = {round(channels * width): row for row, width in enumerate(widths)}
        self.weight = nn.Parameter(torch.full((len(widths), channels), gain))
        self.bias = nn.Parameter(torch.zeros(len(widths), channels))


class SlicedFrozenNorm(SlicedNorm):
    """Batch norm whose statistics no longer change, so that it is a scale and a shift, folded into a convolution.

    What they are, `learning.norm_statistics` measures; until then they are 0 and 1.

    Attributes:
        mean, deviation: of each channel before the norm, by rows as `weight`.
        folds: as in `SlicedNorm`; switched off while statistics are measured, in training mode.
    """

    def __init__(self, channels: int, widths: tuple[float, ...], *, gain: float = 1.0) -> None:
        super().__init__(channels, widths, gain=gain)
        self.folds = True
        self.register_buffer('mean', torch.zeros(len(widths), channels))
        self.register_buffer('deviation', torch.ones(len(widths), channels))

    def _cut(self, outputs: int, inputs: int) -> tuple[Tensor, ...]:
        row = self.rows[outputs]
        scale = self.weight[row, :outputs] / self.deviation[row, :outputs]
        return scale, self.bias[row, :outputs] - self.mean[row, :outputs] * scale

    def folded_into(self, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Weights `[O, I, k, k]` and bias `[O]` of a convolution that does what the given one and the norm do."""
        scale, shift = self._cut(len(weight), len(weight))
        shift = shift if bias is None else shift + bias * scale
        return (weight * scale.view(-1, 1, 1, 1)).to(weight.dtype), shift.to(weight.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, c, H, W]` -> the same shape; c is one of the layer's widths."""
        scale, shift = self.sliced(x.shape[1], x.shape[1])
        return x * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)


class SlicedGroupNorm(SlicedNorm):
    """Group norm whose groups hold a fixed number of channels, so that a prefix of channels keeps its groups.

    Args:
        channels, widths, gain: see `SlicedNorm`.
        group_channels: channels of one group.
    """

    def __init__(self, channels: int, group_channels: int, widths: tuple[float, ...], *, gain: float = 1.0) -> None:
        super().__init__(channels, widths, gain=gain)
        self.group_channels = group_channels

    def _cut(self, outputs: int, inputs: int) -> tuple[Tensor, ...]:
        row = self.rows[outputs]
        return self.weight[row, :outputs], self.bias[row, :outputs]

    def forward(self, x: Tensor) -> Tensor:
        """`[N, c, H, W]` -> the same shape; c is one of the layer's widths."""
        channels = x.shape[1]
        weight, bias = self.sliced(channels, channels)
        groups = channels // self.group_channels
        if not (x.is_cuda and torch.is_autocast_enabled('cuda')):
            return F.group_norm(x, groups, weight, bias)
        # Autocast would compute norms in float32 here and hand float32 features on, twice as much to move.
        with torch.autocast('cuda', enabled=False):
            return F.group_norm(x, groups, weight.to(x.dtype), bias.to(x.dtype))


def sliced_norm(config: DetectorConfig, channels: int, widths: tuple[float, ...], *, gain: float = 1.0) -> SlicedNorm:
    """The kind of norm that a configuration asks for, over so many channels at full width."""
    if config.norm == 'frozen':
        return SlicedFrozenNorm(channels, widths, gain=gain)
    return SlicedGroupNorm(channels, config.norm_group_size(channels), widths, gain=gain)


def weight_bytes(module: nn.Module) -> int:
    """Memory of a module's weights, with the copies of slices that the paths run so far have left."""
    copies = sum(layer.copied_bytes for layer in module.modules() if isinstance(layer, _Sliced))
    return copies + sum(parameter.nbytes for parameter in module.parameters())


class Skip(nn.Module):
    """A group of residual blocks that a path runs or leaves out; the shape stays the same either way.

    Args:
        name: of the skip operator.
        blocks: residual blocks that keep their input's shape.
    """

    def __init__(self, name: str, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.name = name
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor, path: ExecutionPath) -> Tensor:
        """Runs the blocks unless the path skips them; a skipped block is never computed."""
        if path[self.name] == 'skip':
            return x
        for block in self.blocks:
            x = block(x, x.shape[1])
        return x


class Switch(nn.Module):
    """Several subnets with weights of their own, of which a path runs exactly one.

    Nothing is shared between them, fully connected layers included (multi-path paper, section V-A).

    """

    def __init__(self, subnets: list[nn.Module]) -> None:
        super().__init__()
        self.subnets = nn.ModuleList(subnets)

    def forward(self, x: Tensor, path: ExecutionPath) -> tuple[Tensor, ...]:
        """Runs the path's subnet; the others are never computed."""
        return self.subnets[int(path['head'])](x)
