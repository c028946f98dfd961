import numpy as np
import pytest

from deadline_perception.core.detections import Detections
from deadline_perception.core.records import GroundTruth
from deadline_perception.extras.evaluation.reliability import ScoredDetections, scored_detections


def test_hits_are_objects_that_no_more_certain_detection_has():
    known = [
        GroundTruth(
            [[0, 0, 10, 10], [50, 50, 60, 60], [80, 0, 100, 20]], [0, 0, 1], [False, True, False]
        ),
        GroundTruth([[0, 0, 10, 10]], [1], [False]),
    ]
    found = [
        Detections(
            [[0, 0, 10, 10], [1, 0, 11, 10], [50, 50, 60, 60], [80, 0, 100, 20]],
            [0.9, 0.8, 0.7, 0.6],
            [0, 0, 0, 0],
        ),
        Detections([[0, 0, 10, 9], [20, 20, 30, 30]], [0.4, 0.65], [1, 0]),
    ]
    scored = scored_detections(found, known, ('vehicle', 'person'))
    # The second box is on the same object, the third on a crowd region, the fourth on an object of another class;
    # that of the other image comes between them.
    assert scored['vehicle'].scores.tolist() == pytest.approx([0.9, 0.8, 0.65, 0.6])
    assert scored['vehicle'].hits.tolist() == [True, False, False, False]
    assert scored['vehicle'].objects == 1
    assert scored['person'].hits.tolist() == [True] and scored['person'].objects == 2
    assert scored['vehicle'].at(0.85) == (1.0, 1.0) and scored['vehicle'].at(0.5) == (0.25, 1.0)
    assert scored['person'].at(0.9) == (1.0, 0.0)


def test_the_calibration_error_worked_out_by_hand():
    scored = ScoredDetections(
        np.array([0.95, 0.95, 0.95, 0.95, 0.25, 0.25]), np.array([1, 1, 1, 0, 1, 0], bool), 5
    )
    assert scored.calibration_error == pytest.approx(
        (4 * abs(0.95 - 0.75) + 2 * abs(0.25 - 0.5)) / 6
    )
    assert scored.diagram() == [(pytest.approx(0.25), 0.5, 2), (pytest.approx(0.95), 0.75, 4)]
    assert ScoredDetections(np.zeros(0), np.zeros(0, bool), 0).calibration_error == 0.0


def test_nothing_found_and_nothing_known():
    scored = scored_detections(
        [Detections.none()], [GroundTruth(np.zeros((0, 4)), [], [])], ('vehicle',)
    )
    assert len(scored['vehicle'].scores) == 0 and scored['vehicle'].objects == 0
    assert scored_detections([], [], ('vehicle',))['vehicle'].at(0.5) == (1.0, 0.0)
