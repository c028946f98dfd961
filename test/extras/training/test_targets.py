import numpy as np
from made_up_labels import target_objects

from deadline_perception.extras.training.targets import choose_anchors, match_anchors

ANCHORS = np.float32(
    [[0, 0, 10, 10], [1, 0, 11, 10], [5, 0, 15, 10], [50, 50, 60, 60], [80, 80, 90, 90]]
)


def test_anchors_are_matched_by_overlap_come_first_and_want_their_boxes():
    ground_truth = target_objects([[0, 0, 10, 10], [48, 48, 58, 58]], [0, 1], [[75, 75, 95, 95]])
    labels, matched = match_anchors(ANCHORS, ground_truth)
    # 1.0 and 0.82 overlap: object; 0.33: neither; 0.47, but the second object's best: object; in a crowd: neither.
    assert labels.tolist() == [1, 1, -1, 1, -1]
    assert matched[:4].tolist() == [0, 0, 0, 1]
    anchors = np.float32([[50, 50, 60, 60], [0, 0, 10, 10], [30, 30, 40, 40]])
    ground_truth = target_objects([[1, 0, 11, 10]], [1])
    chosen = choose_anchors(anchors, ground_truth, np.random.default_rng(0))
    assert chosen.indices[0] == 1 and sorted(chosen.indices[1:]) == [0, 2]
    np.testing.assert_allclose(chosen.deltas, [[0.1, 0, 0, 0]], atol=1e-6)
