"""ImageNet weights of torchvision's ResNets as a start of a backbone whose blocks are theirs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.extras.faster_rcnn.backbone import Backbone
from deadline_perception.extras.faster_rcnn.group_norm import SlicedGroupNorm
from deadline_perception.extras.state_dict import read_state_dict
from deadline_perception.extras.training.weights_start import WeightsStart
from deadline_perception.networks.multi_path.checkpoint import check_finite
from deadline_perception.networks.multi_path.operators import (
    SlicedConv2d,
    SlicedFrozenNorm,
    SlicedNorm,
)
from deadline_perception.networks.weights_file import CheckpointError

_BATCH_NORM_EPS = 1e-5  # torchvision's default


def start_from_resnet(backbone: Backbone, file: Path) -> WeightsStart:
    """Fills a backbone with the weights of a ResNet, as far as both have the same layers; all or nothing.

    Frozen norms take over a ResNet's batch norms as they are. Where the network has group norms, convolutions are
    divided by the standard deviation that the batch norm has kept for each channel, and the group norm's scale and
    shift are set so that it gives what the batch norm gave on images with just those statistics; on others it differs,
    which training evens out. The stem's input channels change places, from RGB to BGR.

    Args:
        backbone: with bottleneck or basic blocks and a ResNet's stem (`stem_pool`).
        file: state_dict of torchvision's `resnet18` to `resnet152`, as `torch.save` writes it.

    Raises:
        CheckpointError: the file is missing, unreadable, no state_dict of a ResNet, or holds NaN or infinity.
        ValueError: the backbone has another stem, or a layer another shape than in the file.
    """
    if not backbone.stem.pool:
        raise ValueError(
            'the backbone has a stem of two 3x3 convolutions, expected the 7x7 of a ResNet (stem_pool)'
        )
    stored = _read(Path(file))
    layers = list(_layers(backbone))
    taken = [layer for layer in layers if f'{layer[0]}.weight' in stored]
    for convolution, batch_norm, layer, _ in taken:
        shape = tuple(stored[f'{convolution}.weight'].shape)
        if shape != tuple(layer.weight.shape):
            raise ValueError(
                f'{convolution}.weight of {file} has shape {shape}, expected {tuple(layer.weight.shape)}'
            )
        for part in ('weight', 'bias', 'running_mean', 'running_var'):
            if tuple(stored.get(f'{batch_norm}.{part}', torch.empty(0)).shape) != shape[:1]:
                raise ValueError(
                    f'{batch_norm}.{part} of {file} is absent or of another shape, expected {shape[:1]}'
                )
    for convolution, batch_norm, layer, norm in taken:
        _fill(
            layer,
            norm,
            stored[f'{convolution}.weight'],
            *(
                stored[f'{batch_norm}.{part}']
                for part in ('weight', 'bias', 'running_mean', 'running_var')
            ),
        )
    backbone.train(backbone.training)  # drops slices of the old weights
    names = {name for convolution, batch_norm, *_ in taken for name in (convolution, batch_norm)}
    return WeightsStart(
        taken=f'{len(taken)} convolutions taken, with their batch norms',
        absent=tuple(layer[0] for layer in layers if f'{layer[0]}.weight' not in stored),
        unused=tuple(name for name in stored if name.rpartition('.')[0] not in names),
        absent_are='random',
    )


def _read(file: Path) -> dict[str, Tensor]:
    try:
        stored = read_state_dict(file)
    except FileNotFoundError:
        raise CheckpointError(f'weights file {file} does not exist') from None
    except (OSError, FileRefused) as error:
        raise CheckpointError(
            f'weights file {file} cannot be read as a state_dict: {error}'
        ) from error
    if 'conv1.weight' not in stored:
        raise CheckpointError(
            f'weights file {file} holds no conv1.weight among tensors, '
            f'expected a state_dict of a torchvision ResNet'
        )
    return check_finite(stored, file)


def _layers(backbone: Backbone) -> Iterator[tuple[str, str, SlicedConv2d, SlicedNorm]]:
    """Torchvision's names of a convolution and of its batch norm, and what stands in their places."""
    yield 'conv1', 'bn1', backbone.stem.convolution1, backbone.stem.norm1
    for stage, skips in enumerate(backbone.skips_by_stage):
        blocks = [
            backbone.first_blocks[stage],
            *backbone.kept_blocks[stage],
            *itertools.chain(*(s.blocks for s in skips)),
        ]
        for index, block in enumerate(blocks):
            name = f'layer{stage + 1}.{index}'
            for number, (convolution, norm) in enumerate(zip(block.convolutions, block.norms), 1):
                yield f'{name}.conv{number}', f'{name}.bn{number}', convolution, norm
            if block.shortcut is not None:
                yield (
                    f'{name}.downsample.0',
                    f'{name}.downsample.1',
                    block.shortcut,
                    block.shortcut_norm,
                )


@torch.no_grad()
def _fill(
    layer: SlicedConv2d,
    norm: SlicedNorm,
    weight: Tensor,
    scale: Tensor,
    shift: Tensor,
    mean: Tensor,
    variance: Tensor,
) -> None:
    deviation = (variance + _BATCH_NORM_EPS).sqrt()
    if weight.shape[1] == 3:
        weight = weight.flip(1)
    if isinstance(norm, SlicedFrozenNorm):
        layer.weight.copy_(weight)
        for part, values in (
            (norm.weight, scale),
            (norm.bias, shift),
            (norm.mean, mean),
            (norm.deviation, deviation),
        ):
            part.copy_(values.expand_as(part))
        return
    assert isinstance(norm, SlicedGroupNorm)
    layer.weight.copy_(weight / deviation.view(-1, 1, 1, 1))
    mean, variance = mean / deviation, variance / deviation**2  # of what the layer gives now
    groups = (-1, norm.group_channels)
    group_mean = mean.view(groups).mean(1)
    group_variance = (variance + mean**2).view(groups).mean(1) - group_mean**2
    group_mean = group_mean.repeat_interleave(norm.group_channels)
    group_deviation = (
        (group_variance + _BATCH_NORM_EPS).sqrt().repeat_interleave(norm.group_channels)
    )
    norm.weight.copy_((scale * group_deviation).expand_as(norm.weight))
    norm.bias.copy_((shift + scale * (group_mean - mean)).expand_as(norm.bias))
