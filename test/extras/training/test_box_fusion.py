import numpy as np
import pytest
from made_up_labels import found

from deadline_perception.extras.training.box_fusion import fuse

SEEN, ASIDE = [0, 0, 100, 100], [20, 0, 120, 100]


@pytest.mark.parametrize(
    'detectors, weights, boxes, scores',
    [
        # Averaged by the scores, and by the weights: (0 * 0.9 + 20 * 0.3) / 1.2, and 20 / 4.
        ([[[*SEEN, 0.9, 0]], [[*ASIDE, 0.3, 0]]], [[1], [1]], [[5, 0, 105, 100]], [0.6]),
        ([[[*SEEN, 0.9, 0]], [[*ASIDE, 0.9, 0]]], [[3], [1]], [[5, 0, 105, 100]], [0.9]),
        # What only one of two sees; a second box of one detector adds no vote.
        ([[], [[*ASIDE, 0.8, 0]]], [[3], [1]], [ASIDE], [0.2]),
        ([[[*SEEN, 0.8, 0], [0, 0, 100, 90, 0.7, 0]]], [[1]], [SEEN], [0.8]),
        # Who does not know the class takes no part in it.
        ([[[*SEEN, 0.8, 1]], [[*ASIDE, 0.6, 0]]], [[1, 1], [1, 0]], [SEEN, ASIDE], [0.8, 0.3]),
        ([[], []], [[1], [1]], np.zeros((0, 4)), []),
        ([[[*SEEN, 0.9, 0]]], [[0]], np.zeros((0, 4)), []),
    ],
)
def test_boxes_that_detectors_share_are_averaged(detectors, weights, boxes, scores):
    fused = fuse([found(*rows) for rows in detectors], np.array(weights, float))
    np.testing.assert_allclose(fused.boxes_xyxy_px, boxes)
    np.testing.assert_allclose(fused.scores, scores, rtol=1e-6)
