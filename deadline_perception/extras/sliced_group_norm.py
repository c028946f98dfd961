"""Group norm as a layer of which a part of the channels is used."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.engines.sliced_layers import Axes, Cut, Norm


class GroupNorm(Norm):
    """Group norm of which whole groups are kept, so that each keeps its statistics.

    Args:
        axes: see `SlicedLayer`.
        layer: `nn.GroupNorm`.

    Attributes:
        group_channels: channels of one group.
        eps: added to variances.
    """

    eps = 1e-5

    def __init__(self, axes: Axes, layer: nn.GroupNorm) -> None:
        super().__init__(axes, layer)
        self.group_channels, self.eps = layer.num_channels // layer.num_groups, layer.eps

    def forward(self, x: Tensor, cut: Cut) -> Tensor:
        """`[N, c, ...]` -> the same shape."""
        weight, bias = self.used(cut)
        groups = max(1, x.shape[1] // self.group_channels)
        if not (x.is_cuda and torch.is_autocast_enabled('cuda')):
            return F.group_norm(x, groups, weight, bias, self.eps)
        # Autocast would compute norms in float32 here and hand float32 features on, twice as much to move.
        with torch.autocast('cuda', enabled=False):
            weight, bias = (None if part is None else part.to(x.dtype) for part in (weight, bias))
            return F.group_norm(x, groups, weight, bias, self.eps)
