"""The shapes that a multi-path Faster R-CNN can take: `compact`, `orin`, `paper`, and others read from a file."""

from __future__ import annotations

import reprlib
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from deadline_perception.core.decoding import Number
from deadline_perception.core.execution_path import PathSpace
from deadline_perception.extras.faster_rcnn.declaration import multi_path_space
from deadline_perception.networks.multi_path.declaration import check_sizes
from deadline_perception.networks.multi_path.shape import DetectorShape, HeadConfig

# A configuration may come with a file from anywhere: it must not decide how much memory a process takes. The limits lie
# an order of magnitude above the largest published networks.
_MOST_BLOCKS = 1000
_MOST_CHANNELS = 10_000
_MOST_PATHS = 2**20
_MOST_SIDE_PX = 2**15
_MOST_WIDTHS = 16  # each keeps copies of the weights
_NORMS = ('group', 'frozen')
_MOST_PROPOSALS = 10_000
_MOST_ANCHORS = 2**22
_MOST_FEATURES = 2**27  # values in one tensor of features, 0.5 GB as float32
_REGION_BINS = 7 * 7


@dataclass(frozen=True)
class DetectorConfig(DetectorShape):
    """Everything that decides the shape of a network, and with it its execution time.

    Attributes:
        name: see `Shape`.
        input_size: height and width in px of its largest input, multiples of the last stage's stride of 32 px.
        bottleneck: three-convolution blocks of ResNet-50 and deeper instead of two-convolution ones.
        stem_pool: one 7x7 convolution and max-pooling, as in ResNet, instead of two 3x3 convolutions.
        stem_channels: channels after the stem's first convolution.
        stage_channels: output channels of each stage.
        kept_blocks: per stage, number of blocks that always run, at least the first.
        skip_groups: per stage, sizes of the groups of further blocks that one skip operator each covers.
        norm_groups: groups of every group norm; 0 means as many groups of `norm_group_channels` as fit.
        norm_group_channels: channels of a group where `norm_groups` is 0.
        widths, pyramid_widths, proposals: legal choices, see `multi_path_space`.
        pyramid_channels: channels of every pyramid level.
        anchor_sizes_px: per level, square roots of the anchors' areas.
        anchor_ratios: height divided by width.
        nms_candidates: at most so many anchors per level reach the proposals' suppression.
        heads: subnets of the switch, the cheapest first.
        norm: `group`, which needs the statistics of every image, or `frozen`, whose statistics are part of the weights,
            so that it is folded into the convolution before it and takes no time.
        scales: fractions of `input_size` to choose from, see `multi_path_space`; sides are multiples of 32 px.

    Raises:
        ValueError: a value lies outside its range, the network would be larger than any that is known, or the channels
            do not divide into norm groups at every width.
    """

    input_size: tuple[int, int]
    bottleneck: bool
    stem_pool: bool
    stem_channels: int
    stage_channels: tuple[int, ...]
    kept_blocks: tuple[int, ...]
    skip_groups: tuple[tuple[int, ...], ...]
    norm_groups: int
    norm_group_channels: int
    widths: tuple[Number, ...]
    pyramid_channels: int
    pyramid_widths: tuple[Number, ...]
    anchor_sizes_px: tuple[tuple[Number, ...], ...]
    anchor_ratios: tuple[Number, ...]
    proposals: tuple[int, ...]
    nms_candidates: int
    heads: tuple[HeadConfig, ...]
    norm: str = 'group'
    scales: tuple[Number, ...] = (1.0,)

    network = 'deadline_perception.extras.faster_rcnn.network:FasterRcnn'
    outline = 'deadline_perception.extras.faster_rcnn.outline:FasterRcnnOutline'

    def __post_init__(self) -> None:
        per_stage = (self.stage_channels, self.kept_blocks, self.skip_groups, self.anchor_sizes_px)
        if {len(values) for values in per_stage} != {4}:
            raise ValueError(
                'expected four stages, with channels, kept blocks, skip groups and anchor sizes each'
            )
        if min(self.kept_blocks) < 1:
            raise ValueError(
                f'kept_blocks is {self.kept_blocks}, expected at least 1 in each stage'
            )
        if any(size < 1 for groups in self.skip_groups for size in groups):
            raise ValueError(
                f'skip_groups is {reprlib.repr(self.skip_groups)}, expected at least 1 block in each '
                f'group'
            )
        if self.nms_candidates < 1:
            raise ValueError(f'nms_candidates is {self.nms_candidates}, expected at least 1')
        if self.norm not in _NORMS:
            raise ValueError(
                f'norm is {reprlib.repr(self.norm)}, expected one of {", ".join(_NORMS)}'
            )
        self._check_size()
        self._check_anchors()
        self.path_space  # raises where a choice is out of order
        check_sizes(self.input_size, self.scales, _MOST_SIDE_PX)
        self._check_channels()

    def _check_size(self) -> None:
        skips = sum(len(groups) for groups in self.skip_groups)
        fully_connected = [width for head in self.heads for width in head.fully_connected]
        most_proposals = max(self.proposals, default=0)
        pixels = self.input_size[0] * self.input_size[1]
        # In 1024ths per pixel: the image at stride 1, the stem at 2, stages at 4, 8, 16 and 32, the pyramid at 4 first.
        density = max(
            3 * 1024,
            256 * self.stem_channels,
            64 * self.pyramid_channels,
            *(channels * 4 ** (3 - stage) for stage, channels in enumerate(self.stage_channels)),
        )
        per_region = max(_REGION_BINS * self.pyramid_channels, *fully_connected, 1)
        anchors = (
            max(len(sizes) for sizes in self.anchor_sizes_px)
            * len(self.anchor_ratios)
            * pixels
            // 12
        )
        for what, size, most in (
            (
                'number of channels',
                max(
                    self.stem_channels,
                    self.pyramid_channels,
                    *self.stage_channels,
                    *fully_connected,
                    1,
                ),
                _MOST_CHANNELS,
            ),
            (
                'number of blocks',
                sum(self.kept_blocks) + sum(map(sum, self.skip_groups)),
                _MOST_BLOCKS,
            ),
            (
                'number of paths',
                2 ** min(skips, 100)
                * len(self.widths)
                * len(self.pyramid_widths)
                * len(self.proposals)
                * len(self.heads)
                * len(self.scales),
                _MOST_PATHS,
            ),
            ('number of widths', max(len(self.widths), len(self.pyramid_widths)), _MOST_WIDTHS),
            (
                'number of head layers',
                len(fully_connected) + sum(head.convolutions for head in self.heads),
                _MOST_BLOCKS,
            ),
            ('largest number of proposals', most_proposals, _MOST_PROPOSALS),
            ('nms_candidates', self.nms_candidates, _MOST_PROPOSALS),
            ('number of anchors', anchors, _MOST_ANCHORS),
            (
                'number of features',
                max(pixels * density // 1024, most_proposals * per_region),
                _MOST_FEATURES,
            ),
        ):
            if size > most:
                raise ValueError(f'{what} is {reprlib.repr(size)}, expected at most {most}')

    def _check_anchors(self) -> None:
        sizes = [size for level in self.anchor_sizes_px for size in level]
        if not sizes or len({len(level) for level in self.anchor_sizes_px}) != 1 or min(sizes) <= 0:
            raise ValueError(
                f'anchor_sizes_px is {self.anchor_sizes_px}, expected as many sizes above 0 px per level'
            )
        if not self.anchor_ratios or min(self.anchor_ratios) <= 0:
            raise ValueError(
                f'anchor_ratios is {self.anchor_ratios}, expected at least one, above 0'
            )

    def _check_channels(self) -> None:
        layers = (self.stem_channels, self.pyramid_channels, *self.stage_channels)
        if min(layers) < 1 or (
            self.bottleneck and any(channels % 4 for channels in self.stage_channels)
        ):
            raise ValueError(
                f'channels are {layers}, expected at least 1, and multiples of 4 in bottleneck stages'
            )
        if self.norm_groups < 0 or (self.norm_groups == 0 and self.norm_group_channels < 1):
            raise ValueError(
                f'norm_groups is {self.norm_groups} and norm_group_channels is '
                f'{self.norm_group_channels}, expected one of them to be at least 1'
            )
        inner = [channels // 4 for channels in self.stage_channels if self.bottleneck]
        widths = {
            channels: self.widths for channels in (self.stem_channels, *self.stage_channels, *inner)
        }
        widths[self.pyramid_channels] = (
            *widths.get(self.pyramid_channels, ()),
            *self.pyramid_widths,
        )
        for channels in widths:
            if self.norm_groups and channels % self.norm_groups:
                raise ValueError(
                    f'{channels} channels are no multiple of {self.norm_groups}, the number of norm '
                    'groups'
                )
            for width in widths[channels]:
                # Widths have two decimals, so that hundredths are whole numbers.
                if channels * round(100 * width) % (100 * self.norm_group_size(channels)):
                    raise ValueError(
                        f'{channels} channels at width {width} are no multiple of '
                        f'{self.norm_group_size(channels)}, the channels of a norm group'
                    )

    @property
    def path_space(self) -> PathSpace:
        """The legal execution paths."""
        return multi_path_space(
            skips_per_stage=[len(groups) for groups in self.skip_groups],
            widths=self.widths,
            pyramid_widths=self.pyramid_widths,
            proposals=self.proposals,
            heads=len(self.heads),
            scales=self.scales,
        )

    def norm_group_size(self, channels: int) -> int:
        """Channels per norm group of a layer with so many channels at full width."""
        return channels // self.norm_groups if self.norm_groups else self.norm_group_channels

    @property
    def identity(self) -> dict[str, Any]:
        """All attributes but those that came with a later version and are at their default."""
        later = {
            field.name: field.default for field in fields(self) if field.default is not MISSING
        }
        return {
            name: value
            for name, value in self.record.items()
            if name not in later or value != later[name]
        }


COMPACT = DetectorConfig(
    name='compact',
    input_size=(384, 640),
    bottleneck=False,
    stem_pool=False,
    stem_channels=32,
    stage_channels=(64, 128, 256, 320),
    kept_blocks=(1, 1, 1, 1),
    skip_groups=((1,), (), (2,), (1,)),
    norm_groups=0,
    norm_group_channels=8,
    widths=(1.0, 0.75, 0.5, 0.25),
    pyramid_channels=64,
    pyramid_widths=(1.0, 0.5),
    anchor_sizes_px=((8, 14), (22, 34), (50, 75), (110, 165)),
    anchor_ratios=(0.75, 2.0),
    proposals=(10, 25, 50, 100),
    nms_candidates=300,
    heads=(HeadConfig(0, (128, 128)), HeadConfig(2, (256,))),
    norm='frozen',
    scales=(1.0, 0.83, 0.67, 0.5),
)

# Between `compact` and `paper`, for an embedded GPU.
ORIN = DetectorConfig(
    name='orin',
    input_size=(512, 864),
    bottleneck=True,
    stem_pool=True,
    stem_channels=64,
    stage_channels=(256, 512, 1024, 2048),
    kept_blocks=(1, 1, 1, 1),
    skip_groups=((2,), (3,), (2, 3), (2,)),
    norm_groups=0,
    norm_group_channels=16,
    widths=(1.0, 0.75, 0.5),
    pyramid_channels=128,
    pyramid_widths=(1.0, 0.5),
    anchor_sizes_px=((16, 24), (32, 48), (64, 96), (128, 224)),
    anchor_ratios=(0.5, 1.0, 2.0),
    proposals=(25, 50, 100, 200, 500),
    nms_candidates=500,
    heads=(HeadConfig(0, (512, 512)), HeadConfig(2, (512,)), HeadConfig(4, (1024,))),
)

# Multi-path paper, section VI: ResNet-101-FPN with group norm, five skips, one switch, BDD100K's scale of 540 px
# (544, a multiple of 32); widths are not part of the paper, which does not name the positions of its skips either. Here
# they lie as `place_skips` puts them where the first stage runs whole; given that stage's two blocks too, which cost as
# much as two of the 22, it would spend a skip on them and cut the third stage into two parts in place of three.
# The paper's other scales (table V) are shapes of one's own, for `--config paper-700px.json` and the like:
# save_configuration(replace(PAPER, name='paper-700px', input_size=(704, 1408)), Path('paper-700px.json')), Cityscapes;
# (960, 1920) for Cityscapes at 950 px, (736, 1280) for BDD100K at 720 px.
PAPER = replace(
    ORIN,
    name='paper',
    input_size=(544, 960),
    kept_blocks=(3, 1, 1, 1),
    skip_groups=((), (3,), (7, 7, 8), (2,)),
    norm_groups=32,
    norm_group_channels=0,
    widths=(1.0,),
    pyramid_channels=256,
    pyramid_widths=(1.0,),
    anchor_sizes_px=((32,), (64,), (128,), (256,)),
    proposals=(50, 100, 200, 300, 500, 1000),
    nms_candidates=1000,
    heads=(HeadConfig(0, (1024, 1024)), HeadConfig(2, (1024,)), HeadConfig(4, (1024,))),
)

CONFIGURATIONS = {config.name: config for config in (COMPACT, ORIN, PAPER)}
