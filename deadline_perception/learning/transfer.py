"""Brings what the CPU chose to the device that trains, without waiting for it."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from deadline_perception.learning.samples import Sample


def to_device(values: np.ndarray, device: torch.device) -> Tensor:
    """The values on a device; on a CPU they share the array's memory.

    A GPU copies from page-locked memory while the CPU goes on, in the order of the other work that it was given.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == 'cuda' else tensor.to(device)


def to_batch(samples: Sequence[Sample], device: torch.device) -> Tensor:
    """Samples -> pixel values `[N, 3, h, w]` float32, channels last."""
    return to_device(np.stack([sample.image_bgr for sample in samples]), device).permute(0, 3, 1, 2).float()
