"""Group norm over a prefix of channels, and which norm a shape asks for."""

from __future__ import annotations

from torch import Tensor, nn

from deadline_perception.engines.sliced_layers import Cut
from deadline_perception.extras.faster_rcnn.configuration import DetectorConfig
from deadline_perception.extras.sliced_group_norm import GroupNorm
from deadline_perception.networks.multi_path.operators import (
    SlicedFrozenNorm,
    SlicedNorm,
    prefix,
)


class SlicedGroupNorm(SlicedNorm, GroupNorm):
    """Group norm whose groups hold a fixed number of channels, so that a prefix of channels keeps its groups.

    Args:
        channels, widths: see `SlicedNorm`.
        group_channels: channels of one group.
    """

    def __init__(
        self,
        channels: int,
        group_channels: int,
        widths: tuple[float, ...],
    ) -> None:
        super().__init__(channels, widths)
        self.group_channels = group_channels

    def forward(self, x: Tensor, cut: Cut | None = None) -> Tensor:
        """`[N, c, H, W]` -> the same shape; c is one of the layer's widths. The cut follows from it."""
        return super().forward(x, prefix(x.shape[1]))


def sliced_norm(
    config: DetectorConfig,
    channels: int,
    widths: tuple[float, ...],
    *,
    gain: float = 1.0,
) -> SlicedNorm:
    """The kind of norm that a configuration asks for, over so many channels at full width; `gain` is its first scale."""
    norm: SlicedNorm
    if config.norm == 'group':
        norm = SlicedGroupNorm(channels, config.norm_group_size(channels), widths)
    else:
        norm = SlicedFrozenNorm(channels, widths)
    nn.init.constant_(norm.weight, gain)
    return norm
