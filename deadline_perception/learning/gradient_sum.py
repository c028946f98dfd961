"""Gradients and losses added up over the processes that share a batch out."""
from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed
from torch import Tensor, nn


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
