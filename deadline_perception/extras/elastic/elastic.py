"""An elastic network: an ordinary one of which any share of the neurons can be run, the most important ones first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import SimpleNamespace

import torch
from torch import Tensor, fx, nn

from deadline_perception.engines import sliced_layers as sliced
from deadline_perception.extras.channel_order import reorder
from deadline_perception.extras.elastic.activation import (
    Activation,
    UnitGroup,
    activate,
    check_settings,
)
from deadline_perception.extras.elastic.conversion import Converter
from deadline_perception.extras.elastic.elastic_layers import (
    ElasticBatchNorm,
    ElasticParameter,
    fixed,
    weights_are_fixed,
)
from deadline_perception.extras.elastic.importance import OutputSamples, of_units
from deadline_perception.extras.elastic.tracing import ConversionError, trace

SETTINGS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of SubFlow's experiments
_MOST_SAMPLES = 4096  # positions of one batch that a covariance takes in


class CalibrationError(ConversionError):
    """Calibration data that say nothing about a network."""


class ElasticModule(nn.Module):
    """See the module. Made by `elastic` and `structure`.

    Args:
        body: the graph with elastic layers, whose last input is the activation.
        groups: of its channels.
        neurons: by name of a node of the body whose values are a layer's output neurons, past its norm and activation:
            the axis of its channels and what lies along it.
        settings: utilisations that it is prepared for, ascending, the last one 1.
    """

    def __init__(
        self,
        body: fx.GraphModule,
        groups: tuple[UnitGroup, ...],
        neurons: dict[str, tuple[int, tuple[sliced.Span, ...]]],
        settings: tuple[float, ...],
    ) -> None:
        super().__init__()
        self.body, self.groups, self.neurons = body, groups, neurons
        self.settings = check_settings(settings)
        for number, group in enumerate(groups):
            self.register_buffer(f'order{number}', torch.arange(group.units))
            self.register_buffer(f'importance{number}', torch.zeros(group.units))
        self._prepared = {
            setting: activate(groups, setting, self.settings) for setting in self.settings
        }
        self._fixed: dict[int, _FixedBody] = {}
        for layer in self.elastic_layers():
            layer.dependants = self._fixed

    def activate(self, utilisation: float) -> Activation:
        """The sub-network of a utilisation in (0, 1]; of a setting it is ready.

        Raises:
            ValueError: the utilisation lies outside its range.
        """
        prepared = self._prepared.get(utilisation)
        return (
            prepared if prepared is not None else activate(self.groups, utilisation, self.settings)
        )

    def forward(self, *inputs: Tensor, utilisation: float = 1.0):
        """What the network gives for its inputs, computed by a sub-network.

        Raises:
            ValueError: the utilisation lies outside its range.
        """
        activation = self.activate(utilisation)
        if torch.is_grad_enabled() or self.training or not activation.is_setting:
            return self.body(*inputs, activation)
        fixed = self._fixed.get(activation.row)
        if fixed is None:
            if not all(map(weights_are_fixed, self.elastic_layers())):
                return self.body(*inputs, activation)
            fixed = self._fixed[activation.row] = _FixedBody(self.body, activation)
        return fixed(*inputs)

    def elastic_layers(self) -> Iterator[sliced.SlicedLayer]:
        """Every layer that is sliced, norms within convolutions too."""
        return (layer for layer in self.body.modules() if isinstance(layer, sliced.SlicedLayer))

    def forget_copies(self) -> None:
        """Drops laid-out weights, because the weights have changed."""
        for layer in self.elastic_layers():
            layer.forget_copies()

    def reorder(self, orders: Sequence[Tensor]) -> None:
        """Puts the units of every group into another order; what the whole network computes stays the same.

        Args:
            orders: by group, int64 `[units]`: at each place the present number of the unit that comes there.
        """
        for layer in self.elastic_layers():
            reorder(layer, orders)
        for number, order in enumerate(orders):
            for name in ('order', 'importance'):
                buffer = getattr(self, f'{name}{number}')
                buffer.copy_(buffer[order.to(buffer.device)])

    @property
    def weights(self) -> int:
        """Number of weights."""
        return sum(parameter.numel() for parameter in self.parameters())

    def used_weights(self, utilisation: float) -> int:
        """Number of weights that a sub-network uses, whole layers included."""
        activation, used = self.activate(utilisation), 0
        for layer in self.elastic_layers():
            used += sum(
                piece.numel()
                for name, _ in layer.named_parameters(recurse=False)
                for piece in layer.pieces(name, activation)[1]
            )
        known = {
            id(parameter) for layer in self.elastic_layers() for parameter in layer.parameters()
        }
        return used + sum(
            parameter.numel() for parameter in self.parameters() if id(parameter) not in known
        )


class _FixedBody:
    """A body for one setting in inference: its code, run on kernels that have their weights already.

    Layers are neither looked up by name nor called as modules, which takes 1 us each; hooks on them are not called.
    """

    def __init__(self, body: fx.GraphModule, activation: Activation) -> None:
        self._forward, self._layers, self._activation = (
            type(body).forward,
            SimpleNamespace(),
            activation,
        )
        for node in body.graph.nodes:
            if node.op in ('call_module', 'get_attr'):
                *folders, name = node.target.split('.')
                place, found = self._layers, attrgetter(node.target)(body)
                for folder in folders:
                    place = place.__dict__.setdefault(folder, SimpleNamespace())
                if isinstance(found, sliced.SlicedLayer):
                    found = fixed(found, activation)
                setattr(place, name, found.forward if isinstance(found, nn.Module) else found)

    def __call__(self, *inputs: Tensor):
        """What the body gives."""
        return self._forward(self._layers, *inputs, self._activation)


def structure(
    module: nn.Module, example_inputs: Sequence[Tensor], settings: tuple[float, ...] = SETTINGS
) -> ElasticModule:
    """An elastic network that has its channels in their given order; arguments and errors as of `elastic`."""
    settings = check_settings(settings)
    converter = Converter(trace(module, example_inputs))
    converter.find_layouts()
    groups = tuple(
        UnitGroup(group.units, group.whole_because, tuple(dict.fromkeys(group.names)))
        for group in converter.roots()
    )
    if all(group.whole_because or group.units == 1 for group in groups):
        reasons = '; '.join(
            f'{group.names[0]}: {group.whole_because or "a single unit"}' for group in groups[:3]
        )
        raise ConversionError(
            f'no layer of the network can be narrowed ({reasons or "it has none"}); expected one '
            f'between the first and the last'
        )
    of_parts = converter.spans()
    body = converter.replace_layers(len(settings))
    nodes = set(body.graph.nodes)
    neurons = {
        node.name: (layout.axis, of_parts(layout.parts))
        for node, layout in converter.layouts.items()
        if node in nodes and _are_neurons(body, node)
    }
    return ElasticModule(body, groups, neurons, settings).eval()


def elastic(
    module: nn.Module,
    example_inputs: Sequence[Tensor],
    calibration: Tensor | Iterable[Tensor],
    *,
    settings: tuple[float, ...] = SETTINGS,
    seed: int = 0,
) -> ElasticModule:
    """Makes a network elastic: converts it, ranks its neurons, and puts its channels in that order.

    At utilisation 1 it computes what the module does, up to rounding. Batch norms get statistics of their own for every
    smaller setting, measured on the calibration data: they cost nothing in a frame.

    Args:
        module: an ordinary network of float32 with one input; it stays as it is.
        example_inputs: one tensor `[N, C, ...]`, as the network takes it.
        calibration: inputs like the example, many in one tensor or in batches; read several times.
        settings: utilisations that the network is prepared for, ascending, the last one 1.
        seed: of the positions that covariances take in.

    Raises:
        ConversionError: the network cannot be converted; the layer is named.
        CalibrationError: the data are empty, of another shape than the example, or not finite.
        ValueError: the settings are none.
    """
    batches = check_calibration(calibration, example_inputs)
    network = structure(module, example_inputs, settings)
    samples = output_samples(network, batches, seed)
    try:
        scores = {key: of_part.selection() for key, of_part in samples.items()}
    except ValueError as error:
        raise CalibrationError(f'calibration data do not rank the neurons: {error}') from error
    rank(network, unit_scores(network, scores))
    settle_norms(network, batches)
    return network


def check_calibration(
    calibration: Tensor | Iterable[Tensor], example_inputs: Sequence[Tensor]
) -> list[Tensor]:
    """The batches of calibration data.

    Raises:
        CalibrationError: they are empty, of another shape or type than the example, or not finite.
    """
    batches = [calibration] if isinstance(calibration, Tensor) else list(calibration)
    expected = tuple(example_inputs[0].shape[1:])
    if not sum(len(batch) for batch in batches):
        raise CalibrationError(
            f'calibration data are empty, expected inputs of the shape '
            f'[N, {", ".join(map(str, expected))}]'
        )
    for batch in batches:
        if tuple(batch.shape[1:]) != expected or batch.dtype != example_inputs[0].dtype:
            raise CalibrationError(
                f'calibration data are {batch.dtype} of the shape {tuple(batch.shape)}, expected '
                f'{example_inputs[0].dtype} [N, {", ".join(map(str, expected))}]'
            )
        if not torch.isfinite(batch).all():
            raise CalibrationError('calibration data hold NaN or infinity, expected finite values')
    return batches


def output_samples(
    network: ElasticModule, batches: Sequence[Tensor], seed: int = 0
) -> dict[tuple[str, int], OutputSamples]:
    """Samples of the outputs of every layer that may be narrowed, by its name in `neurons` and the place of a span.

    Raises:
        CalibrationError: there are fewer than two samples of a layer's outputs.
    """
    generator = torch.Generator().manual_seed(seed)
    samples: dict[tuple[str, int], OutputSamples] = {}
    for batch in batches:
        for name, values in outputs(network, batch).items():
            axis, spans = network.neurons[name]
            rows = values.movedim(axis, -1).flatten(0, -2)
            if len(rows) > _MOST_SAMPLES:
                rows = rows[
                    torch.randperm(len(rows), generator=generator)[:_MOST_SAMPLES].to(rows.device)
                ]
            for place, part in enumerate(rows.split([span.size for span in spans], 1)):
                if not network.groups[spans[place].group].whole_because:
                    samples.setdefault((name, place), OutputSamples(part.shape[1])).add(part)
    for (name, _), of_part in samples.items():
        if of_part.count < 2:
            raise CalibrationError(
                f'calibration data give {of_part.count} sample of the outputs of {name}, expected '
                f'at least 2'
            )
    return samples


def unit_scores(network: ElasticModule, scores: Mapping[tuple[str, int], Tensor]) -> list[Tensor]:
    """Importance of every group's units, float64 `[units]` each, from that of neurons, by keys of `output_samples`."""
    found = defaultdict(list)
    for (name, place), of_part in scores.items():
        found[network.neurons[name][1][place].group].append(of_part)
    return [of_units(found[number], group.units) for number, group in enumerate(network.groups)]


def rank(network: ElasticModule, scores: Sequence[Tensor]) -> None:
    """Puts the units of every group in the order of their importance, `[units]` each; equal ones stay in theirs."""
    # Of a group that is kept whole others may read the channels by their place, as classes are.
    scores = [
        torch.zeros(group.units) if group.whole_because else of_group
        for group, of_group in zip(network.groups, scores)
    ]
    for number, of_group in enumerate(scores):
        getattr(network, f'importance{number}').copy_(of_group)
    network.reorder(
        [torch.argsort(of_group.double(), descending=True, stable=True) for of_group in scores]
    )


def settle_norms(
    network: ElasticModule, batches: Sequence[Tensor], whole_too: bool = False
) -> None:
    """Measures the statistics of batch norms for every setting.

    Args:
        network: its norms are changed; it is in evaluation mode afterwards.
        batches: inputs.
        whole_too: measures those of the last setting, too, which else keeps its own.
    """
    norms = [layer for layer in network.elastic_layers() if isinstance(layer, ElasticBatchNorm)]
    holders = [
        layer for layer in network.elastic_layers() if not set(norms).isdisjoint(layer.modules())
    ]
    for layer in holders:  # convolutions too, which lay nothing out meanwhile
        layer.train()
    with torch.no_grad():
        for setting in network.settings[: len(network.settings) - (not whole_too)] if norms else ():
            for norm in norms:
                norm.batches = 0
            for batch in batches:
                network(batch, utilisation=setting)
    for norm in norms:
        norm.batches = None
    for layer in holders:
        layer.eval()
    network.forget_copies()


class _Listener(fx.Interpreter):
    """Runs a body and keeps what some nodes give."""

    def __init__(self, body: fx.GraphModule, names: Iterable[str]) -> None:
        super().__init__(body)
        self._names, self.heard = set(names), {}

    def run_node(self, node: fx.Node):
        """Keeps the result where it was asked for."""
        result = super().run_node(node)
        if node.name in self._names:
            self.heard[node.name] = result
        return result


@torch.no_grad()
def outputs(network: ElasticModule, batch: Tensor) -> dict[str, Tensor]:
    """The output neurons of all layers, by name of the node, computed by the whole network."""
    listener = _Listener(network.body, network.neurons)
    listener.run(batch, network.activate(1.0))
    return listener.heard


def _are_neurons(body: fx.GraphModule, node: fx.Node) -> bool:
    """True of a layer's output past its norm, activation and sum: what pools, further layers and others read."""
    return _goes_on(body, node, first=True) and any(not _goes_on(body, user) for user in node.users)


def _goes_on(body: fx.GraphModule, node: fx.Node, first: bool = False) -> bool:
    """True of norms, activations and sums, which work on a layer's output neuron by neuron; with `first` of layers
    too."""
    if node.op == 'call_module':
        layer = body.get_submodule(node.target)
        if isinstance(layer, (sliced.Convolution, sliced.Linear)):
            return first
        if isinstance(layer, sliced.SlicedLayer):
            return not isinstance(layer, ElasticParameter)
    shape = getattr(node.meta.get('tensor_meta'), 'shape', None)
    sources = [
        getattr(source.meta.get('tensor_meta'), 'shape', None) for source in node.all_input_nodes
    ]
    return (
        node.op != 'output'
        and shape is not None
        and shape in sources
        and 'pool' not in str(node.target).lower()
    )
