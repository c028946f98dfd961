"""MobileNetV2 whose blocks can be skipped and narrowed within, and a feature pyramid of five levels.

Source: Sandler et al. 2018 (inverted residuals); Lin et al. 2017 (pyramid). Between blocks all channels are kept,
so that weights of the whole network serve narrower ones; within blocks a prefix of the widened channels is used.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.engines.sliced_layers import Cut
from deadline_perception.networks.multi_path.dense.configuration import (
    EXPANSION,
    PYRAMID_STAGES,
    STAGE_CHANNELS,
    STAGE_STRIDES,
    STRIDES,
    DenseConfig,
)
from deadline_perception.networks.multi_path.operators import (
    Layers,
    Skip,
    SlicedConv2d,
    SlicedFrozenNorm,
)

_STEM_CHANNELS = 32
_STEM_OUTPUTS = 16


class ProjectionNorm(SlicedFrozenNorm):
    """The norm of a block's last convolution, which keeps all its outputs: a row for each number of its inputs.

    Args:
        outputs: channels.
        inputs: of the convolution before it, at full width.
        widths: the fractions of the inputs that will be used.
    """

    def __init__(
        self,
        outputs: int,
        inputs: int,
        widths: tuple[float, ...],
    ) -> None:
        super().__init__(outputs, widths)
        self.rows = {round(inputs * width): row for row, width in enumerate(widths)}

    def row(self, cut: Cut) -> int:
        """See `SlicedLayer`."""
        return self.rows[cut.kept[1]]


class InvertedResidual(nn.Module):
    """A 1x1 convolution that widens, a 3x3 one of each channel for itself, a 1x1 one that narrows again.

    Args:
        hidden: channels between inputs and outputs, at full width.
        stride: of the convolution in the middle, in px; with 1 and as many outputs as inputs there is a shortcut.
    """

    def __init__(
        self,
        config: DenseConfig,
        inputs: int,
        outputs: int,
        *,
        hidden: int,
        stride: int = 1,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.widen = SlicedConv2d(inputs, hidden, 1)
        self.widen_norm = SlicedFrozenNorm(hidden, config.widths)
        self.middle = SlicedConv2d(hidden, hidden, 3, stride=stride, groups=hidden)
        self.middle_norm = SlicedFrozenNorm(hidden, config.widths)
        self.narrow = SlicedConv2d(hidden, outputs, 1)
        self.narrow_norm = ProjectionNorm(outputs, hidden, config.widths)
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor, width: float) -> Tensor:
        """`[N, inputs, H, W]` -> `[N, outputs, H / stride, W / stride]`, by a fraction of the hidden channels."""
        y = self.branch(x, width)
        return x + y if self.has_shortcut else y

    def branch(self, x: Tensor, width: float) -> Tensor:
        """The same without the shortcut."""
        y = F.relu6(self.widen(x, round(self.hidden * width), self.widen_norm))
        y = F.relu6(self.middle(y, y.shape[1], self.middle_norm))
        return self.narrow(y, self.narrow.weight.shape[0], self.narrow_norm)


class DenseBackbone(nn.Module):
    """Stem and six stages; each stage has a part that always runs, then groups that can be skipped.

    Attributes:
        skips: the groups of all stages, in order.
    """

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.stem = SlicedConv2d(3, _STEM_CHANNELS, 3, stride=2)
        self.stem_norm = SlicedFrozenNorm(_STEM_CHANNELS, (1.0,))
        self.first = InvertedResidual(config, _STEM_CHANNELS, _STEM_OUTPUTS, hidden=_STEM_CHANNELS)
        self.kept_blocks: Layers[InvertedResidual] = Layers()
        skips: list[Skip[InvertedResidual]] = []
        inputs = _STEM_OUTPUTS
        stride = 2
        for channels, stage_stride, groups in zip(
            STAGE_CHANNELS, STAGE_STRIDES, config.skip_groups
        ):
            self.kept_blocks.append(
                InvertedResidual(
                    config,
                    inputs,
                    channels,
                    hidden=EXPANSION * inputs,
                    stride=stage_stride // stride,
                )
            )
            for size in groups:
                skips.append(
                    Skip(
                        f'skip{len(skips)}',
                        [
                            InvertedResidual(
                                config, channels, channels, hidden=EXPANSION * channels
                            )
                            for _ in range(size)
                        ],
                    )
                )
            inputs = channels
            stride = stage_stride
        self.skips = Layers(skips)

    def kept(
        self,
        stage: int,
        x: Tensor,
        width: float,
    ) -> Tensor:
        """The part of stage 1 to 6 that always runs; stage 1 includes the stem and takes the image."""
        if stage == 1:
            x = F.relu6(self.stem(x, _STEM_CHANNELS, self.stem_norm))
            x = self.first(x, width)
        return self.kept_blocks[stage - 1](x, width)


class DensePyramid(nn.Module):
    """Feature pyramid network over strides 8, 16 and 32, with two levels more, of strides 64 and 128, behind it."""

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.channels = channels = config.pyramid_channels
        self.laterals = Layers(
            SlicedConv2d(STAGE_CHANNELS[stage - 1], channels, 1, bias=True)
            for stage in PYRAMID_STAGES
        )
        self.outputs = Layers(
            SlicedConv2d(channels, channels, 3, bias=True) for _ in PYRAMID_STAGES
        )
        self.coarser = Layers(
            SlicedConv2d(channels, channels, 3, stride=2, bias=True)
            for _ in STRIDES[len(PYRAMID_STAGES) :]
        )

    def forward(self, stages: list[Tensor]) -> list[Tensor]:
        """Features of the stages that it reads, fine to coarse -> levels `[N, c, H / s, W / s]` of `STRIDES`."""
        merged = None
        levels = []
        for i in reversed(range(len(stages))):
            lateral = self.laterals[i](stages[i], self.channels)
            merged = (
                lateral
                if merged is None
                else lateral + F.interpolate(merged, size=lateral.shape[2:], mode='nearest')
            )
            levels.append(self.outputs[i](merged, self.channels))
        levels.reverse()
        for convolution in self.coarser:
            finer = levels[-1]
            if (
                finer.shape[3] == 1
            ):  # on a CPU, PyTorch 2.15's bfloat16 gradient of such rows reads what nobody wrote
                finer = F.pad(finer, (0, 1))
            levels.append(convolution(finer, self.channels))
        return levels
