"""The multi-path detector's channels in the order of their importance, so that each width runs the most important part.

Its layers are sliced as `networks/multi_path/operators.py` has it, in the order that nested training left. Here they
are ranked
and permuted: blocks of a stage share one ranking because their outputs are added, the lateral layers of the pyramid
because theirs are, and its levels because one region proposal network and one head read them all. What the whole
network computes stays the same up to rounding.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from rankings import OutputSamples, Ranking
from torch import Tensor

from deadline_perception.core.execution_path import SWITCH
from deadline_perception.networks.elastic.importance import of_units
from deadline_perception.networks.multi_path.backbone import ResidualBlock
from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.networks.multi_path.operators import SlicedConv2d, SlicedLinear, SlicedNorm

_MOST_SAMPLES = 4096  # positions of one image that the covariance of a layer's inputs takes in


@dataclass(frozen=True, eq=False)
class OrderedLayer:
    """A layer and the groups of channels that it joins.

    Attributes:
        layer: of the network.
        reads: name of the group of its input; empty where all is always read.
        makes: name of the group of its output; empty where all is always made.
        norm: follows it.
    """

    layer: SlicedConv2d | SlicedLinear
    reads: str
    makes: str
    norm: SlicedNorm | None = None


def ordered_layers(network: MultiPathDetector) -> list[OrderedLayer]:
    """Every sliced layer of a detector; those whose groups have one name keep the same channels."""
    backbone, pyramid, found = network.backbone, network.pyramid, []
    stem, merged, levels = backbone.stem, 'pyramid.merged', 'pyramid.levels'
    group = 'stem' if backbone.first_blocks[0].shortcut is not None else 'stage1'  # without a shortcut they are added
    found.append(OrderedLayer(stem.convolution1, '', group if stem.pool else 'stem.first', stem.norm1))
    if not stem.pool:
        found.append(OrderedLayer(stem.convolution2, 'stem.first', group, stem.norm2))
    for number, first in enumerate(backbone.first_blocks):
        stage, skips = f'stage{number + 1}', backbone.skips_by_stage[number]
        blocks = [first, *backbone.kept_blocks[number], *(block for skip in skips for block in skip.blocks)]
        for place, block in enumerate(blocks):
            found += _of_block(block, stage if place else group, stage, f'{stage}.block{place}')
        group = stage
        found.append(OrderedLayer(pyramid.laterals[number], stage, merged))
        found.append(OrderedLayer(pyramid.outputs[number], merged, levels, pyramid.norms[number]))
    found.append(OrderedLayer(network.rpn.convolution, levels, 'rpn'))
    found.append(OrderedLayer(network.rpn.outputs, 'rpn', ''))
    for number, head in enumerate(network.heads.subnets):
        group = levels
        for place, (convolution, norm) in enumerate(zip(head.convolutions, head.norms)):
            found.append(OrderedLayer(convolution, group, f'head{number}.{place}', norm))
            group = f'head{number}.{place}'
        found.append(OrderedLayer(head.first, group, ''))
    return found


def _of_block(block: ResidualBlock, reads: str, makes: str, name: str) -> list[OrderedLayer]:
    names = [reads, *(f'{name}.{place}' for place in range(len(block.convolutions) - 1)), makes]
    found = [OrderedLayer(convolution, names[place], names[place + 1], norm)
             for place, (convolution, norm) in enumerate(zip(block.convolutions, block.norms))]
    if block.shortcut is not None:
        found.append(OrderedLayer(block.shortcut, reads, makes, block.shortcut_norm))
    return found


@torch.no_grad()
def reorder(network: MultiPathDetector, orders: Mapping[str, Tensor]) -> None:
    """Puts the channels of a detector into another order, in place.

    A narrower norm has scale, shift and statistics for the channels that its prefix held before. It takes over those of
    the whole width instead; `learning.norm_statistics` measures what it receives now.

    Args:
        network: the detector.
        orders: by group, int64 `[channels]`: at each place the present number of the channel that comes there.
    """
    for entry in ordered_layers(network):
        entry.layer.reorder((orders.get(entry.makes), orders.get(entry.reads)))
        if entry.norm is not None:
            entry.norm.reorder((orders[entry.makes],))
            whole = entry.norm.rows[len(orders[entry.makes])]
            for tensor in (*entry.norm.parameters(), *entry.norm.buffers()):
                tensor.copy_(tensor[whole].expand_as(tensor))
    network.train(network.training)  # engines forget the old order too


@torch.no_grad()
def channel_orders(network: MultiPathDetector, ranking: Ranking, images: Sequence[np.ndarray] = (),
                   seed: int = 0) -> dict[str, Tensor]:
    """Channels by group, most important first, as `reorder` takes them. Group norms keep their groups whole.

    Args:
        network: the detector.
        ranking: `SELECTION` and `OBS` of what the layers read, past norm and activation, once for each layer that reads
            it; `MAGNITUDE` of the weights that lead to a channel.
        images: uint8 `[H, W, 3]` to calibrate these two with, at least 1.
        seed: of a random ranking and of the positions that covariances take in.

    Raises:
        ValueError: there are no images for `SELECTION` or `OBS`.
    """
    sizes, units = {}, {}
    for entry in ordered_layers(network):
        if entry.makes:
            sizes[entry.makes] = len(entry.layer.weight)
            units.setdefault(entry.makes, len(entry.layer.weight) // getattr(entry.norm, 'group_channels', 1))
            if entry.norm is not None:
                units[entry.makes] = min(units[entry.makes],
                                         sizes[entry.makes] // getattr(entry.norm, 'group_channels', 1))
    if ranking is Ranking.GIVEN:
        return {group: torch.arange(size) for group, size in sizes.items()}
    generator = torch.Generator().manual_seed(seed)
    if ranking is Ranking.RANDOM:
        scores = {group: [torch.rand(size, generator=generator)] for group, size in sizes.items()}
    elif ranking is Ranking.MAGNITUDE:
        scores = defaultdict(list)
        for entry in ordered_layers(network):
            if entry.makes:
                scores[entry.makes].append(entry.layer.weight.abs().flatten(1).sum(1).cpu())
    else:
        scores = _output_scores(network, images, ranking, generator)
    found = {}
    for group, size in sizes.items():
        order = torch.argsort(of_units(scores[group], units[group]), descending=True, stable=True)
        found[group] = torch.arange(size).view(units[group], -1)[order].flatten()
    return found


def _output_scores(network: MultiPathDetector, images: Sequence[np.ndarray], ranking: Ranking,
                   generator: torch.Generator) -> dict[str, list[Tensor]]:
    if not len(images):
        raise ValueError('images to calibrate with are empty, expected at least 1')
    read = [entry for entry in ordered_layers(network) if entry.reads]
    samples: dict[OrderedLayer, OutputSamples] = {}

    def listen(entry: OrderedLayer):
        def hear(layer, inputs) -> None:
            values = inputs[0]
            if values.dim() == 4:
                rows = values.permute(0, 2, 3, 1).flatten(0, 2)
            else:
                rows = values.reshape(-1, layer.weight.shape[2])
            if len(rows) > _MOST_SAMPLES:
                rows = rows[torch.randperm(len(rows), generator=generator)[:_MOST_SAMPLES].to(rows.device)]
            samples.setdefault(entry, OutputSamples(rows.shape[1])).add(rows)
        return hear

    handles = [entry.layer.register_forward_pre_hook(listen(entry)) for entry in read]
    switch, = network.path_space.of_kind(SWITCH)
    try:
        for image in images:
            for setting in switch.settings:
                network.detect(image, network.path_space.largest.replace(**{switch.name: setting}))
    finally:
        for handle in handles:
            handle.remove()
    found = defaultdict(list)
    for entry, of_layer in samples.items():
        found[entry.reads].append(of_layer.importance(ranking).scores)
    return found
