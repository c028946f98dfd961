"""Finds the layers of a network by running it: every call of a known kernel becomes one record.

Loads PyTorch when called, not before.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from deadline_perception.wcet.layers import (
    ConvolutionShape,
    ElementwiseShape,
    GroupNormShape,
    LayerShape,
    LinearShape,
    ResizeShape,
    SuppressionShape,
)

if TYPE_CHECKING:
    from torch import Tensor

_ELEMENTWISE = {'relu', 'relu_', 'add', 'add_', 'sub', 'sub_', 'mul', 'mul_', 'div', 'div_', 'sigmoid', 'sigmoid_',
                'clamp', 'clamp_', 'clamp_min', 'clamp_min_', 'threshold', 'hardtanh', 'hardtanh_', 'gelu', 'silu'}


def trace_layers(call: Callable[[], object]) -> tuple[LayerShape, ...]:
    """Runs `call` once and lists the layers that PyTorch computed in it, in order.

    Operations of no known kind (top-k, reshaping, copies) are left out, and so are those on fewer than two dimensions.

    Args:
        call: runs a network, or any part of one.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[LayerShape] = []

    class Recorder(TorchDispatchMode):
        """Sees every operation with its arguments and result."""

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            shape = layer_shape(function.__name__.split('.')[0], args, result)
            if shape is not None:
                found.append(shape)
            return result

    with torch.no_grad(), Recorder():
        call()
    return tuple(found)


def layer_shape(name: str, args: tuple, result: Any) -> LayerShape | None:
    """The record of one operation of PyTorch, None when it is no layer."""
    if name in ('convolution', 'conv2d'):
        return _convolution(args[0], args[1], args[3] if len(args) > 3 else 1)  # defaults are left out
    if name in ('native_group_norm', 'group_norm'):
        batch, channels, height, width = _four(args[0].shape)
        return GroupNormShape(channels, args[6] if name == 'native_group_norm' else args[1], height, width, batch)
    if name in ('linear', 'addmm', 'mm'):
        rows, weight = (args[1], args[2]) if name == 'addmm' else (args[0], args[1])
        return LinearShape(rows.numel() // rows.shape[-1], rows.shape[-1], weight.numel() // rows.shape[-1])
    if name == 'nms':
        return SuppressionShape(len(args[0])) if len(args[0]) else None
    if name.startswith('upsample_'):
        return ResizeShape(args[0].numel(), result.numel(), 1 if 'nearest' in name else 4)
    if name in ('max_pool2d', 'max_pool2d_with_indices', 'avg_pool2d'):
        pooled = result[0] if isinstance(result, tuple) else result
        side = args[1] if isinstance(args[1], int) else args[1][0]
        return ResizeShape(args[0].numel(), pooled.numel(), side ** 2)
    if name in _ELEMENTWISE and result.dim() >= 2 and result.is_floating_point() and result.numel():
        tensors = [arg for arg in args if getattr(arg, 'shape', None) == result.shape]
        return ElementwiseShape(result.numel(), max(1, len(tensors)))
    return None


def _convolution(x: Tensor, weight: Tensor, stride: int | list[int]) -> ConvolutionShape:
    batch, channels, height, width = x.shape
    step = stride if isinstance(stride, int) else stride[0]
    return ConvolutionShape(channels, weight.shape[0], weight.shape[2], step, height, width, batch,
                            groups=channels // weight.shape[1])


def _four(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Batch, channels, height, width of a tensor with at least batch and channels."""
    sizes = [*shape, 1, 1][:4] if len(shape) < 4 else list(shape)
    return sizes[0], sizes[1], sizes[2], sizes[3]
