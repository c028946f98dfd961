"""The shapes that a multi-path detector can take: `compact`, `orin` and `paper`."""
from __future__ import annotations

from dataclasses import dataclass

from deadline_perception.execution_path import PathSpace


@dataclass(frozen=True)
class HeadConfig:
    """One subnet of the switch.

    Attributes:
        convolutions: number of 3x3 convolutions before the fully connected layers.
        fully_connected: width of each fully connected layer.
    """

    convolutions: int
    fully_connected: tuple[int, ...]


@dataclass(frozen=True)
class DetectorConfig:
    """Everything that decides the shape of a network, and with it its execution time.

    Attributes:
        name: name under which `CONFIGURATIONS` holds it.
        input_size: height and width in px that images are resized to, multiples of the last stage's stride 32.
        bottleneck: three-convolution blocks of ResNet-50 and deeper instead of two-convolution ones.
        stem_pool: one 7x7 convolution and max-pooling, as in ResNet, instead of two 3x3 convolutions.
        stem_channels: channels after the stem's first convolution.
        stage_channels: output channels of each stage.
        kept_blocks: per stage, number of blocks that always run, at least the first.
        skip_groups: per stage, sizes of the groups of further blocks that one skip operator each covers.
        norm_groups: groups of every group norm; 0 means as many groups of `norm_group_channels` as fit.
        norm_group_channels: channels of a group where `norm_groups` is 0.
        widths, pyramid_widths, proposals: legal choices, see `PathSpace`.
        pyramid_channels: channels of every pyramid level.
        anchor_sizes_px: per level, square roots of the anchors' areas.
        anchor_ratios: height divided by width.
        nms_candidates: at most so many anchors per level reach the proposals' suppression.
        heads: subnets of the switch, the cheapest first.
    """

    name: str
    input_size: tuple[int, int]
    bottleneck: bool
    stem_pool: bool
    stem_channels: int
    stage_channels: tuple[int, ...]
    kept_blocks: tuple[int, ...]
    skip_groups: tuple[tuple[int, ...], ...]
    norm_groups: int
    norm_group_channels: int
    widths: tuple[float, ...]
    pyramid_channels: int
    pyramid_widths: tuple[float, ...]
    anchor_sizes_px: tuple[tuple[float, ...], ...]
    anchor_ratios: tuple[float, ...]
    proposals: tuple[int, ...]
    nms_candidates: int
    heads: tuple[HeadConfig, ...]

    def __post_init__(self) -> None:
        height, width = self.input_size
        if height % 32 or width % 32 or min(height, width) < 64:
            raise ValueError(f'input_size is {self.input_size} px, expected multiples of 32 of at least 64 px')
        per_stage = (self.stage_channels, self.kept_blocks, self.skip_groups, self.anchor_sizes_px)
        if {len(values) for values in per_stage} != {4}:
            raise ValueError('expected four stages, with channels, kept blocks, skip groups and anchor sizes each')
        if min(self.kept_blocks) < 1:
            raise ValueError(f'kept_blocks is {self.kept_blocks}, expected at least 1 in each stage')
        for channels in (self.stem_channels, self.pyramid_channels, *self.stage_channels):
            for width_fraction in (*self.widths, *self.pyramid_widths):
                if not self.norm_groups and channels * width_fraction % self.norm_group_channels:
                    raise ValueError(f'{channels} channels at width {width_fraction} are no multiple of '
                                     f'{self.norm_group_channels}, the channels of a norm group')

    @property
    def path_space(self) -> PathSpace:
        """The legal execution paths."""
        return PathSpace(tuple(len(groups) for groups in self.skip_groups), self.widths, self.pyramid_widths,
                         self.proposals, len(self.heads))

    def norm_group_size(self, channels: int) -> int:
        """Channels per norm group of a layer with so many channels at full width."""
        return channels // self.norm_groups if self.norm_groups else self.norm_group_channels


COMPACT = DetectorConfig(
    name='compact', input_size=(384, 640), bottleneck=False, stem_pool=False, stem_channels=32,
    stage_channels=(64, 128, 256, 320), kept_blocks=(1, 1, 1, 1), skip_groups=((1,), (2,), (1, 2), (1,)),
    norm_groups=0, norm_group_channels=8, widths=(1.0, 0.75, 0.5, 0.25),
    pyramid_channels=64, pyramid_widths=(1.0, 0.5),
    anchor_sizes_px=((8, 14), (22, 34), (50, 75), (110, 165)), anchor_ratios=(0.75, 2.0),
    proposals=(10, 25, 50, 100, 200, 300), nms_candidates=300,
    heads=(HeadConfig(0, (128, 128)), HeadConfig(2, (256,)), HeadConfig(4, (256,))))

# Between `compact` and `paper`, for an embedded GPU.
ORIN = DetectorConfig(
    name='orin', input_size=(512, 864), bottleneck=True, stem_pool=True, stem_channels=64,
    stage_channels=(256, 512, 1024, 2048), kept_blocks=(1, 1, 1, 1), skip_groups=((2,), (3,), (2, 3), (2,)),
    norm_groups=0, norm_group_channels=16, widths=(1.0, 0.75, 0.5),
    pyramid_channels=128, pyramid_widths=(1.0, 0.5),
    anchor_sizes_px=((16, 24), (32, 48), (64, 96), (128, 224)), anchor_ratios=(0.5, 1.0, 2.0),
    proposals=(25, 50, 100, 200, 500), nms_candidates=500,
    heads=(HeadConfig(0, (512, 512)), HeadConfig(2, (512,)), HeadConfig(4, (1024,))))

# Multi-path paper, section VI: ResNet-101-FPN with group norm, five skips, one switch, BDD100K's scale of 540 px
# (544, a multiple of 32). Skips lie in the stages with the most blocks; widths are not part of the paper.
PAPER = DetectorConfig(
    name='paper', input_size=(544, 960), bottleneck=True, stem_pool=True, stem_channels=64,
    stage_channels=(256, 512, 1024, 2048), kept_blocks=(3, 1, 1, 1), skip_groups=((), (3,), (7, 7, 8), (2,)),
    norm_groups=32, norm_group_channels=0, widths=(1.0,),
    pyramid_channels=256, pyramid_widths=(1.0,),
    anchor_sizes_px=((32,), (64,), (128,), (256,)), anchor_ratios=(0.5, 1.0, 2.0),
    proposals=(50, 100, 200, 300, 500, 1000), nms_candidates=1000,
    heads=(HeadConfig(0, (1024, 1024)), HeadConfig(2, (1024,)), HeadConfig(4, (1024,))))

CONFIGURATIONS = {config.name: config for config in (COMPACT, ORIN, PAPER)}
