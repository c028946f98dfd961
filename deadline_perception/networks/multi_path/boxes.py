"""Box arithmetic: boxes written relative to others. All boxes are xyxy in px."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from deadline_perception.networks.multi_path.array_forms import MAX_LOG_SCALE


def decode(
    deltas: Tensor, references: Tensor, weights: tuple[float, float, float, float]
) -> Tensor:
    """Deltas `[N, 4]` to references `[N, 4]` -> boxes `[N, 4]`: centre shift over size, log of the size ratio, times
    weights."""
    # Both axes at once, with few operations: of some boxes each costs its call.
    sizes = references[:, 2:] - references[:, :2]
    shifts = deltas / row(weights, deltas.device)
    centres = references[:, :2] + sizes * (shifts[:, :2] + 0.5)
    half = shifts[:, 2:].clamp(max=MAX_LOG_SCALE).exp() * (sizes / 2)
    return torch.cat((centres - half, centres + half), 1)


def clip(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes `[N, 4]` cut to an image of height and width `size` in px."""
    height, width = size
    return torch.minimum(boxes.clamp(min=0.0), row((width, height, width, height), boxes.device))


@cache
@torch.inference_mode(False)
def row(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers as a float32 tensor, kept: making one costs more than computing with it, and makes a GPU wait."""
    return torch.tensor(numbers, dtype=torch.float32, device=device)
