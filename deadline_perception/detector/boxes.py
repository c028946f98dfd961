"""Box arithmetic: anchors, and boxes written relative to others. All boxes are xyxy in px."""
from __future__ import annotations

import math

import torch
from torch import Tensor

# Largest log scale that a decoded box may grow by; guards exp against wild outputs (a factor of 62.5).
_MAX_LOG_SCALE = math.log(1000.0 / 16.0)


def anchors(size: tuple[int, int], stride: int, sizes_px: tuple[float, ...], ratios: tuple[float, ...]) -> Tensor:
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
    rw = references[:, 2] - references[:, 0]
    rh = references[:, 3] - references[:, 1]
    bw = (boxes[:, 2] - boxes[:, 0]).clamp(min=1e-3)
    bh = (boxes[:, 3] - boxes[:, 1]).clamp(min=1e-3)
    dx = (boxes[:, 0] + bw / 2 - references[:, 0] - rw / 2) / rw
    dy = (boxes[:, 1] + bh / 2 - references[:, 1] - rh / 2) / rh
    return torch.stack((dx * weights[0], dy * weights[1], (bw / rw).log() * weights[2], (bh / rh).log() * weights[3]),
                       1)


def decode(deltas: Tensor, references: Tensor, weights: tuple[float, float, float, float]) -> Tensor:
    """Inverse of `encode`: deltas `[N, 4]` and references `[N, 4]` -> boxes `[N, 4]`."""
    rw = references[:, 2] - references[:, 0]
    rh = references[:, 3] - references[:, 1]
    cx = references[:, 0] + rw / 2 + deltas[:, 0] * (rw / weights[0])
    cy = references[:, 1] + rh / 2 + deltas[:, 1] * (rh / weights[1])
    half_w = (deltas[:, 2] / weights[2]).clamp(max=_MAX_LOG_SCALE).exp() * (rw / 2)
    half_h = (deltas[:, 3] / weights[3]).clamp(max=_MAX_LOG_SCALE).exp() * (rh / 2)
    return torch.stack((cx - half_w, cy - half_h, cx + half_w, cy + half_h), 1)


def clip(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes `[N, 4]` cut to an image of height and width `size` in px."""
    height, width = size
    limits = boxes.new_tensor((width, height, width, height))
    return torch.minimum(boxes.clamp(min=0.0), limits)
