"""The residual backbone, whose blocks can be skipped in groups and narrowed, and the feature pyramid."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.extras.faster_rcnn.configuration import DetectorConfig
from deadline_perception.extras.faster_rcnn.group_norm import sliced_norm
from deadline_perception.networks.multi_path.operators import (
    Layers,
    Skip,
    SlicedConv2d,
)

# Scale of a block's last norm at the start. At zero, a block that training often skips stays an identity.
_SKIPPABLE_GAIN = 0.5


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions, or 1x1, 3x3, 1x1 in a bottleneck, around a shortcut."""

    def __init__(
        self,
        config: DetectorConfig,
        inputs: int,
        outputs: int,
        *,
        stride: int = 1,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        inner = outputs // 4 if config.bottleneck else outputs
        kernels = (1, 3, 1) if config.bottleneck else (3, 3)
        channels = [inputs, *[inner] * (len(kernels) - 1), outputs]
        # The stride lies on the first 3x3 convolution.
        strided = kernels.index(3)
        self.convolutions = Layers(
            SlicedConv2d(channels[i], channels[i + 1], kernel, stride=stride if i == strided else 1)
            for i, kernel in enumerate(kernels)
        )
        self.norms = Layers(
            sliced_norm(
                config, channels[i + 1], config.widths, gain=gain if i == len(kernels) - 1 else 1.0
            )
            for i in range(len(kernels))
        )
        self.outputs, self.bottleneck = outputs, config.bottleneck
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = SlicedConv2d(inputs, outputs, 1, stride=stride)
            self.shortcut_norm = sliced_norm(config, outputs, config.widths)

    def forward(self, x: Tensor, width: float) -> Tensor:
        """`[N, c, H, W]` -> `[N, outputs * width, H / stride, W / stride]`."""
        outputs = round(self.outputs * width)
        inner = outputs // 4 if self.bottleneck else outputs
        y = x
        last = len(self.convolutions) - 1
        for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms)):
            y = convolution(y, outputs if i == last else inner, norm)
            if i < last:
                y = F.relu_(y)
        if self.shortcut is not None:
            x = self.shortcut(x, outputs, self.shortcut_norm)
        return F.relu_(y + x) if torch.is_grad_enabled() else F.relu_(y.add_(x))


class Stem(nn.Module):
    """From the image to features of stride 4."""

    def __init__(self, config: DetectorConfig) -> None:
        super().__init__()
        first = config.stem_channels
        self.outputs = first if config.stem_pool else config.stage_channels[0]
        self.pool = config.stem_pool
        self.first = first
        self.convolution1 = SlicedConv2d(3, first, 7 if config.stem_pool else 3, stride=2)
        self.norm1 = sliced_norm(config, first, config.widths)
        if not self.pool:
            self.convolution2 = SlicedConv2d(first, self.outputs, 3, stride=2)
            self.norm2 = sliced_norm(config, self.outputs, config.widths)

    def forward(self, image: Tensor, width: float) -> Tensor:
        """`[N, 3, H, W]`, normalised -> `[N, c, H / 4, W / 4]`."""
        x = F.relu_(self.convolution1(image, round(self.first * width), self.norm1))
        if self.pool:
            return F.max_pool2d(x, 3, 2, 1)
        return F.relu_(self.convolution2(x, round(self.outputs * width), self.norm2))


class Backbone(nn.Module):
    """Stem and four stages; each stage has blocks that always run, then groups that can be skipped.

    Attributes:
        skips: the groups of all stages, in order.
        skips_by_stage: the same, those of each stage together.
    """

    def __init__(self, config: DetectorConfig) -> None:
        super().__init__()
        self.stem = Stem(config)
        self.first_blocks: Layers[ResidualBlock] = Layers()
        self.kept_blocks: Layers[Layers[ResidualBlock]] = Layers()
        skips: list[Skip[ResidualBlock]] = []
        self.skips_by_stage: list[list[Skip[ResidualBlock]]] = []
        inputs = self.stem.outputs
        for stage, (outputs, groups) in enumerate(zip(config.stage_channels, config.skip_groups)):
            self.first_blocks.append(
                ResidualBlock(config, inputs, outputs, stride=1 if stage == 0 else 2)
            )
            self.kept_blocks.append(
                Layers(
                    ResidualBlock(config, outputs, outputs)
                    for _ in range(config.kept_blocks[stage] - 1)
                )
            )
            for size in groups:
                blocks = [
                    ResidualBlock(config, outputs, outputs, gain=_SKIPPABLE_GAIN)
                    for _ in range(size)
                ]
                skips.append(Skip(f'skip{len(skips)}', blocks))
            inputs = outputs
            self.skips_by_stage.append(skips[sum(map(len, self.skips_by_stage)) :])
        self.skips = Layers(skips)

    def kept(
        self,
        stage: int,
        x: Tensor,
        width: float,
    ) -> Tensor:
        """The part of stage 1 to 4 that always runs; stage 1 includes the stem and takes the image."""
        if stage == 1:
            x = self.stem(x, width)
        for block in (self.first_blocks[stage - 1], *self.kept_blocks[stage - 1]):
            x = block(x, width)
        return x


class Pyramid(nn.Module):
    """Feature pyramid network over strides 4, 8, 16 and 32, with norms."""

    def __init__(self, config: DetectorConfig) -> None:
        super().__init__()
        self.channels = config.pyramid_channels
        self.laterals = Layers(
            SlicedConv2d(c, self.channels, 1, bias=True) for c in config.stage_channels
        )
        self.outputs = Layers(
            SlicedConv2d(self.channels, self.channels, 3) for _ in config.stage_channels
        )
        self.norms = Layers(
            sliced_norm(config, self.channels, config.pyramid_widths) for _ in config.stage_channels
        )

    def forward(self, stages: list[Tensor], pyramid_width: float) -> list[Tensor]:
        """Features of the stages, fine to coarse -> levels `[N, c, H / s, W / s]` for s = 4, 8, 16, 32."""
        channels = round(self.channels * pyramid_width)
        merged = None
        levels = []
        for i in reversed(range(len(stages))):
            lateral = self.laterals[i](stages[i], channels)
            merged = (
                lateral
                if merged is None
                else lateral + F.interpolate(merged, scale_factor=2.0, mode='nearest')
            )
            levels.append(self.outputs[i](merged, channels, self.norms[i]))
        return levels[::-1]
