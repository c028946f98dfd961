"""Boxes written as a network gives them."""

from __future__ import annotations

import torch
from torch import Tensor

from deadline_perception.networks.multi_path.boxes import row


def encode(boxes: Tensor, references: Tensor, weights: tuple[float, float, float, float]) -> Tensor:
    """Boxes `[N, 4]` relative to references `[N, 4]`: centre shift over size, log of the size ratio, times weights."""
    sizes = references[:, 2:] - references[:, :2]
    own_sizes = (boxes[:, 2:] - boxes[:, :2]).clamp(min=1e-3)
    shifts = (boxes[:, :2] + own_sizes / 2 - references[:, :2] - sizes / 2) / sizes
    return torch.cat((shifts, (own_sizes / sizes).log()), 1) * row(weights, boxes.device)
