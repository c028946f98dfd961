"""Box arithmetic: anchors, and boxes written relative to others. All boxes are xyxy in px."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

# Largest log scale that a decoded box may grow by; guards exp against wild outputs (a factor of 62.5).
_MAX_LOG_SCALE = math.log(1000.0 / 16.0)


def anchors(
    size: tuple[int, int], stride: int, sizes_px: tuple[float, ...], ratios: tuple[float, ...]
) -> Tensor:
    """Anchors of one level, position by position.

    Args:
        size: height and width of the image in px.
        stride: px between neighbouring positions.
        sizes_px: square roots of the anchors' areas.
        ratios: height divided by width.

    Returns:
        `[H / stride * W / stride * A, 4]`, A = sizes times ratios.
    """
    shapes = [(s / math.sqrt(r), s * math.sqrt(r)) for s in sizes_px for r in ratios]
    half = torch.tensor([(-w / 2, -h / 2, w / 2, h / 2) for w, h in shapes])
    ys = (torch.arange(size[0] // stride) + 0.5) * stride
    xs = (torch.arange(size[1] // stride) + 0.5) * stride
    cy, cx = torch.meshgrid(ys, xs, indexing='ij')
    centres = torch.stack((cx, cy, cx, cy), dim=-1).reshape(-1, 1, 4)
    return (centres + half).reshape(-1, 4)


def encode(boxes: Tensor, references: Tensor, weights: tuple[float, float, float, float]) -> Tensor:
    """Boxes `[N, 4]` relative to references `[N, 4]`: centre shift over size, log of the size ratio, times weights."""
    sizes = references[:, 2:] - references[:, :2]
    own_sizes = (boxes[:, 2:] - boxes[:, :2]).clamp(min=1e-3)
    shifts = (boxes[:, :2] + own_sizes / 2 - references[:, :2] - sizes / 2) / sizes
    return torch.cat((shifts, (own_sizes / sizes).log()), 1) * _row(weights, boxes.device)


def decode(
    deltas: Tensor, references: Tensor, weights: tuple[float, float, float, float]
) -> Tensor:
    """Inverse of `encode`: deltas `[N, 4]` and references `[N, 4]` -> boxes `[N, 4]`."""
    # Both axes at once, with few operations: of some boxes each costs its call.
    sizes = references[:, 2:] - references[:, :2]
    shifts = deltas / _row(weights, deltas.device)
    centres = references[:, :2] + sizes * (shifts[:, :2] + 0.5)
    half = shifts[:, 2:].clamp(max=_MAX_LOG_SCALE).exp() * (sizes / 2)
    return torch.cat((centres - half, centres + half), 1)


def clip(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes `[N, 4]` cut to an image of height and width `size` in px."""
    height, width = size
    return torch.minimum(boxes.clamp(min=0.0), _row((width, height, width, height), boxes.device))


@cache
@torch.inference_mode(False)
def _row(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers as a float32 tensor, kept: making one costs more than computing with it, and makes a GPU wait."""
    return torch.tensor(numbers, dtype=torch.float32, device=device)
