"""The feature pyramid: the four stages' features brought to one number of channels, coarse added to fine."""
from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.detector.configuration import DetectorConfig
from deadline_perception.detector.operators import SlicedConv2d, SlicedGroupNorm


class Pyramid(nn.Module):
    """Feature pyramid network over strides 4, 8, 16 and 32, with group norm."""

    def __init__(self, config: DetectorConfig) -> None:
        super().__init__()
        self.channels = config.pyramid_channels
        group = config.norm_group_size(self.channels)
        self.laterals = nn.ModuleList(SlicedConv2d(c, self.channels, 1, bias=True) for c in config.stage_channels)
        self.outputs = nn.ModuleList(SlicedConv2d(self.channels, self.channels, 3) for _ in config.stage_channels)
        self.norms = nn.ModuleList(SlicedGroupNorm(self.channels, group, config.pyramid_widths)
                                   for _ in config.stage_channels)

    def forward(self, stages: list[Tensor], pyramid_width: float) -> list[Tensor]:
        """Features of the stages, fine to coarse -> levels `[N, c, H / s, W / s]` for s = 4, 8, 16, 32."""
        channels = round(self.channels * pyramid_width)
        merged = None
        levels = []
        for i in reversed(range(len(stages))):
            lateral = self.laterals[i](stages[i], channels)
            merged = lateral if merged is None else lateral + F.interpolate(merged, scale_factor=2.0, mode='nearest')
            levels.append(self.norms[i](self.outputs[i](merged, channels)))
        return levels[::-1]
