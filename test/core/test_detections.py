import numpy as np
import pytest

from deadline_perception.core.detections import Detections


@pytest.mark.parametrize(
    'boxes, scores, labels, message',
    [
        (np.zeros((2, 4)), np.zeros(1), np.zeros(2), '2 boxes with scores'),
        (np.full((1, 4), np.nan), np.zeros(1), np.zeros(1), 'NaN or infinity'),
        (np.zeros((1, 4)), np.full(1, 1.5), np.zeros(1), r'expected \[0, 1\]'),
        (np.zeros((1, 4)), np.zeros(1), np.full(1, -1), 'smallest label is -1'),
    ],
)
def test_impossible_detections_are_refused(boxes, scores, labels, message):
    with pytest.raises(ValueError, match=message):
        Detections(boxes, scores, labels)


def test_ids_stay_with_their_objects_and_are_minus_one_where_none_is_given():
    boxes = [[0, 0, 1, 1], [0, 0, 2, 2], [0, 0, 3, 3]]
    found = Detections(boxes, [0.9, 0.2, 0.5], [0, 1, 2], [4, 5, 6])
    assert found.with_score(0.5).ids.tolist() == [4, 6]
    assert Detections(boxes, [0.9, 0.2, 0.5], [0, 1, 2]).with_score(0.5).ids.tolist() == [-1, -1]
    assert Detections.none().ids.shape == (0,)
    with pytest.raises(ValueError):
        Detections(boxes, [0.9, 0.2, 0.5], [0, 1, 2], [4, 5])
