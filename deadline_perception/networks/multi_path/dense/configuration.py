"""The shapes that a dense detector can take: `street`, and others read from a file."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from deadline_perception.core.decoding import Number
from deadline_perception.core.execution_path import (
    PROPOSALS,
    SWITCH,
    WIDTH,
    Operator,
    PathSpace,
    Segment,
)
from deadline_perception.networks.multi_path.declaration import (
    backbone_segments,
    check_choices,
    check_sizes,
    scale_operator,
)
from deadline_perception.networks.multi_path.shape import DetectorShape, HeadConfig

STRIDES = (8, 16, 32, 64, 128)
# MobileNetV2 (Sandler et al. 2018, table 2): output channels and stride of each stage's first block, blocks that keep
# the shape, and whether the pyramid reads the stage. The first stage holds the stem too.
_STAGES = (
    (24, 4, 1, False),
    (32, 8, 2, True),
    (64, 16, 3, False),
    (96, 16, 2, True),
    (160, 32, 2, False),
    (320, 32, 0, True),
)
STAGE_CHANNELS = tuple(channels for channels, _, _, _ in _STAGES)
STAGE_STRIDES = tuple(stride for _, stride, _, _ in _STAGES)
PYRAMID_STAGES = tuple(number for number, (*_, is_read) in enumerate(_STAGES, 1) if is_read)
EXPANSION = 6
_BLOCKS = tuple(blocks for _, _, blocks, _ in _STAGES)
_MOST_PATHS = 2**20
_MOST_LAYERS = 1000  # of all heads together
_MOST_CHANNELS = 10_000  # of one layer
_LATER = ('kept_groups', 'head_labels')  # attributes that files of earlier versions do not have


@dataclass(frozen=True)
class DenseConfig(DetectorShape):
    """Everything that decides the shape of a dense detector, and with it its execution time.

    Attributes:
        name: see `Shape`.
        input_size: height and width in px of its largest input, multiples of 32.
        skip_groups: per stage, sizes of the groups of blocks that one skip operator each covers, all that keep the
            shape.
        widths: fractions of the channels within blocks to choose from; between blocks all are kept.
        pyramid_channels: channels of every pyramid level and of the first stage's towers.
        proposals: numbers of boxes to choose from.
        heads: subnets for regions, the cheapest first; the switch has one setting before them, which takes none.
        scales: fractions of `input_size` to choose from.
        family: says in a file that it is this kind.
        kept_groups: numbers of the groups, through all stages, that no path skips.
        head_labels: what names of paths call the settings of the switch; empty: 0, 1 and so on.

    Raises:
        ValueError: a value lies outside its range.
    """

    input_size: tuple[int, int]
    skip_groups: tuple[tuple[int, ...], ...]
    widths: tuple[Number, ...]
    pyramid_channels: Annotated[int, Meta(ge=1, le=1024)]
    proposals: tuple[Annotated[int, Meta(ge=1, le=1000)], ...]
    heads: tuple[HeadConfig, ...]
    scales: tuple[Number, ...]
    family: Literal['dense'] = 'dense'
    kept_groups: tuple[int, ...] = ()
    head_labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = [size for group in self.skip_groups for size in group]
        if tuple(map(sum, self.skip_groups)) != _BLOCKS or min(sizes, default=0) < 1:
            raise ValueError(
                f'skip_groups is {reprlib.repr(self.skip_groups)}, expected groups of {_BLOCKS} blocks'
            )
        if len({*self.kept_groups} & {*range(len(sizes))}) != len(self.kept_groups):
            raise ValueError(
                f'kept_groups is {reprlib.repr(self.kept_groups)}, expected distinct numbers below {len(sizes)}'
            )
        if any(round(8 * width) != 8 * width for width in self.widths):
            raise ValueError(
                f'widths is {self.widths}, expected eighths, which every layer can be cut to'
            )
        sides = [side for head in self.heads for side in head.fully_connected]
        layers = len(sides) + sum(head.convolutions for head in self.heads)
        if layers > _MOST_LAYERS or max(sides, default=0) > _MOST_CHANNELS:
            raise ValueError(
                f'heads have {layers} layers of at most {max(sides, default=0)} channels, expected at '
                f'most {_MOST_LAYERS} of {_MOST_CHANNELS}'
            )
        paths = len(self.path_space)  # raises where a choice is out of order
        if paths > _MOST_PATHS:
            raise ValueError(f'number of paths is {paths}, expected at most {_MOST_PATHS}')
        check_sizes(self.input_size, self.scales)

    norm = 'frozen'
    network = 'deadline_perception.networks.multi_path.dense.network:DenseDetector'
    outline = 'deadline_perception.networks.multi_path.dense.outline:DenseOutline'

    @property
    def path_space(self) -> PathSpace:
        """The legal execution paths."""
        check_choices(self.proposals, widths=self.widths, scales=self.scales)
        skips, segments = backbone_segments(
            tuple(map(len, self.skip_groups)), ('scale',), self.kept_groups
        )
        heads = tuple(map(str, range(len(self.heads) + 1)))
        others = [
            Operator('width', WIDTH, tuple(reversed(self.widths)), 'w'),
            Operator('proposals', PROPOSALS, self.proposals, 'p'),
            Operator('head', SWITCH, heads, 'h', self.head_labels),
        ]
        segments += [
            Segment('pyramid', 'conv', None, ('scale',)),
            Segment('rpn', 'rpn', None, ('scale',)),
            Segment('proposals', 'rpn', 'proposals', ('scale', 'proposals')),
            Segment('regions', 'head', 'head', ('scale', 'proposals', 'head')),
            Segment('head', 'head', None, ('head', 'proposals')),
            Segment('post', 'post', None, ('scale', 'proposals', 'head')),
        ]
        return PathSpace((scale_operator(self.scales), *skips, *others), tuple(segments))

    @property
    def identity(self) -> dict[str, Any]:
        """All attributes but those that came with a later version and are at their default."""
        return {name: value for name, value in self.record.items() if value or name not in _LATER}


STREET = DenseConfig(
    name='street',
    input_size=(704, 1248),
    skip_groups=((1,), (2,), (3,), (2,), (2,), ()),
    widths=(1.0, 0.75),
    pyramid_channels=32,
    proposals=(50, 100),
    heads=(HeadConfig(2, (256,)),),
    scales=(1.0, 0.75, 0.53, 0.44),
    # Scales of 0.36 and 0.25, three further skips, a width of 0.5, 25 proposals and a lighter head, `1`, were worth less
    # than 0.3 AP each (measured: benchmarks/setting_worth.py). What is left has the names that it had among them.
    kept_groups=(0, 3, 4),
    head_labels=('0', '2'),
)
