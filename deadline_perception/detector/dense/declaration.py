"""What a dense multi-path detector can decide. Needs no torch."""
from __future__ import annotations

from deadline_perception.detector.declaration import check_choices
from deadline_perception.execution_path import (PROPOSALS, SCALE, SKIP, SWITCH, WIDTH, Operator, PathSpace, Segment)


def dense_path_space(*, skips_per_stage: tuple[int, ...], widths: tuple[float, ...], proposals: tuple[int, ...],
                     heads: int, scales: tuple[float, ...]) -> PathSpace:
    """The path space of a dense detector.

    Args:
        skips_per_stage: number of skip operators of each backbone stage, which follow its blocks that always run.
        widths: fractions of the channels within blocks, descending from 1, two decimals at most.
        proposals: numbers of boxes of the first stage that go on, ascending.
        heads: number of heads for regions; one setting more leaves the first stage's answer as it is.
        scales: fractions of the input's height and width, as `widths`.

    Raises:
        ValueError: a choice is empty or out of order, or a fraction does not survive in a path's name.
    """
    check_choices(proposals, widths=widths, scales=scales)
    skips = [Operator(f'skip{number}', SKIP, ('skip', 'run'), 's', labels=('1', '0'))
             for number in range(sum(skips_per_stage))]
    operators = (Operator('scale', SCALE, tuple(reversed(scales)), 'r', full_unnamed=True), *skips,
                 Operator('width', WIDTH, tuple(reversed(widths)), 'w'),
                 Operator('proposals', PROPOSALS, tuple(proposals), 'p'),
                 Operator('head', SWITCH, tuple(map(str, range(heads + 1))), 'h'))
    segments = [Segment('pre', 'pre', 'scale', ('scale',))]
    number = 0
    for stage, count in enumerate(skips_per_stage, 1):
        segments.append(Segment(f'stage{stage}', 'conv', 'width' if stage == 1 else None, ('scale', 'width')))
        for _ in range(count):
            segments.append(Segment(f'skip{number}', 'conv', f'skip{number}', ('scale', 'width')))
            number += 1
    segments += [Segment('pyramid', 'conv', None, ('scale',)),
                 Segment('rpn', 'rpn', None, ('scale',)),
                 Segment('proposals', 'rpn', 'proposals', ('scale', 'proposals')),
                 Segment('regions', 'head', 'head', ('scale', 'proposals', 'head')),
                 Segment('head', 'head', None, ('head', 'proposals')),
                 Segment('post', 'post', None, ('scale', 'proposals', 'head'))]
    return PathSpace(operators, tuple(segments))
