import numpy as np
import pytest
from made_up_labels import found, known

from deadline_perception.extras.evaluation.reliability import ScoredDetections, scored_detections


def test_hits_are_objects_that_no_more_certain_detection_has():
    first = [0, 0, 10, 10]
    crowd = [50, 50, 60, 60]
    other = [80, 0, 100, 20]
    objects = [known([*first, 0, 0], [*crowd, 0, 1], [*other, 1, 0]), known([*first, 1, 0])]
    images = [
        found([*first, 0.9, 0], [1, 0, 11, 10, 0.8, 0], [*crowd, 0.7, 0], [*other, 0.6, 0]),
        found([0, 0, 10, 9, 0.4, 1], [20, 20, 30, 30, 0.65, 0]),
    ]
    scored = scored_detections(images, objects, ('vehicle', 'person'))
    # The second box is on the same object, the third on a crowd region, the fourth on an object of another class;
    # that of the other image comes between them.
    assert scored['vehicle'].scores.tolist() == pytest.approx([0.9, 0.8, 0.65, 0.6])
    assert scored['vehicle'].hits.tolist() == [True, False, False, False]
    assert scored['vehicle'].objects == 1
    assert scored['person'].hits.tolist() == [True] and scored['person'].objects == 2


def test_the_calibration_error_worked_out_by_hand():
    hits = np.array([1, 1, 1, 0, 1, 0], bool)
    scored = ScoredDetections(np.array([0.95] * 4 + [0.25] * 2), hits, 5)
    expected = (4 * abs(0.95 - 0.75) + 2 * abs(0.25 - 0.5)) / 6
    assert scored.calibration_error == pytest.approx(expected)
    assert scored.diagram() == [(pytest.approx(0.25), 0.5, 2), (pytest.approx(0.95), 0.75, 4)]
    assert ScoredDetections(np.zeros(0), np.zeros(0, bool), 0).calibration_error == 0.0
    scored = scored_detections([found()], [known()], ('vehicle',))
    assert len(scored['vehicle'].scores) == 0 and scored['vehicle'].objects == 0
