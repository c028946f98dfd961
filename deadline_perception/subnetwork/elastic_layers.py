"""Layers of which a sub-network uses the first channels: ordinary kernels on a prefix of the weights.

A layer takes over the weights of an ordinary one and knows to which groups of channels each axis of them belongs. What
a sub-network uses of them is a view; while gradients are off, one contiguous copy per setting is kept, with a norm that
follows a convolution folded in. Behind a concatenation the used columns are several stretches, put side by side once.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.subnetwork.activation import Activation
from deadline_perception.subnetwork.channel_groups import Span, kept_ranges

Axes = Mapping[str, Mapping[int, Sequence[Span]]]


class FixedCall:
    """A layer's kernel with the weights of one sub-network.

    Args:
        function: kernel.
        arguments: that follow the input.
    """

    def __init__(self, function: Callable[..., Tensor], *arguments: object) -> None:
        self._function, self._arguments = function, arguments

    def __call__(self, x: Tensor, activation: Activation) -> Tensor:
        """See the layer's `forward`."""
        return self._function(x, *self._arguments)


class ElasticLayer(nn.Module):
    """Weights of which a sub-network uses a part.

    Args:
        layer: whose parameters and buffers are taken over, not copied.
        axes: by name of the weight and by axis, what lies along it; axes that are not named are always used whole.

    Attributes:
        dependants: of the laid-out weights, by setting; they are dropped with these.
    """

    WEIGHTS = ('weight', 'bias')

    def __init__(self, layer: nn.Module, axes: Axes) -> None:
        super().__init__()
        for name, parameter in layer.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in layer.named_buffers(recurse=False):
            self.register_buffer(name, buffer)
        self.axes = {name: {axis: tuple(spans) for axis, spans in of_weight.items()} for name, of_weight in axes.items()}
        self.leaves: tuple[Tensor | None, ...] | None = None  # in the place of views, while a training step runs
        self._laid_out: dict[int, tuple[Tensor | None, ...]] = {}
        self.dependants: dict[int, object] = {}
        self.register_load_state_dict_post_hook(lambda module, keys: module.forget_copies())

    def forget_copies(self) -> None:
        """Drops laid-out weights, because the weights have changed or may."""
        self._laid_out.clear()
        self.dependants.clear()

    def train(self, mode: bool = True) -> ElasticLayer:
        """Sets training or evaluation mode."""
        self.forget_copies()
        return super().train(mode)

    def _apply(self, function, recurse: bool = True):
        self.forget_copies()
        return super()._apply(function, recurse)

    def used(self, activation: Activation) -> tuple[Tensor | None, ...]:
        """The weights that a sub-network uses, in the order of `WEIGHTS`; None for one that the layer does not have."""
        if self.leaves is not None:
            return self.leaves
        if not self.weights_are_fixed:
            return self.views(activation)
        if not activation.is_setting:
            return self._in_use(activation)
        found = self._laid_out.get(activation.row)
        if found is None:
            found = self._laid_out[activation.row] = tuple(
                None if part is None else _contiguous(part.detach()) for part in self._in_use(activation))
        return found

    def fixed(self, activation: Activation) -> Callable[..., Tensor]:
        """What computes the layer for one setting in inference, without looking for its weights in every frame."""
        return self.forward

    @property
    def weights_are_fixed(self) -> bool:
        """True in inference."""
        return not (torch.is_grad_enabled() or self.training)

    def views(self, activation: Activation) -> tuple[Tensor | None, ...]:
        """The same as views of the parameters, through which gradients pass."""
        return tuple(joined(*self.pieces(name, activation)) for name in self.WEIGHTS)

    def pieces(self, name: str, activation: Activation) -> tuple[int, list[Tensor]]:
        """A weight's stretches that are used, as views, and the axis along which they are to be joined; none for a
        weight that the layer does not have."""
        weight = getattr(self, name, None)
        if weight is None:
            return 0, []
        axis_of_pieces, pieces = 0, [weight]
        for axis, spans in self.axes.get(name, {}).items():
            ranges = kept_ranges(spans, activation.kept)
            if len(ranges) > 1:
                assert len(pieces) == 1, 'no layer reads and writes concatenated channels at once'
                axis_of_pieces = axis
            pieces = [piece.narrow(axis, begin, end - begin) for piece in pieces for begin, end in ranges]
        return axis_of_pieces, pieces

    def reorder(self, orders: Sequence[Tensor]) -> None:
        """Puts units of every group into another order, along all axes.

        Args:
            orders: by group, int64 `[units]`: the old number of the unit at each place.
        """
        with torch.no_grad():
            for name, of_weight in self.axes.items():
                weight = getattr(self, name, None)
                for axis, spans in of_weight.items() if weight is not None else ():
                    places, offset = [], 0
                    for span in spans:
                        units = orders[span.group].to(weight.device)[:, None] * span.per_unit
                        places.append((units + torch.arange(span.per_unit, device=weight.device)).flatten() + offset)
                        offset += span.size
                    weight.copy_(weight.index_select(axis, torch.cat(places)))
        self.forget_copies()

    def _in_use(self, activation: Activation) -> tuple[Tensor | None, ...]:
        """The weights as inference uses them."""
        return self.views(activation)


def joined(axis: int, pieces: list[Tensor]) -> Tensor | None:
    """Stretches of a weight side by side; the only one as it is."""
    if not pieces:
        return None
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, axis)


def _contiguous(part: Tensor) -> Tensor:
    return part.contiguous(memory_format=torch.channels_last) if part.dim() == 4 else part.contiguous()


class ElasticConvolution(ElasticLayer):
    """Convolution of one to three dimensions, with groups and dilation.

    Args:
        layer: `nn.Conv1d`, `nn.Conv2d` or `nn.Conv3d` that pads with zeros.
        axes: see `ElasticLayer`.

    Attributes:
        norm: what follows; where it is given, the layer computes both.
    """

    _FUNCTIONS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}

    def __init__(self, layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, axes: Axes) -> None:
        super().__init__(layer, axes)
        self.stride, self.padding, self.dilation, self.groups = layer.stride, layer.padding, layer.dilation, layer.groups
        self.norm: ElasticBatchNorm | None = None

    def forward(self, x: Tensor, activation: Activation) -> Tensor:
        """`[N, c, ...]` -> `[N, outputs, ...]`, both of the channels that the sub-network keeps."""
        y = self.fixed(activation)(x, activation)
        if self.norm is None or (self.weights_are_fixed and self.leaves is None):
            return y
        return self.norm(y, activation)

    def fixed(self, activation: Activation) -> FixedCall:
        """See `ElasticLayer`."""
        weight, bias = self.used(activation)
        groups = self.groups if self.groups == 1 else self.groups * len(weight) // len(self.weight)
        return FixedCall(self._FUNCTIONS[weight.dim()], weight, bias, self.stride, self.padding, self.dilation, groups)

    @property
    def weights_are_fixed(self) -> bool:
        """See `ElasticLayer`; the norm's are folded in."""
        return super().weights_are_fixed and (self.norm is None or self.norm.weights_are_fixed)

    def _in_use(self, activation: Activation) -> tuple[Tensor | None, ...]:
        weight, bias = self.views(activation)
        if self.norm is None:
            return weight, bias
        scale, shift = self.norm.scale_and_shift(activation)
        shift = shift if bias is None else shift + bias * scale
        return weight * scale.view(-1, *[1] * (weight.dim() - 1)), shift


class ElasticLinear(ElasticLayer):
    """Fully connected layer over the last axis."""

    def forward(self, x: Tensor, activation: Activation) -> Tensor:
        """`[..., c]` -> `[..., outputs]`, both of the channels that the sub-network keeps."""
        return F.linear(x, *self.used(activation))

    def fixed(self, activation: Activation) -> FixedCall:
        """See `ElasticLayer`."""
        return FixedCall(F.linear, *self.used(activation))


class ElasticBatchNorm(ElasticLayer):
    """Batch norm whose statistics each setting has for itself: what a channel receives depends on those left out.

    Args:
        layer: `nn.BatchNorm1d`, `2d` or `3d` with statistics, or torchvision's `FrozenBatchNorm2d`.
        axes: see `ElasticLayer`; of `running_mean` and `running_var` too, whose axis 0 are the settings here.
        settings: number of settings.

    Attributes:
        batches: that have passed in training mode, whose mean the statistics become; None where they follow the batches
            by the norm's momentum.
    """

    WEIGHTS = ('weight', 'bias', 'running_mean', 'running_var')

    def __init__(self, layer: nn.Module, axes: Axes, settings: int) -> None:
        super().__init__(layer, axes)
        self.eps, self.momentum = layer.eps, getattr(layer, 'momentum', None) or 0.1
        self.batches: int | None = None
        for name in ('running_mean', 'running_var'):
            self.register_buffer(name, getattr(layer, name).detach().repeat(settings, 1))

    def pieces(self, name: str, activation: Activation) -> tuple[int, list[Tensor]]:
        """See `ElasticLayer`; of the statistics those of the sub-network's setting."""
        axis, pieces = super().pieces(name, activation)
        return (axis - 1, [piece[activation.row] for piece in pieces]) if name.startswith('running') else (axis, pieces)

    def forward(self, x: Tensor, activation: Activation) -> Tensor:
        """`[N, c, ...]` -> the same shape."""
        weight, bias, mean, variance = self.used(activation)
        if not self.training or x.numel() == x.shape[1]:  # one value has no variance
            return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, self.eps)
        y = F.batch_norm(x, None, None, weight, bias, True, 0.0, self.eps)
        momentum = self.momentum if self.batches is None else 1.0 / (self.batches + 1)
        self.batches = None if self.batches is None else self.batches + 1
        with torch.no_grad():
            axes = [axis for axis in range(x.dim()) if axis != 1]
            for name, seen in (('running_mean', x.mean(axes)), ('running_var', x.var(axes))):
                offset = 0
                for piece in self.pieces(name, activation)[1]:
                    piece.lerp_(seen[offset:offset + len(piece)], momentum)
                    offset += len(piece)
        return y

    def scale_and_shift(self, activation: Activation) -> tuple[Tensor, Tensor]:
        """What the norm does in inference: factor and summand of each channel, `[c]` both."""
        weight, bias, mean, variance = self.views(activation)
        scale = torch.rsqrt(variance + self.eps) * (1.0 if weight is None else weight)
        return scale, (0.0 if bias is None else bias) - mean * scale


class ElasticGroupNorm(ElasticLayer):
    """Group norm of which whole groups are kept, so that each keeps its statistics."""

    def __init__(self, layer: nn.GroupNorm, axes: Axes) -> None:
        super().__init__(layer, axes)
        self.eps, self.groups, self.channels = layer.eps, layer.num_groups, layer.num_channels

    def forward(self, x: Tensor, activation: Activation) -> Tensor:
        """`[N, c, ...]` -> the same shape."""
        weight, bias = self.used(activation)
        return F.group_norm(x, max(1, self.groups * x.shape[1] // self.channels), weight, bias, self.eps)


class ElasticLayerNorm(ElasticLayer):
    """Layer norm; its statistics are those of the channels that are kept.

    Args:
        layer: `nn.LayerNorm`, or torchvision's `LayerNorm2d`, which normalises axis 1.
        axes: see `ElasticLayer`.
        channels_first: it normalises axis 1 instead of the last ones.
    """

    def __init__(self, layer: nn.LayerNorm, axes: Axes, channels_first: bool) -> None:
        super().__init__(layer, axes)
        self.eps, self.axis_count, self.channels_first = layer.eps, len(layer.normalized_shape), channels_first

    def forward(self, x: Tensor, activation: Activation) -> Tensor:
        """`[..., c]`, or `[N, c, H, W]` with the channels first -> the same shape."""
        if self.channels_first:
            x = x.permute(0, 2, 3, 1)
        y = F.layer_norm(x, x.shape[-self.axis_count:], *self.used(activation), self.eps)
        return y.permute(0, 3, 1, 2) if self.channels_first else y


class ElasticParameter(ElasticLayer):
    """A parameter that takes part in a sum or a product, such as the scale of a residual branch."""

    WEIGHTS = ('weight',)

    def __init__(self, parameter: nn.Parameter, axes: Axes) -> None:
        holder = nn.Module()
        holder.weight = parameter
        super().__init__(holder, axes)

    def forward(self, activation: Activation) -> Tensor:
        """The part that is used."""
        return self.used(activation)[0]
