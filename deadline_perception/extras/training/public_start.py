"""Weights of a public detector as a start: Open Model Zoo's person-vehicle-bike-detection-2003, an OpenVINO IR.

The file (Apache 2.0) is read, not shipped: MobileNetV2, pyramid and towers have the same layers here. Its towers
normalise each channel by the image's own statistics; the norms here are fixed, so that they take no time, and are set
to the statistics of given images. Layers within blocks are put in order of importance, so that narrower paths keep
what matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.engines.openvino_library import Node, load_openvino
from deadline_perception.engines.torch_network import PIXEL_DEVIATION, PIXEL_MEAN
from deadline_perception.extras.channel_order import reorder
from deadline_perception.extras.training.pyramid_features import pyramid_features
from deadline_perception.networks.multi_path.dense.backbone import InvertedResidual
from deadline_perception.networks.multi_path.dense.configuration import STRIDES
from deadline_perception.networks.multi_path.dense.network import DenseDetector
from deadline_perception.networks.multi_path.operators import SlicedConv2d

# The file's classes, and those that begin with the weights of each.
CLASSES = (('vehicle',), ('person',), ('bike', 'motorbike'))
_EPS = 1e-5
# Of a convolution of the file: weight, bias, and scale of a norm behind it.
Layer: TypeAlias = tuple[Tensor, Tensor, Tensor]


class StartRefused(DeadlinePerceptionError):
    """A file that is not the public detector."""


@torch.no_grad()
def start_from_public(
    network: DenseDetector, file: Path, images: Sequence[np.ndarray]
) -> tuple[str, ...]:
    """Fills a network in place with the public detector's weights; blocks for some seconds.

    Args:
        network: as it was built.
        file: `person-vehicle-bike-detection-2003.xml`, its `.bin` beside it.
        images: uint8 `[H, W, 3]`, BGR, at least 8, whose statistics the norms take.

    Returns:
        The classes that begin with random weights.

    Raises:
        StartRefused: the file is another model.
        ValueError: there are too few images.
    """
    if len(images) < 8:
        raise ValueError(f'{len(images)} images to measure norms with, expected at least 8')
    layers = list(_convolutions(file))
    blocks = list(_blocks(network))
    if len(layers) != 115 or layers[1][0].shape[:2] != (32, 32):
        raise StartRefused(
            f'{file} has {len(layers)} convolutions, expected the 115 of '
            f'person-vehicle-bike-detection-2003'
        )
    left = iter(layers)
    try:
        _take_backbone(network, blocks, left)
        _take_first_stage(network, list(left))
    except RuntimeError as error:  # shapes
        raise StartRefused(
            f'{file} is not person-vehicle-bike-detection-2003: {printable(error)}'
        ) from error
    for block in blocks:
        _order_by_importance(block)
    network.train(network.training)
    _measure(network, images)
    known = {name for names in CLASSES for name in names}
    return tuple(name for name in network.class_names if name not in known)


def _take_backbone(
    network: DenseDetector, blocks: list[InvertedResidual], left: Iterator[Layer]
) -> None:
    """Stem, blocks and laterals; raises RuntimeError where shapes differ."""
    _take_stem(network, next(left))
    laterals = iter(network.pyramid.laterals)
    for number, block in enumerate(blocks):
        for layer, norm in (
            (block.widen, block.widen_norm),
            (block.middle, block.middle_norm),
            (block.narrow, block.narrow_norm),
        ):
            weight, bias, _ = next(left)
            layer.weight.copy_(weight.view_as(layer.weight))
            norm.bias.copy_(bias.view(1, -1).expand_as(norm.bias))
        # In the file a lateral follows the last block of stride 8, 16 and 32.
        if number in (5, 12, 16):
            _take(next(laterals), next(left))


def _convolutions(file: Path) -> Iterator[Layer]:
    """Each convolution of the file, in the order of computation; without a bias or norm, what changes nothing."""
    openvino = load_openvino()
    try:
        model = openvino.Core().read_model(file)
    except RuntimeError as error:
        raise StartRefused(
            f'{file} cannot be read as OpenVINO IR: {str(error).strip().splitlines()[-1]}'
        ) from error
    for node in model.get_ordered_ops():
        if node.get_type_name() not in ('Convolution', 'GroupConvolution'):
            continue
        weight = _constant(node)
        bias, scale = weight.new_zeros(len(weight)), weight.new_ones(len(weight))
        following = [target.get_node() for target in node.output(0).get_target_inputs()]
        if following and following[0].get_type_name() == 'MVN':
            multiplied = next(iter(following[0].output(0).get_target_inputs())).get_node()
            scale = _constant(multiplied)
            following = [target.get_node() for target in multiplied.output(0).get_target_inputs()]
        if following and following[0].get_type_name() == 'Add':
            bias = _constant(following[0])
        yield weight, bias, scale


def _constant(node: Node) -> Tensor:
    """A node's first constant input, float32; none where all are computed."""
    for source in (value.get_source_output().get_node() for value in node.inputs()):
        while source.get_type_name() == 'Convert':
            source = source.input_value(0).get_node()
        if source.get_type_name() == 'Constant':
            return torch.from_numpy(np.array(source.data, dtype=np.float32))
    return torch.empty(0)


def _blocks(network: DenseDetector) -> Iterator[InvertedResidual]:
    """All blocks in the order in which a frame passes them."""
    backbone, skips = network.backbone, iter(network.backbone.skips)
    yield backbone.first
    for kept, groups in zip(backbone.kept_blocks, network.config.skip_groups):
        yield kept
        for _ in groups:
            yield from next(skips).blocks


def _take(layer: SlicedConv2d, of_file: Layer) -> None:
    weight, bias, _ = of_file
    layer.weight.copy_(weight)
    layer.get_parameter('bias').copy_(bias.flatten())


def _take_stem(network: DenseDetector, of_file: Layer) -> None:
    """The file's input is 0 to 1, ours has the mean and deviation of pixels taken away."""
    mean, deviation = (
        torch.tensor(values).view(1, 3, 1, 1) / 255 for values in (PIXEL_MEAN, PIXEL_DEVIATION)
    )
    weight, bias, _ = of_file
    network.backbone.stem.weight.copy_(weight * deviation)
    network.backbone.stem_norm.bias.copy_((bias.flatten() + (weight * mean).sum((1, 2, 3)))[None])


def _take_first_stage(network: DenseDetector, layers: list[Layer]) -> None:
    """Pyramid outputs and, per level, class tower, class output, box tower, centredness and boxes."""
    pyramid, stage = network.pyramid, network.rpn
    outputs = [*pyramid.outputs, *pyramid.coarser]
    for number, start in enumerate(range(0, len(layers), 12)):
        output, *towers = layers[start : start + 12]
        _take(outputs[number], output)
        for tower, part in ((stage.class_tower, towers[:4]), (stage.box_tower, towers[5:9])):
            for layer, (weight, bias, scale) in enumerate(part):
                tower.convolutions[layer].weight.copy_(weight)
                tower.norms[layer][number].weight.copy_(scale.view(1, -1))
                tower.norms[layer][number].bias.copy_(bias.view(1, -1))
        classes, centred, boxes = towers[4], towers[9], towers[10]
        if number == 0:
            _take_classes(network, classes)
            _take(stage.centre_output, centred)
            _take(stage.box_output, boxes)
        stage.box_scales[number] = boxes[0].norm() / stage.box_output.weight.norm()


def _take_classes(network: DenseDetector, of_file: Layer) -> None:
    stage, (weight, bias, _) = network.rpn, of_file
    count = len(network.class_names)
    ours = stage.class_output.weight.view(stage.per_position, count, *weight.shape[1:])
    our_bias = stage.class_output.get_parameter('bias').view(stage.per_position, count)
    theirs = weight.view(stage.per_position, len(CLASSES), *weight.shape[1:])
    their_bias = bias.view(stage.per_position, len(CLASSES))
    for number, names in enumerate(CLASSES):
        for name in names:
            if name in network.class_names:
                at = network.class_names.index(name)
                ours[:, at], our_bias[:, at] = theirs[:, number], their_bias[:, number]


def _order_by_importance(block: InvertedResidual) -> None:
    """The hidden channels that weigh most in the block's sum come first."""
    scale = block.middle.weight.flatten(1).norm(dim=1) * block.widen.weight.flatten(1).norm(dim=1)
    order = (block.narrow.weight.flatten(1).norm(dim=0) * scale).argsort(descending=True)
    for layer, orders in (
        (block.widen, (order, None)),
        (block.middle, (order,)),
        (block.narrow, (None, order)),
    ):
        reorder(layer, orders)
    for norm in (block.widen_norm, block.middle_norm):
        reorder(norm, (order,))


def _measure(network: DenseDetector, images: Sequence[np.ndarray]) -> None:
    """Sets the towers' norms to the images' statistics, and those of narrower blocks so that each gives the mean and
    deviation that it gives at full width."""
    space = network.path_space
    whole = space.largest
    pixels = [
        network.normalise(
            torch.from_numpy(network.preprocess(image, whole)).permute(0, 3, 1, 2).float()
        )
        for image in images
    ]
    for tower in (network.rpn.class_tower, network.rpn.box_tower):
        levels = [pyramid_features(network, one, whole) for one in pixels]
        for number in range(len(STRIDES)):
            values = [of_image[number] for of_image in levels]
            for convolution, norms in zip(tower.convolutions, tower.norms):
                values = [convolution(value, tower.channels) for value in values]
                mean, deviation = _moments(values)
                norms[number].mean.copy_(mean[None])
                norms[number].deviation.copy_(deviation[None])
                norms[number].forget_copies()
                values = [norms[number](value).relu() for value in values]
    backbone = network.backbone
    full = narrow = [
        F.relu6(backbone.stem(one, backbone.stem.weight.shape[0], backbone.stem_norm))
        for one in pixels
    ]
    for width in network.config.widths[1:]:
        inputs, narrow = full, full
        for block in _blocks(network):
            wanted = [block.branch(value, 1.0) for value in inputs]
            found = [block.branch(value, width) for value in narrow]
            (mean, deviation), (own_mean, own_deviation) = _moments(wanted), _moments(found)
            norm, factor = block.narrow_norm, deviation / own_deviation
            row = norm.rows[round(block.hidden * width)]
            norm.weight[row] *= factor
            norm.bias[row] = norm.bias[row] * factor + mean - own_mean * factor
            norm.forget_copies()
            block.narrow.forget_copies()
            inputs = [value + y if block.has_shortcut else y for value, y in zip(inputs, wanted)]
            narrow = [block(value, width) for value in narrow]


def _moments(values: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean `[c]` over values `[1, c, h, w]`, and deviation `[c]` within each, as a norm of the image itself has it."""
    mean = torch.stack([value.mean((0, 2, 3)) for value in values]).mean(0)
    variance = torch.stack([value.var((0, 2, 3), correction=0) for value in values]).mean(0)
    return mean, (variance + _EPS).sqrt()
