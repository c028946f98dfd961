"""Layers that only elastic networks have, and what stands for each ordinary one; the others are in
`engines/sliced_layers.py`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.engines import sliced_layers as sliced
from deadline_perception.extras.elastic.activation import Activation
from deadline_perception.extras.sliced_group_norm import GroupNorm


class ElasticBatchNorm(sliced.Norm):
    """Batch norm whose statistics each setting has for itself: what a channel receives depends on those skipped.

    Args:
        axes: see `SlicedLayer`; of `running_mean` and `running_var` too, whose axis 0 are the settings here.
        layer: `nn.BatchNorm1d`, `2d` or `3d` with statistics, or torchvision's `FrozenBatchNorm2d`.

    Attributes:
        batches: that have passed in training mode, whose mean the statistics become; None where they follow the batches
            by the norm's momentum.
    """

    PER_SETTING = ('running_mean', 'running_var')
    WEIGHTS = ('weight', 'bias', *PER_SETTING)

    def __init__(self, axes: sliced.Axes, layer: nn.Module, settings: int) -> None:
        super().__init__(axes, layer)
        self.eps, self.momentum = layer.eps, getattr(layer, 'momentum', None) or 0.1
        self.batches: int | None = None
        for name in self.PER_SETTING:
            self.register_buffer(name, getattr(layer, name).detach().repeat(settings, 1))

    @property
    def folds(self) -> bool:
        """See `Norm`: in inference."""
        return weights_are_fixed(self) and self.leaves is None

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
            for name, seen in zip(self.PER_SETTING, (x.mean(axes), x.var(axes))):
                offset = 0
                for piece in self.pieces(name, activation)[1]:
                    piece.lerp_(seen[offset : offset + len(piece)], momentum)
                    offset += len(piece)
        return y

    def scale_and_shift(self, activation: Activation) -> tuple[Tensor, Tensor]:
        """See `Norm`."""
        weight, bias, mean, variance = self.views(activation)
        scale = torch.rsqrt(variance + self.eps) * (1.0 if weight is None else weight)
        return scale, (0.0 if bias is None else bias) - mean * scale


class ElasticLayerNorm(sliced.SlicedLayer):
    """`nn.LayerNorm`, or torchvision's `LayerNorm2d`, which normalises axis 1, by the channels that are kept."""

    def __init__(self, axes: sliced.Axes, layer: nn.LayerNorm) -> None:
        super().__init__(axes, layer)
        self.eps, self.axis_count = layer.eps, len(layer.normalized_shape)
        self.channels_first = type(layer) is not nn.LayerNorm

    def forward(self, x: Tensor, activation: Activation) -> Tensor:
        """`[..., c]`, or `[N, c, H, W]` with the channels first -> the same shape."""
        if self.channels_first:
            x = x.permute(0, 2, 3, 1)
        y = F.layer_norm(x, x.shape[-self.axis_count :], *self.used(activation), self.eps)
        return y.permute(0, 3, 1, 2) if self.channels_first else y


class ElasticParameter(sliced.SlicedLayer):
    """A parameter that takes part in a sum or a product, such as the scale of a residual branch."""

    WEIGHTS = ('weight',)

    def __init__(self, axes: sliced.Axes, parameter: nn.Parameter) -> None:
        super().__init__(axes)
        self.weight = parameter

    def forward(self, activation: Activation) -> Tensor:
        """The part that is used."""
        return self.used(activation)[0]


def elastic_layer(axes: sliced.Axes, layer: nn.Module, settings: int) -> sliced.SlicedLayer:
    """What stands for a convolution, a fully connected layer, or a batch, group or layer norm; takes over its weights.

    Batch norms keep statistics for each of so many settings.
    """
    if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        return sliced.Convolution(axes, layer)
    if isinstance(layer, nn.Linear):
        return sliced.Linear(axes, layer)
    if isinstance(layer, nn.GroupNorm):
        return GroupNorm(axes, layer)
    if isinstance(layer, nn.LayerNorm):
        return ElasticLayerNorm(axes, layer)
    return ElasticBatchNorm(axes, layer, settings)


def weights_are_fixed(layer: sliced.SlicedLayer) -> bool:
    """True in inference."""
    return not (torch.is_grad_enabled() or layer.training)


class FixedCall:
    """A layer's kernel with the weights of one cut.

    Args:
        function: kernel.
        arguments: that follow the input.
    """

    def __init__(self, function: Callable[..., Tensor], *arguments: object) -> None:
        self._function = function
        self._arguments = arguments

    def __call__(self, x: Tensor, cut: sliced.Cut) -> Tensor:
        return self._function(x, *self._arguments)


def fixed(layer: sliced.SlicedLayer, cut: sliced.Cut) -> Callable[..., Tensor]:
    """What computes a layer for one cut in inference, without looking for its weights in every frame."""
    if isinstance(layer, sliced.Convolution):
        return FixedCall(layer.function, *layer.used(cut, layer.norm))
    if isinstance(layer, sliced.Linear):
        return FixedCall(F.linear, *layer.used(cut))
    return layer.forward
