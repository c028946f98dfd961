import numpy as np
import pytest

from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.evaluation.average_precision import AveragePrecision, ClassPrecision
from deadline_perception.extras.training.kept_apart import (
    MOST_KEPT,
    judged_by,
    keep_apart,
    mean_ap,
    verdict,
)


def sequence(count: int, name: str = 'mine', annotated: bool = True) -> Sequence:
    known = GroundTruth(np.array([[0, 0, 5, 5]]), [0], [False]) if annotated else None
    frames = tuple(Frame(str(i), i, lambda: None, None, known) for i in range(count))
    return Sequence(name, ('car',), frames)


def test_a_tenth_is_not_learnt_and_small_sources_are_learnt_whole():
    (learnt, small), kept = keep_apart([sequence(30), sequence(19, 'small')])
    assert (len(learnt.frames), len(small.frames), len(kept.frames)) == (27, 19, 3)
    judged = {frame.name.rpartition('/')[2] for frame in kept.frames}
    assert not judged & {frame.name for frame in learnt.frames}
    assert keep_apart([sequence(19)])[1] is None
    assert len(keep_apart([sequence(5000)])[1].frames) == MOST_KEPT
    with pytest.raises(ValueError, match='no annotations, expected images to judge by'):
        judged_by([sequence(3, annotated=False)])


def test_says_whether_the_weights_are_better_than_the_start_and_on_how_many_steps():
    of = {'car': ClassPrecision(4, 0.5, 0.7), 'bus': ClassPrecision(0, None, None)}
    precision = AveragePrecision(3, 0.5, 0.7, None, None, None, None, of)
    assert mean_ap(precision, ('car', 'bus', 'dog')) == 0.5
    assert mean_ap(precision, ('bus',)) is None
    assert verdict(0.334, 0.351, 6, 300, 300) == [
        'start 33.4 -> now 35.1 AP on 6 images kept apart, 300 of 300 steps done'
    ]
    better, warning = verdict(0.334, 0.301, 6, 9, 300)
    assert '9 of 300 steps done' in better and 'worse than those they began with, by 3.3' in warning
    assert verdict(None, 0.1, 6, 9, 9) == ['now 10.0 AP on 6 images kept apart, 9 of 9 steps done']
    assert 'hold no object' in verdict(0.3, None, 6, 9, 9)[0]
