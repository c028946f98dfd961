"""What a multi-path Faster R-CNN can decide: operators, segments, and with them paths. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence

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
    scale_operator,
)


def multi_path_space(
    *,
    skips_per_stage: Sequence[int],
    widths: Sequence[float],
    pyramid_widths: Sequence[float],
    proposals: Sequence[int],
    heads: int,
    scales: Sequence[float] = (1.0,),
) -> PathSpace:
    """The path space of a multi-path Faster R-CNN.

    Args:
        skips_per_stage: number of skip operators of each backbone stage, which follow its blocks that always run.
        widths: fractions of the backbone's channels, descending, the first is 1; two decimals at most.
        pyramid_widths: fractions of the channels of pyramid, RPN and head input, as `widths`.
        proposals: numbers of region proposals that reach the head, ascending.
        heads: number of heads; head 0 is the cheapest.
        scales: fractions of the input's height and width, as `widths`; a single one leaves nothing to decide.

    Raises:
        ValueError: a choice is empty or out of order, or a fraction does not survive in a path's name.
    """
    if not skips_per_stage or min(skips_per_stage) < 0:
        raise ValueError(
            f'skips_per_stage is {tuple(skips_per_stage)}, expected one count >= 0 per stage'
        )
    check_choices(proposals, widths=widths, pyramid_widths=pyramid_widths, scales=scales)
    if heads < 1:
        raise ValueError(f'heads is {heads}, expected at least 1')
    scaled = [scale_operator(scales)] if len(scales) > 1 else []
    scale = tuple(operator.name for operator in scaled)
    skips, segments = backbone_segments(skips_per_stage, scale)
    others = [
        Operator('width', WIDTH, tuple(map(float, reversed(widths))), 'w'),
        Operator(
            'pyramid_width',
            WIDTH,
            tuple(map(float, reversed(pyramid_widths))),
            'f',
            unnamed=len(pyramid_widths) - 1,
        ),
        Operator('proposals', PROPOSALS, tuple(proposals), 'p'),
        Operator('head', SWITCH, tuple(map(str, range(heads))), 'h'),
    ]
    segments += [
        Segment('pyramid', 'conv', 'pyramid_width', (*scale, 'width', 'pyramid_width')),
        Segment('rpn', 'rpn', None, (*scale, 'pyramid_width')),
        Segment('proposals', 'rpn', 'proposals', (*scale, 'proposals')),
        Segment('regions', 'head', None, (*scale, 'pyramid_width', 'proposals')),
        Segment('head', 'head', 'head', ('head', 'pyramid_width', 'proposals')),
        Segment('post', 'post', None, (*scale, 'proposals')),
    ]
    return PathSpace((*scaled, *skips, *others), tuple(segments))
