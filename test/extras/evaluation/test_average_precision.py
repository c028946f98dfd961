"""Average precision on cases that can be worked out by hand."""

import pytest
from made_up_labels import found, known

from deadline_perception.core.detections import Detections
from deadline_perception.extras.evaluation.average_precision import average_precision

NAMES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
BOX = [10, 10, 60, 60]


def test_iou_of_two_thirds_counts_for_the_four_thresholds_below_it_and_nothing_for_none():
    # overlap 40 x 50 of a union 60 x 50: IoU 2/3, above 0.50, 0.55, 0.60, 0.65
    shifted = [20, 10, 70, 60]
    result = average_precision([found((*shifted, 0.9, 0))], [known((*BOX, 0, 0))], NAMES)
    assert result.ap50 == pytest.approx(1.0)
    assert result.ap75 == pytest.approx(0.0)
    assert result.ap == pytest.approx(4 / 10)
    assert average_precision([Detections.none()], [known((*BOX, 0, 0))], NAMES).ap == 0.0
    assert average_precision([found((*BOX, 0.9, 0))], [known()], NAMES).ap is None
    assert average_precision([], [], NAMES).ap50 is None


@pytest.mark.parametrize(
    'detections, objects, count, ap50',
    [
        # One of two is found: 51 of the 101 recall points. A more certain false alarm halves the precision, but not where
        # it lies on a crowd region.
        (found((*BOX, 0.9, 0)), known((*BOX, 0, 0), (100, 100, 150, 150, 0, 0)), 2, 51 / 101),
        (found((210, 210, 250, 250, 0.95, 0), (*BOX, 0.9, 0)), known((*BOX, 0, 0)), 1, 0.5),
        (
            found((210, 210, 250, 250, 0.95, 0), (*BOX, 0.9, 0)),
            known((*BOX, 0, 0), (200, 200, 300, 300, 0, 1)),
            1,
            1.0,
        ),
    ],
)
def test_misses_false_alarms_and_crowds_count_as_worked_out(detections, objects, count, ap50):
    scores = average_precision([detections], [objects], NAMES).per_class['vehicle']
    assert (scores.ground_truths, scores.ap50) == (count, pytest.approx(ap50))
