"""The layers of YOLOX-Nano: a CSP backbone, a feature pyramid in both directions, and a decoupled head.

Source: Ge et al. 2021 (YOLOX), with the depth and width of its Nano model and its depthwise convolutions. Batch norms
are part of the convolutions, as in the published file.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Channels at strides 2, 4, 8, 16 and 32, and blocks of the stages at strides 4 to 32.
_CHANNELS = (16, 32, 64, 128, 256)
_BLOCKS = (1, 3, 3, 1)
_HEAD_CHANNELS = 64
_POOLS = (5, 9, 13)  # sides of the windows of spatial pyramid pooling


ACTIVATIONS = {'silu': nn.SiLU, 'hard_swish': nn.Hardswish}


class Unit(nn.Sequential):
    """A convolution with a bias, and SiLU or what `YoloxDetector` puts in its place."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 1,
        *,
        stride: int = 1,
        groups: int = 1,
    ) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups),
            nn.SiLU(),
        )


class DepthwiseUnit(nn.Sequential):
    """A 3x3 convolution of each channel for itself, and a 1x1 one across channels."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        stride: int = 1,
    ) -> None:
        super().__init__(
            Unit(inputs, inputs, 3, stride=stride, groups=inputs), Unit(inputs, outputs)
        )


class Bottleneck(nn.Module):
    """A 1x1 convolution and a depthwise 3x3 one that keep the channels, with or without a shortcut."""

    def __init__(self, channels: int, *, has_shortcut: bool) -> None:
        super().__init__()
        self.before = Unit(channels, channels)
        self.depthwise = DepthwiseUnit(channels, channels)
        self.has_shortcut = has_shortcut

    def forward(self, x: Tensor) -> Tensor:
        """`[N, c, H, W]` -> the same shape."""
        y = self.depthwise(self.before(x))
        return x + y if self.has_shortcut else y


class CspLayer(nn.Module):
    """Half of the channels passes blocks, half does not, and both are joined (Wang et al. 2020, CSPNet)."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        blocks: int,
        *,
        has_shortcuts: bool,
    ) -> None:
        super().__init__()
        hidden = outputs // 2
        self.main = Unit(inputs, hidden)
        self.bypass = Unit(inputs, hidden)
        self.blocks = nn.Sequential(
            *(Bottleneck(hidden, has_shortcut=has_shortcuts) for _ in range(blocks))
        )
        self.joined = Unit(2 * hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, inputs, H, W]` -> `[N, outputs, H, W]`."""
        return self.joined(torch.cat((self.blocks(self.main(x)), self.bypass(x)), 1))


class SpatialPyramidPooling(nn.Module):
    """Maxima over windows of three sizes beside the features themselves (He et al. 2014)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before = Unit(channels, channels // 2)
        self.after = Unit(channels // 2 * (1 + len(_POOLS)), channels)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, c, H, W]` -> the same shape."""
        x = self.before(x)
        pooled = [F.max_pool2d(x, side, stride=1, padding=side // 2) for side in _POOLS]
        return self.after(torch.cat((x, *pooled), 1))


class Backbone(nn.Module):
    """Stem and four stages, each of half the size of the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Unit(12, _CHANNELS[0], 3)
        stages = []
        for inputs, outputs, blocks in zip(_CHANNELS, _CHANNELS[1:], _BLOCKS):
            is_last = outputs == _CHANNELS[-1]
            stages.append(
                nn.Sequential(
                    DepthwiseUnit(inputs, outputs, stride=2),
                    *([SpatialPyramidPooling(outputs)] if is_last else []),
                    CspLayer(outputs, outputs, blocks, has_shortcuts=not is_last),
                )
            )
        self.stages = nn.ModuleList(stages)

    def forward(self, pixels: Tensor) -> list[Tensor]:
        """BGR 0 to 255 `[N, 3, H, W]` -> features of strides 8, 16 and 32, `[N, c, H / s, W / s]`."""
        # In the file, four pixels of a square are channels: left above, left below, right above, right below. As one
        # convolution of 6x6 pixels the same takes less time.
        layer = self.stem[0]
        assert isinstance(layer, nn.Conv2d)
        # Output, right, below, colour, row, column.
        by_corner = layer.weight.unflatten(1, (2, 2, 3))
        kernel = by_corner.permute(0, 3, 4, 2, 5, 1).reshape(-1, 3, 6, 6)
        x = self.stem[1](F.conv2d(pixels, kernel, layer.bias, stride=2, padding=2))
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        return features[1:]


class Neck(nn.Module):
    """Feature pyramid from coarse to fine and back (Liu et al. 2018, PANet)."""

    def __init__(self) -> None:
        super().__init__()
        fine, middle, coarse = _CHANNELS[2:]
        self.coarse_lateral = Unit(coarse, middle)
        self.down_middle = CspLayer(2 * middle, middle, 1, has_shortcuts=False)
        self.middle_lateral = Unit(middle, fine)
        self.down_fine = CspLayer(2 * fine, fine, 1, has_shortcuts=False)
        self.to_middle = DepthwiseUnit(fine, fine, stride=2)
        self.up_middle = CspLayer(2 * fine, middle, 1, has_shortcuts=False)
        self.to_coarse = DepthwiseUnit(middle, middle, stride=2)
        self.up_coarse = CspLayer(2 * middle, coarse, 1, has_shortcuts=False)

    def forward(self, features: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """What the backbone gives -> the same shapes."""
        fine, middle, coarse = features
        coarse = self.coarse_lateral(coarse)
        middle = self.middle_lateral(self.down_middle(_joined(_doubled(coarse), middle)))
        fine = self.down_fine(_joined(_doubled(middle), fine))
        middle = self.up_middle(_joined(self.to_middle(fine), middle))
        return fine, middle, self.up_coarse(_joined(self.to_coarse(middle), coarse))


def _doubled(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode='nearest')


def _joined(*values: Tensor) -> Tensor:
    return torch.cat(values, 1)


class LevelHead(nn.Module):
    """Classes and boxes of one level of the pyramid, by layers of their own.

    Args:
        inputs: channels of the level.
        classes: number of classes of the weights.
    """

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        channels = _HEAD_CHANNELS
        self.stem = Unit(inputs, channels)
        self.class_tower = nn.Sequential(*(DepthwiseUnit(channels, channels) for _ in range(2)))
        self.box_tower = nn.Sequential(*(DepthwiseUnit(channels, channels) for _ in range(2)))
        self.classes = nn.Conv2d(channels, classes, 1)
        self.boxes = nn.Conv2d(channels, 4, 1)
        self.objectness = nn.Conv2d(channels, 1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`[N, inputs, H, W]` -> boxes `[N, 4, H, W]`, logits of being an object `[N, 1, H, W]` and of each class given
        that `[N, classes, H, W]`. A box is the offset of its centre from its cell, and the logarithm of its size, in
        strides."""
        x = self.stem(x)
        of_box = self.box_tower(x)
        return self.boxes(of_box), self.objectness(of_box), self.classes(self.class_tower(x))


class Head(nn.Module):
    """A `LevelHead` for each level, fine to coarse."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList(LevelHead(inputs, classes) for inputs in _CHANNELS[2:])

    def forward(self, levels: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What the neck gives -> boxes, objectness and classes of each level, one level after the other."""
        return tuple(value for level, head in zip(levels, self.levels) for value in head(level))
