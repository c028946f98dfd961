"""Grows a multi-path network until it would break a deadline or a memory limit (multi-path paper, section V-A).

A *family* is a configuration whose kinds of blocks and heads the network is made of. Times come from whoever can tell
them, by the names of segments: a measurement, or a model of layer times. Needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.extras.faster_rcnn.configuration import DetectorConfig

SKIP_OPERATORS = 5  # Kang et al., 2020 (multi-path paper), section VI
# Blocks per stage that growth heads for, one after the other: He et al., 2016 (ResNet), table 1.
_BASIC_DEPTHS = ((2, 2, 2, 2), (3, 4, 6, 3))  # ResNet-18, ResNet-34
_BOTTLENECK_DEPTHS = ((3, 4, 6, 3), (3, 4, 23, 3))  # ResNet-50, ResNet-101
# A skip operator whose blocks take a smaller share of the longest path is not worth its decision; chosen here.
_LEAST_SKIP_SHARE = 0.02
_FLOAT_BYTES = 4
_REGION_BINS = 7 * 7
# Indices (8 B) and weights (4 B) of the 16 feature rows that a bin is the sum of, each with a temporary, in floats.
_BIN_LOOKUP_FLOATS = 16 * 2 * (8 + 4) // 4


class DoesNotFit(DeadlinePerceptionError):
    """Not even the smallest network of a family keeps the deadline and the memory limit."""


@dataclass(frozen=True)
class Construction:
    """A network that construction arrived at.

    Attributes:
        longest_ms: predicted time of its longest path.
        weight_bytes: memory of the weights, with the copies that narrower widths keep.
        activation_bytes: largest memory of features that are alive at once.
    """

    config: DetectorConfig
    longest_ms: float
    weight_bytes: int
    activation_bytes: int


def building_blocks(family: DetectorConfig) -> DetectorConfig:
    """The network with each building block of a family once: a stage's first block, a further one, every head; one
    scale. The times of its segments and the bytes of its parts give those of every network of the family."""
    return replace(
        family,
        name=f'{family.name}-blocks',
        kept_blocks=(1,) * 4,
        skip_groups=((1,),) * 4,
        scales=(1.0,),
    )


def construct(
    family: DetectorConfig,
    *,
    deadline_ms: float,
    memory_mb: float,
    predict_ms: Callable[[str], float],
    weight_bytes: Mapping[str, int],
    skips: int = SKIP_OPERATORS,
    name_deadline_ms: float | None = None,
) -> Construction:
    """The largest network of a family that keeps two limits, grown in the order of the paper.

    From one block per stage and the middle head: residual blocks evenly towards the depths of the ResNets, then larger
    heads, each while both limits hold; then smaller heads in the memory that is left; last the positions of the skips.
    Where the first network is too large already, it has a smaller head, then fewer proposals.

    Deadline: the sum of the segments' times on the longest path is at most `deadline_ms`. Memory: the bytes of all
    parts' weights plus `activation_bytes` are at most `memory_mb`.

    Args:
        family: the kinds of blocks, the heads from cheapest to dearest, and all that stays as it is.
        memory_mb: for weights and features, 1e6 bytes.
        predict_ms: time of a segment of `building_blocks(family)` on its largest widths, in ms, by its name, such as
            `skip2@w1.00` for one further block of the third stage, or `head@h1-f1.00-p100`.
        weight_bytes: bytes by part: `stage1` to `stage4` with one block, `skip0` to `skip3` for one further block,
            `pyramid`, `rpn`, and `head0`, `head1`, ...
        skips: skip operators to place at most.
        name_deadline_ms: deadline that the configuration is named after; None: `deadline_ms`.

    Raises:
        ValueError: a limit is not positive and finite.
        DoesNotFit: the smallest network exceeds a limit.
    """
    check_limits(deadline_ms, memory_mb)
    cost_model = _CostModel(family, predict_ms, weight_bytes)

    def fits(shape: _Shape) -> bool:
        return (
            cost_model.longest_ms(shape) <= deadline_ms
            and cost_model.memory_bytes(shape) <= memory_mb * 1e6
        )

    shape = next(filter(fits, _starts(family)), None)
    if shape is None:
        smallest = _starts(family)[-1]
        raise DoesNotFit(
            f'no network of family {family.name!r} fits {deadline_ms:g} ms and {memory_mb:g} MB: '
            f'the smallest takes {cost_model.longest_ms(smallest):.1f} ms on its longest path and '
            f'{cost_model.memory_bytes(smallest) / 1e6:.1f} MB'
        )
    depths = _BOTTLENECK_DEPTHS if family.bottleneck else _BASIC_DEPTHS
    shape = _with_blocks(shape, depths, fits)
    first = shape.heads[0]
    shape = _with_heads(shape, range(first + 1, len(family.heads)), fits)
    shape = _with_heads(shape, range(first - 1, -1, -1), fits)
    longest_ms = cost_model.longest_ms(shape)
    further = tuple(depth - 1 for depth in shape.depths)
    groups = place_skips(further, cost_model.block_ms, skips, _LEAST_SKIP_SHARE * longest_ms)
    config = replace(
        _configuration(family, shape),
        skip_groups=groups,
        name=f'{family.name}-{_digits(name_deadline_ms or deadline_ms)}ms-{_digits(memory_mb)}mb',
        kept_blocks=tuple(depth - sum(sizes) for depth, sizes in zip(shape.depths, groups)),
    )
    return Construction(
        config, longest_ms, cost_model.weight_bytes(shape), activation_bytes(config)
    )


def check_limits(deadline_ms: float, memory_mb: float) -> None:
    """Raises ValueError where deadline or memory is not positive and finite."""
    for name, value, unit in (('deadline', deadline_ms, 'ms'), ('memory', memory_mb, 'MB')):
        if not 0.0 < value < math.inf:
            raise ValueError(f'{name} is {value} {unit}, expected a finite number above 0 {unit}')


def place_skips(
    further: tuple[int, ...], block_ms: tuple[float, ...], skips: int, least_ms: float
) -> tuple[tuple[int, ...], ...]:
    """Where skip operators lie, by the time between one and the next (multi-path paper, section VI).

    Each stage gets one over all its further blocks, so that the cheapest path is as cheap as can be, stages that save
    most first; then the operator that covers most time is divided, until all are placed. None covers less than
    `least_ms`: blocks that save too little to be worth a decision always run.

    Args:
        further: blocks of each stage beyond its first, which always runs.
        block_ms: time of one of them.

    Returns:
        Sizes of the groups of each stage, in order, as even as can be, larger ones last.
    """
    operators = [0] * len(further)
    for _ in range(skips):
        stages = [
            stage
            for stage, blocks in enumerate(further)
            if operators[stage] < blocks
            and blocks // (operators[stage] + 1) * block_ms[stage] >= least_ms
        ]
        if not stages:
            break
        chosen = max(
            stages,
            key=lambda stage: (
                operators[stage] == 0,
                further[stage] * block_ms[stage] / max(1, operators[stage]),
            ),
        )
        operators[chosen] += 1
    return tuple(
        tuple((blocks + i) // count for i in range(count))
        for blocks, count in zip(further, operators)
    )


def activation_bytes(config: DetectorConfig) -> int:
    """Memory of the features that are alive at once on the longest path, where they are most.

    The image and stage outputs stay until the frame ends. Beside them live, in the stem and in a block, three tensors
    of the size of its output (input, convolution, norm); in the pyramid its levels and three temporaries of the finest;
    as regions are cut out, the levels twice (as maps and as rows), the lookup of rows and the regions' features; in a
    head with convolutions the levels and five times the regions' features. Within 8 % of what PyTorch's memory profiler
    shows for `compact` and `orin`.
    """
    height, width = config.input_size
    positions = [height * width // 16 // 4**stage for stage in range(4)]
    outputs = [channels * count for channels, count in zip(config.stage_channels, positions)]
    levels = config.pyramid_channels * sum(positions)
    bins = config.proposals[-1] * _REGION_BINS
    regions = bins * config.pyramid_channels
    alive = [
        3 * config.stem_channels * height * width // 4,
        *(sum(outputs[:stage]) + 3 * outputs[stage] for stage in range(4)),
        sum(outputs) + levels + 3 * config.pyramid_channels * positions[0],
        sum(outputs) + 2 * levels + regions + bins * _BIN_LOOKUP_FLOATS,
    ]
    if any(head.convolutions for head in config.heads):
        alive.append(sum(outputs) + levels + 5 * regions)
    return _FLOAT_BYTES * (3 * height * width + max(alive))


@dataclass(frozen=True)
class _Shape:
    """What grows: blocks per stage, heads by their index in the family, legal numbers of proposals."""

    depths: tuple[int, ...]
    heads: tuple[int, ...]
    proposals: tuple[int, ...]


class _CostModel:
    """Time and memory of every network of a family, put together from those of its building blocks."""

    def __init__(
        self,
        family: DetectorConfig,
        predict_ms: Callable[[str], float],
        part_bytes: Mapping[str, int],
    ) -> None:
        self._family = family
        self._predict_ms = predict_ms
        self._part_bytes = part_bytes
        self._space = building_blocks(family).path_space
        self.block_ms = tuple(predict_ms(f'skip{stage}@w1.00') for stage in range(4))

    def longest_ms(self, shape: _Shape) -> float:
        """Sum over the segments of the longest path: all blocks, most proposals, the slowest head."""
        return max(self._path_ms(shape, head) for head in shape.heads)

    def _path_ms(self, shape: _Shape, head: int) -> float:
        path = self._space.largest.replace(proposals=shape.proposals[-1], head=str(head))
        once = sum(self._predict_ms(key) for key in self._space.keys(path))
        further = zip(shape.depths, self.block_ms)
        return once + sum((depth - 2) * ms for depth, ms in further)

    def weight_bytes(self, shape: _Shape) -> int:
        """Sum over the parts."""
        parts = [
            'pyramid',
            'rpn',
            *(f'stage{stage}' for stage in range(1, 5)),
            *(f'head{head}' for head in shape.heads),
        ]
        further = sum(
            (depth - 1) * self._part_bytes[f'skip{stage}']
            for stage, depth in enumerate(shape.depths)
        )
        return further + sum(self._part_bytes[part] for part in parts)

    def memory_bytes(self, shape: _Shape) -> int:
        """Weights and the features alive at once."""
        return self.weight_bytes(shape) + activation_bytes(_configuration(self._family, shape))


def _configuration(family: DetectorConfig, shape: _Shape) -> DetectorConfig:
    """The configuration of a shape, without skips."""
    return replace(
        family,
        kept_blocks=shape.depths,
        skip_groups=((),) * 4,
        proposals=shape.proposals,
        heads=tuple(family.heads[head] for head in sorted(shape.heads)),
    )


def _digits(value: float) -> str:
    """A limit as part of a name, to a thousandth, without an exponent."""
    return f'{value:.3f}'.rstrip('0').rstrip('.')


def _starts(family: DetectorConfig) -> list[_Shape]:
    """Networks to grow from, the preferred first, the smallest last."""
    middle = len(family.heads) // 2
    return [
        _Shape((1,) * 4, (head,), family.proposals[:count])
        for count in range(len(family.proposals), 0, -1)
        for head in range(middle, -1, -1)
    ]


def _with_blocks(
    shape: _Shape, references: tuple[tuple[int, ...], ...], fits: Callable[[_Shape], bool]
) -> _Shape:
    """Adds blocks to the stage that is farthest behind the reference; a stage whose next block does not fit is done."""
    growing = {0, 1, 2, 3}
    for reference in references:
        while behind := [
            stage for stage in sorted(growing) if shape.depths[stage] < reference[stage]
        ]:
            stage = min(behind, key=lambda stage: shape.depths[stage] / reference[stage])
            depths = list(shape.depths)
            depths[stage] += 1
            grown = replace(shape, depths=tuple(depths))
            if fits(grown):
                shape = grown
            else:
                growing.discard(stage)
    return shape


def _with_heads(shape: _Shape, heads: range, fits: Callable[[_Shape], bool]) -> _Shape:
    """Adds heads in order while they fit; the first of the shape stays the first."""
    for head in heads:
        grown = replace(shape, heads=(*shape.heads, head))
        if not fits(grown):
            break
        shape = grown
    return shape
