"""Finds which channels of a traced network can be skipped together, and puts elastic layers into it.

Every tensor of the trace gets a `Layout`: to which groups its channels belong, or none where all of them are always
there. An operation that is not known here does no harm: what it reads is kept whole. A layer with weights that is not
known is an error, because to keep it whole silently could leave nothing to be narrowed. The first layers and the last
ones are kept whole (SubFlow, section VII-B).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable

import torch
from torch import fx, nn
from torch.nn import functional as F

from deadline_perception.engines import sliced_layers as sliced
from deadline_perception.engines.sliced_layers import Span
from deadline_perception.extras.elastic.channel_groups import (
    ChannelGroup,
    Layout,
    Part,
    tie_layouts,
)
from deadline_perception.extras.elastic.elastic_layers import (
    ElasticBatchNorm,
    ElasticParameter,
    elastic_layer,
)
from deadline_perception.extras.elastic.tracing import ConversionError, is_frozen_norm

_FAR = 1_000_000  # layers between the input and what does not come from it
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
# Work on each channel alone, and leave the axes where they are.
_CHANNELWISE_MODULES = (
    nn.ReLU,
    nn.ReLU6,
    nn.LeakyReLU,
    nn.ELU,
    nn.CELU,
    nn.SELU,
    nn.GELU,
    nn.SiLU,
    nn.Mish,
    nn.Hardswish,
    nn.Hardsigmoid,
    nn.Hardtanh,
    nn.Sigmoid,
    nn.Tanh,
    nn.Softplus,
    nn.Softsign,
    nn.LogSigmoid,
    nn.Identity,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.MaxPool1d,
    nn.MaxPool2d,
    nn.MaxPool3d,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AvgPool3d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveAvgPool3d,
    nn.AdaptiveMaxPool1d,
    nn.AdaptiveMaxPool2d,
    nn.Upsample,
    nn.ZeroPad2d,
    nn.ReflectionPad2d,
    nn.ReplicationPad2d,
)
_CHANNELWISE_FUNCTIONS = {
    F.relu,
    F.relu6,
    F.leaky_relu,
    F.elu,
    F.gelu,
    F.silu,
    F.mish,
    F.hardswish,
    F.hardsigmoid,
    F.hardtanh,
    F.softplus,
    F.dropout,
    F.dropout2d,
    F.max_pool1d,
    F.max_pool2d,
    F.avg_pool1d,
    F.avg_pool2d,
    F.adaptive_avg_pool1d,
    F.adaptive_avg_pool2d,
    F.adaptive_max_pool2d,
    F.interpolate,
    torch.relu,
    torch.sigmoid,
    torch.tanh,
    torch.abs,
    torch.exp,
    torch.neg,
    torch.clamp,
    torch.clone,
    operator.neg,
}
_CHANNELWISE_METHODS = {
    'relu',
    'relu_',
    'sigmoid',
    'tanh',
    'abs',
    'exp',
    'neg',
    'clamp',
    'clone',
    'contiguous',
    'float',
    'detach',
    'hardtanh',
    'to',
}
_SUMS = {
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.iadd,
    operator.imul,
    torch.add,
    torch.sub,
    torch.mul,
    torch.div,
    'add',
    'add_',
    'sub',
    'mul',
    'mul_',
    'div',
}
_MEANS = {torch.mean, torch.sum, 'mean', 'sum'}
_FLATTENS = {torch.flatten, 'flatten'}
_VIEWS = {torch.reshape, 'view', 'reshape'}
_CONCATENATIONS = {torch.cat, torch.concat, torch.concatenate}


class Converter:
    """Finds the layout of every tensor of a traced network, then puts elastic layers into its place.

    Args:
        traced: the network; its layers are replaced.

    Attributes:
        layouts: by node, where some channels may be skipped.
        groups: all groups, in the order in which they were found; several may be tied.
    """

    def __init__(self, traced: fx.GraphModule) -> None:
        self.traced = traced
        self.modules = dict(traced.named_modules())
        self.layouts: dict[fx.Node, Layout] = {}
        self.groups: list[ChannelGroup] = []
        self._axes: dict[fx.Node, dict[str, dict[int, tuple[Part, ...]]]] = {}
        self._depth: dict[
            fx.Node, int
        ] = {}  # fewest layers with weights between the input and a node

    # Part one: layouts, in the order of the graph.

    def find_layouts(self) -> None:
        """Goes through the graph once.

        Raises:
            ConversionError: a layer with weights is of an unknown kind.
        """
        for node in self.traced.graph.nodes:
            self._depth[node] = min(
                (self._depth[source] for source in node.all_input_nodes),
                default=0 if node.op == 'placeholder' else _FAR,
            )
            layout = None
            if node.op == 'call_module':
                layout = self._of_module(node, self.modules[node.target])
            elif node.op in ('call_function', 'call_method'):
                layout = self._of_operation(node)
            elif node.op == 'output':
                self._keep_whole(node, 'it belongs to the last layers')
            if layout is not None:
                self.layouts[node] = layout

    def _of_module(self, node: fx.Node, module: nn.Module) -> Layout | None:
        if isinstance(module, (*_CONVOLUTIONS, nn.Linear)):
            return self._of_weighted(node, module)
        source = node.args[0] if node.args else None
        layout = self.layouts.get(source)
        if isinstance(module, _BATCH_NORMS) or is_frozen_norm(module):
            if layout is None or getattr(module, 'running_mean', None) is None or layout.axis != 1:
                return self._whole(node)
            of_norm = dict.fromkeys(('weight', 'bias'), {0: layout.parts})
            self._axes[node] = of_norm | dict.fromkeys(
                ('running_mean', 'running_var'), {1: layout.parts}
            )
            return layout
        if isinstance(module, nn.GroupNorm):
            if layout is None or len(layout.parts) > 1:
                return self._whole(node)
            if module.num_groups > 1:
                layout.parts[0].group.coarsen(module.num_groups)
            self._axes[node] = dict.fromkeys(('weight', 'bias'), {0: layout.parts})
            return layout
        if isinstance(module, nn.LayerNorm):
            return self._of_layer_norm(node, module, layout)
        if isinstance(module, _CHANNELWISE_MODULES) or type(module).__name__ == 'StochasticDepth':
            return layout
        if isinstance(module, nn.Flatten):
            return self._flattened(node, source, module.start_dim, module.end_dim)
        if next(module.parameters(), None) is not None:
            raise ConversionError(
                f'layer {node.target} is a {type(module).__name__}, expected a convolution, a fully '
                f'connected layer, or a batch, group or layer norm'
            )
        return self._whole(node)

    def _of_weighted(self, node: fx.Node, module: nn.Module) -> Layout | None:
        is_convolution = isinstance(module, _CONVOLUTIONS)
        if is_convolution and module.padding_mode != 'zeros':
            raise ConversionError(
                f'layer {node.target} pads with {module.padding_mode!r}, expected zeros'
            )
        source, first = node.args[0], self._depth[node] == 0
        self._depth[node] += 1
        layout = self.layouts.get(source)
        channel_axis = 1 if is_convolution else _shape(source) and len(_shape(source)) - 1
        if layout is not None and layout.axis != channel_axis:
            layout.keep_whole(
                f'axis {layout.axis} holds its channels where {node.target} reads axis {channel_axis}'
            )
            layout = None
        outputs = module.out_channels if is_convolution else module.out_features
        groups = module.groups if is_convolution else 1
        if groups > 1:
            return self._of_grouped(node, module, layout)
        group = self._new_group(outputs, node.target)
        if first:
            group.keep_whole('it is a first layer')
        made = Layout(channel_axis, (Part(group, outputs),))
        inputs = {} if layout is None else {1: layout.parts}
        self._axes[node] = {'weight': {0: made.parts, **inputs}, 'bias': {0: made.parts}}
        return made

    def _of_grouped(self, node: fx.Node, module: nn.Module, layout: Layout | None) -> Layout | None:
        """Groups of a convolution are kept with the channels that they read."""
        if layout is not None and len(layout.parts) > 1 and module.groups != module.in_channels:
            layout.keep_whole(f'grouped convolution {node.target} reads it behind a concatenation')
            layout = None
        if layout is None:
            self._axes[node] = {}
            return None
        for part in layout.parts:
            part.group.coarsen(module.groups if len(layout.parts) == 1 else part.size)
            part.group.root.names.append(node.target)
        factor = module.out_channels / module.in_channels
        made = Layout(
            1, tuple(Part(part.group, round(part.size * factor)) for part in layout.parts)
        )
        self._axes[node] = dict.fromkeys(('weight', 'bias'), {0: made.parts})
        return made

    def _of_layer_norm(
        self, node: fx.Node, module: nn.LayerNorm, layout: Layout | None
    ) -> Layout | None:
        if layout is None:
            return None
        channels_first = type(module) is not nn.LayerNorm
        axis = (
            0
            if channels_first
            else layout.axis - (len(_shape(node)) - len(module.normalized_shape))
        )
        if channels_first and layout.axis != 1:
            return self._whole(node)
        self._axes[node] = dict.fromkeys(
            ('weight', 'bias'), {axis: layout.parts} if axis >= 0 else {}
        )
        return layout

    def _of_operation(self, node: fx.Node) -> Layout | None:
        sources = [source for source in node.all_input_nodes if source in self.layouts]
        if not sources or 'tensor_meta' not in node.meta:
            return None  # no channels that could be skipped, or numbers such as a shape
        if _shape(node) is None:
            return self._whole(node)  # several tensors
        source = node.args[0] if node.args else None
        layout, name = self.layouts.get(source), node.target
        if name in _SUMS:
            return self._of_sum(node)
        if name in _CONCATENATIONS and node.args:
            return self._of_concatenation(node)
        if layout is None or len(sources) > 1:
            return self._whole(node)
        if node.op == 'call_function' and (
            name in _CHANNELWISE_FUNCTIONS or getattr(name, '__name__', '') == 'stochastic_depth'
        ):
            return layout
        if node.op == 'call_method' and name in _CHANNELWISE_METHODS:
            return layout
        if name is F.pad:
            spatial = len(node.args[1]) // 2 <= len(_shape(source)) - 1 - layout.axis
            return layout if spatial else self._whole(node)
        if name in _MEANS:
            return self._of_mean(node, source, layout)
        if name in _FLATTENS:
            start, end = (*node.args[1:], *[None] * 2)[:2]
            start = node.kwargs.get('start_dim', 0) if start is None else start
            end = node.kwargs.get('end_dim', -1) if end is None else end
            return self._flattened(node, source, start, end)
        if name in _VIEWS:
            return self._of_view(node, source)
        if name in (torch.permute, 'permute') and len(node.args) > 1:
            order = node.args[1] if isinstance(node.args[1], (tuple, list)) else node.args[1:]
            order = [axis % len(order) for axis in order]
            return layout.at(order.index(layout.axis))
        if name in (torch.transpose, 'transpose') and len(node.args) == 3:
            one, other = (axis % len(_shape(source)) for axis in node.args[1:])
            return layout.at({one: other, other: one}.get(layout.axis, layout.axis))
        return self._whole(node)

    def _of_sum(self, node: fx.Node) -> Layout | None:
        """A sum, product or difference of tensors, or of a tensor and numbers."""
        operands = [
            operand
            for operand in node.args
            if isinstance(operand, fx.Node) and _shape(operand) is not None
        ]
        known = [operand for operand in operands if operand in self.layouts]
        if not known:
            return None
        dimensions = len(_shape(node))
        axes = {self.layouts[operand].axis + dimensions - len(_shape(operand)) for operand in known}
        result: Layout | None = None
        for operand in operands:
            layout, shape = self.layouts.get(operand), _shape(operand)
            axis = next(iter(axes)) - (dimensions - len(shape))
            if len(axes) > 1:
                layout and layout.keep_whole(f'{_word(node)} joins channels of different axes')
                continue
            if axis < 0 or shape[axis] == 1:
                continue  # one value for all channels
            if layout is None and operand.op == 'get_attr':
                continue  # a parameter, which is sliced as the others are
            if layout is None:
                layout = Layout(
                    axis,
                    (
                        Part(
                            self._new_group(shape[axis], operand.name, 'nothing of it is known'),
                            shape[axis],
                        ),
                    ),
                )
            if result is None:
                result = layout.at(next(iter(axes)))
            else:
                tie_layouts(result, layout, f'{_word(node)} joins different concatenations')
        if result is None:
            return None
        for operand in operands:
            shape = _shape(operand)
            axis = result.axis - (dimensions - len(shape))
            if operand.op == 'get_attr' and axis >= 0 and shape[axis] > 1:
                self._axes[operand] = {'weight': {axis: result.parts}}
        return result

    def _of_concatenation(self, node: fx.Node) -> Layout | None:
        tensors = node.args[0]
        along = node.args[1] if len(node.args) > 1 else node.kwargs.get('dim', 0)
        along %= len(_shape(node))
        layouts = [self.layouts.get(tensor) for tensor in tensors]
        axes = {layout.axis for layout in layouts if layout is not None}
        if axes != {along}:
            return self._whole(node)
        parts: list[Part] = []
        for tensor, layout in zip(tensors, layouts):
            size = _shape(tensor)[along]
            parts += (
                layout.parts
                if layout
                else [Part(self._new_group(size, tensor.name, 'nothing of it is known'), size)]
            )
        return Layout(along, tuple(parts))

    def _of_mean(self, node: fx.Node, source: fx.Node, layout: Layout) -> Layout | None:
        axes = node.args[1] if len(node.args) > 1 else node.kwargs.get('dim')
        if axes is None:
            return self._whole(node)
        axes = {axis % len(_shape(source)) for axis in ([axes] if isinstance(axes, int) else axes)}
        if layout.axis in axes:
            return self._whole(node)
        gone = (
            0
            if len(_shape(node)) == len(_shape(source))
            else sum(axis < layout.axis for axis in axes)
        )
        return layout.at(layout.axis - gone)

    def _of_view(self, node: fx.Node, source: fx.Node) -> Layout | None:
        """A view that is a flattening becomes one, whose sizes follow the channels."""
        before, after = _shape(source), _shape(node)
        if len(after) == 2 and after[0] == before[0] and self.layouts[source].axis == 1:
            node.op, node.target, node.args, node.kwargs = (
                'call_function',
                torch.flatten,
                (source, 1),
                {},
            )
            return self._flattened(node, source, 1, -1)
        return self._whole(node)

    def _flattened(self, node: fx.Node, source: fx.Node, start: int, end: int) -> Layout | None:
        layout, shape = self.layouts.get(source), _shape(source)
        if layout is None:
            return None
        start, end = start % len(shape), end % len(shape)
        if not start <= layout.axis <= end:
            return layout.at(layout.axis - (end - start if layout.axis > end else 0))
        if math.prod(shape[start : layout.axis]) > 1:
            return self._whole(node)
        return layout.at(start).scaled(math.prod(shape[layout.axis + 1 : end + 1]))

    def _whole(self, node: fx.Node) -> None:
        self._keep_whole(node, f'{_word(node)} needs all channels')

    def _keep_whole(self, node: fx.Node, because: str) -> None:
        for source in node.all_input_nodes:
            if source in self.layouts:
                self.layouts[source].keep_whole(because)

    def _new_group(self, units: int, name: str, whole_because: str = '') -> ChannelGroup:
        self.groups.append(ChannelGroup(units, whole_because, [name]))
        return self.groups[-1]

    # Part two: elastic layers in the place of the others.

    def spans(self) -> Callable[[Iterable[Part]], tuple[Span, ...]]:
        """What makes parts into spans, now that all groups are known."""
        number = {root: at for at, root in enumerate(self.roots())}

        def of_parts(parts: Iterable[Part]) -> tuple[Span, ...]:
            return tuple(
                Span(
                    number[part.group.root],
                    part.group.root.units,
                    part.size // part.group.root.units,
                )
                for part in parts
            )

        return of_parts

    def roots(self) -> list[ChannelGroup]:
        """The groups, each once."""
        return list(dict.fromkeys(group.root for group in self.groups))

    def replace_layers(self, settings: int) -> fx.GraphModule:
        """The network with elastic layers, and one more input: the activation.

        Args:
            settings: number of settings, for which norms keep statistics each.
        """
        graph, of_parts = self.traced.graph, self.spans()
        last_input = [node for node in graph.nodes if node.op == 'placeholder'][-1]
        with graph.inserting_after(last_input):
            activation = graph.placeholder('activation')
        replaced: dict[str, sliced.SlicedLayer] = {}
        for node, of_weights in self._axes.items():
            axes = {
                name: {axis: of_parts(parts) for axis, parts in of_weight.items()}
                for name, of_weight in of_weights.items()
            }
            if node.op == 'get_attr':
                self._replace_parameter(node, axes, activation)
                continue
            if node.target not in replaced:  # a layer may be called more than once
                replaced[node.target] = elastic_layer(axes, self.modules[node.target], settings)
                parent, _, name = node.target.rpartition('.')
                setattr(self.traced.get_submodule(parent), name, replaced[node.target])
            elif replaced[node.target].axes != axes:
                raise ConversionError(
                    f'layer {node.target} is used several times, on different channels; expected a '
                    f'layer for each'
                )
            node.args = (node.args[0], activation)
        self._join_norms(replaced)
        graph.lint()
        self.traced.recompile()
        self.traced.delete_all_unused_submodules()
        return self.traced

    def _replace_parameter(self, node: fx.Node, axes: sliced.Axes, activation: fx.Node) -> None:
        parameter = self.traced
        for name in node.target.split('.'):
            parameter = getattr(parameter, name)
        target = node.target.replace('.', '_') + '_elastic'
        self.traced.add_submodule(target, ElasticParameter(axes, nn.Parameter(parameter.detach())))
        with self.traced.graph.inserting_after(node):
            call = self.traced.graph.call_module(target, (activation,))
        call.meta = dict(node.meta)
        node.replace_all_uses_with(call)
        self.traced.graph.erase_node(node)

    def _join_norms(self, replaced: dict[str, sliced.SlicedLayer]) -> None:
        """Gives each convolution the batch norm that alone reads it."""
        calls = [node for node in self.traced.graph.nodes if node.op == 'call_module']
        targets = [node.target for node in calls]
        for node in calls:
            layer, users = replaced.get(node.target), list(node.users)
            if (
                not isinstance(layer, sliced.Convolution)
                or len(users) != 1
                or targets.count(node.target) > 1
            ):
                continue
            norm = replaced.get(users[0].target) if users[0].op == 'call_module' else None
            if isinstance(norm, ElasticBatchNorm) and targets.count(users[0].target) == 1:
                layer.norm = norm
                parent, _, name = users[0].target.rpartition('.')
                delattr(self.traced.get_submodule(parent), name)
                users[0].replace_all_uses_with(node)
                self.traced.graph.erase_node(users[0])


def _shape(node: object) -> tuple[int, ...] | None:
    """Shape of the tensor that a node gives, None where it gives something else."""
    meta = node.meta.get('tensor_meta') if isinstance(node, fx.Node) else None
    return tuple(meta.shape) if hasattr(meta, 'shape') else None


def _word(node: fx.Node) -> str:
    if node.op == 'call_module':
        return str(node.target)
    return f'{getattr(node.target, "__name__", node.target)} ({node.name})'
