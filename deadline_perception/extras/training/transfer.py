"""Tensors on their way: from the CPU to the device that trains, and between processes that share a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.extras.training.samples import Sample


def to_device(values: np.ndarray, device: torch.device) -> Tensor:
    """The values on a device; on a CPU they share the array's memory.

    A GPU copies from page-locked memory while the CPU goes on, in the order of the other work that it was given.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    return (
        tensor.pin_memory().to(device, non_blocking=True)
        if device.type == 'cuda'
        else tensor.to(device)
    )


def to_batch(samples: Sequence[Sample], device: torch.device) -> Tensor:
    """Samples -> pixel values `[N, 3, h, w]` float32, channels last."""
    return (
        to_device(np.stack([sample.image_bgr for sample in samples]), device)
        .permute(0, 3, 1, 2)
        .float()
    )


def resized(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Images `[N, 3, H, W]` at another height and width in px, channels last; interpolated as frames are."""
    if images.shape[-2:] != size:
        images = F.interpolate(images, size=size, mode='bilinear', align_corners=False)
    return images.contiguous(memory_format=torch.channels_last)


def add_up_gradients(parameters: Iterable[nn.Parameter], values: Tensor) -> Tensor:
    """Replaces every gradient by its sum over all processes; returns the sum of the values `[V]` float32.

    One plain all-reduce at the end of a step: a step has a backward pass per path, and each reaches other parameters,
    which DistributedDataParallel's hooks are not made for. All processes must call it with gradients of the same
    parameters; it blocks until they have, and all get the same bits.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    joined = torch.cat([*(gradient.reshape(-1) for gradient in gradients), values])
    torch.distributed.all_reduce(joined)
    *parts, summed = joined.split([*(gradient.numel() for gradient in gradients), len(values)])
    for gradient, part in zip(gradients, parts):
        gradient.copy_(part.view(gradient.shape))
    return summed


def in_bfloat16(device: torch.device, wanted: bool = True) -> torch.autocast:
    """Convolutions and products inside take bfloat16, where the device computes in it; one CPU that only emulates it
    took 13 times as long."""
    has = device.type != 'cpu' or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.autocast(device.type, torch.bfloat16, enabled=wanted and has)
