"""Sub-networks as SubFlow defines them, neuron by neuron: what the prefix form must agree with, and is compared with.

A neuron is one value of a layer's output, a channel at a position. `MaskedNetwork` computes the whole network and sets
inactive neurons to zero (equation 1): the reference. `sub_convolution` and `sub_multiplication` compute active neurons
alone (section V-A, equations 13 and 17), from inputs of which zeros are skipped where a whole channel is zero;
gradients pass through them to the weights of active neurons only (section V-B).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import torch
from rankings import obs_importance
from torch import Tensor, fx
from torch.nn import functional as F

from deadline_perception.engines import sliced_layers as sliced
from deadline_perception.extras.elastic.activation import Activation
from deadline_perception.extras.elastic.elastic import ElasticModule, outputs
from deadline_perception.extras.elastic.elastic_layers import ElasticLayerNorm


def sub_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    active: Tensor,
    *,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
) -> Tensor:
    """A convolution of which only active outputs are computed; the others are zero.

    Args:
        x: `[N, C, H, W]`, zero where an input neuron is inactive.
        weight: `[O, C, kernel height, kernel width]`.
        bias: `[O]`, or None.
        active: `[O, H', W']`, zero where an output neuron is inactive.
        stride, padding, dilation: as of `torch.nn.Conv2d`, px.

    Returns:
        `[N, O, H', W']`.
    """
    inputs = x.detach().abs().amax((0, 2, 3)) > 0
    columns = F.unfold(x[:, inputs], weight.shape[2:], dilation, padding, stride)
    kernels = weight[:, inputs].flatten(1)
    rows = []
    for channel, places in enumerate(active.flatten(1) > 0):
        row = x.new_zeros(len(x), places.numel())
        if places.any():
            values = torch.matmul(kernels[channel], columns[:, :, places])
            row[:, places] = values if bias is None else values + bias[channel]
        rows.append(row)
    return torch.stack(rows, 1).view(len(x), *active.shape)


def sub_multiplication(x: Tensor, weight: Tensor, bias: Tensor | None, active: Tensor) -> Tensor:
    """A matrix product of which only active outputs are computed, from inputs that are not zero; the others are zero.

    Args:
        x: `[N, C]`, zero where an input neuron is inactive.
        weight: `[O, C]`.
        bias: `[O]`, or None.
        active: `[O]`, zero where an output neuron is inactive.

    Returns:
        `[N, O]`.
    """
    inputs = x.detach().abs().amax(0) > 0
    outputs_ = active > 0
    used_bias = None if bias is None else bias[outputs_]
    values = F.linear(x[:, inputs], weight[outputs_][:, inputs], used_bias)
    result = x.new_zeros(len(x), len(weight))
    result[:, outputs_] = values
    return result


class MaskedNetwork(fx.Interpreter):
    """The whole network, with inactive neurons set to zero.

    Args:
        network: elastic; its norms use the statistics of the activation.
        activation: whose neurons are active.
        masks: by name of a node of `network.neurons`, 1 where a neuron is active and 0 elsewhere, `[C, H, W]`, or `[C]`
            for single values; by default those of the activation, whole channels.
    """

    def __init__(
        self,
        network: ElasticModule,
        activation: Activation,
        masks: Mapping[str, Tensor] | None = None,
    ) -> None:
        super().__init__(network.body)
        self._activation = activation
        self._masks = dict(masks or {})
        self._channels = {
            name: _vector(spans, activation) for name, (_, spans) in network.neurons.items()
        }
        self._axes = {name: axis for name, (axis, _) in network.neurons.items()}
        self._whole = replace(
            activation, kept=tuple(group.units for group in activation.groups), is_setting=False
        )

    def compute(self, *inputs: Tensor):
        """What the sub-network gives for its inputs."""
        return self.run(*inputs, self._whole)

    def run_node(self, node: fx.Node):
        """Sets what is inactive to zero."""
        result = super().run_node(node)
        if node.name in self._masks:
            return result * self._masks[node.name]
        if node.name in self._channels:
            shape = [1] * result.dim()
            shape[self._axes[node.name]] = -1
            return result * self._channels[node.name].to(result).view(shape)
        return result

    def call_module(self, target, args, kwargs):
        """Computes a layer with all its weights; layer norms leave inactive channels out of their statistics."""
        layer = self.fetch_attr(target)
        if isinstance(layer, ElasticLayerNorm):
            return self._layer_norm(layer, args[0])
        return super().call_module(target, args, kwargs)

    def _layer_norm(self, layer: ElasticLayerNorm, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1) if layer.channels_first else x
        axes = tuple(range(x.dim() - layer.axis_count, x.dim()))
        active = torch.ones(x.shape[-layer.axis_count :]).to(x)
        for axis, spans in layer.axes.get('weight', {}).items():
            shape = [1] * layer.axis_count
            shape[axis] = -1
            active = active * _vector(spans, self._activation).to(x).view(shape)
        mean = (x * active).sum(axes, keepdim=True) / active.sum()
        squares = (x - mean).square() * active
        variance = squares.sum(axes, keepdim=True) / active.sum()
        y = (x - mean) * torch.rsqrt(variance + layer.eps)
        y = y if layer.weight is None else y * layer.weight
        y = y if layer.bias is None else y + layer.bias
        return y.permute(0, 3, 1, 2) if layer.channels_first else y


class ElementNetwork(MaskedNetwork):
    """The same, where layers compute active neurons alone. Of convolutions without groups and norms, each of which an
    activation follows, and of fully connected layers."""

    def call_module(self, target, args, kwargs):
        """Computes a layer's active outputs."""
        layer = self.fetch_attr(target)
        mask = self._mask_behind(target)
        if mask is None or not isinstance(layer, (sliced.Convolution, sliced.Linear)):
            return super().call_module(target, args, kwargs)
        if isinstance(layer, sliced.Linear):
            return sub_multiplication(args[0], layer.weight, layer.bias, mask)
        if layer.groups > 1 or layer.norm is not None or not isinstance(layer.padding, tuple):
            raise ValueError(f'layer {target} has groups or a norm, expected a plain convolution')
        return sub_convolution(
            args[0],
            layer.weight,
            layer.bias,
            mask,
            stride=layer.stride,
            padding=layer.padding,
            dilation=layer.dilation,
        )

    def _mask_behind(self, target: str) -> Tensor | None:
        """The mask of a layer's neurons, which lies on the layer or on the activation that alone reads it."""
        node = next(node for node in self.module.graph.nodes if node.target == target)
        while node.name not in self._masks:
            if len(node.users) != 1:
                return None
            node = next(iter(node.users))
            if node.op in ('output', 'placeholder'):
                return None
            if isinstance(
                self.fetch_attr(node.target) if node.op == 'call_module' else None,
                sliced.SlicedLayer,
            ):
                return None
        return self._masks[node.name]


def element_masks(
    network: ElasticModule, calibration: Tensor, utilisation: float
) -> dict[str, Tensor]:
    """Activation vectors of single neurons, the `floor(u * m)` most important ones of each layer that is not kept
    whole: by name of a node of `network.neurons`, 0 or 1 in the shape of one sample. `calibration` holds at least 2
    inputs, `[N, C, ...]`.
    """
    masks = {}
    for name, values in outputs(network, calibration).items():
        spans = network.neurons[name][1]
        if any(network.groups[span.group].whole_because for span in spans):
            continue
        importance = obs_importance(values.flatten(1))
        order = importance.argsort(descending=True, stable=True)
        mask = torch.zeros(len(order))
        mask[order[: max(1, int(utilisation * len(order) + 1e-9))]] = 1.0
        masks[name] = mask.view(values.shape[1:])
    return masks


def activation_vector(activation: Activation, group: int) -> Tensor:
    """So many ones as units of a group are active, the most important first, then zeros: uint8 `[units]`, a view into
    ones and zeros that exist once."""
    units = activation.groups[group].units
    kept = activation.kept[group]
    return _ones_and_zeros(units)[units - kept : 2 * units - kept]


@cache
def _ones_and_zeros(units: int) -> Tensor:
    return torch.tensor([1, 0], dtype=torch.uint8).repeat_interleave(units)


def _vector(spans, activation: Activation) -> Tensor:
    """Activation vector along an axis."""
    return torch.cat(
        [
            activation_vector(activation, span.group).repeat_interleave(span.per_unit)
            for span in spans
        ]
    )
