from __future__ import annotations

import numpy as np
import pytest

from deadline_perception.datasets.records import Frame, GroundTruth, Sequence


def frame(stamp_ns):
    return Frame(f'at {stamp_ns}', stamp_ns, lambda: np.zeros((2, 2, 3), np.uint8))


def test_ground_truth_takes_lists_and_fixes_their_types():
    ground_truth = GroundTruth([[1, 2, 3, 4]], [2], [1])
    assert ground_truth.boxes_xyxy_px.dtype == np.float32
    assert (ground_truth.labels.dtype, ground_truth.crowd.dtype) == (np.int64, bool)
    assert len(ground_truth) == 1 and len(GroundTruth([], [], [])) == 0


@pytest.mark.parametrize(('labels', 'crowd'), [([1, 2], [0]), ([1], []), ([[1]], [0])])
def test_ground_truth_refuses_arrays_that_disagree(labels, crowd):
    with pytest.raises(ValueError, match='1 boxes with labels'):
        GroundTruth([[1, 2, 3, 4]], labels, crowd)


def test_sequences_refuse_what_is_not_in_order():
    with pytest.raises(ValueError, match="'s' holds no frame"):
        Sequence('s', (), ())
    with pytest.raises(ValueError, match='is 5 ns, expected more than 5 ns'):
        Sequence('s', (), (frame(5), frame(5)))
    with pytest.raises(ValueError, match='is -1 ns, expected at least 0'):
        frame(-1)


def test_a_camera_matrix_has_three_rows_and_columns():
    assert Sequence('s', (), (frame(0),)).camera_matrix is None
    with pytest.raises(ValueError, match=r'shape \(3, 4\)'):
        Sequence('s', (), (frame(0),), np.zeros((3, 4)))
