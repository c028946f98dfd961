"""Which of overlapping boxes stay."""

import numpy as np

from deadline_perception.extras.external_models.exported.head import Objects
from deadline_perception.extras.external_models.exported.suppression import suppress


def found(*rows: tuple[float, ...]) -> list[list[float]]:
    """Boxes that stay, of rows of corners, score and label."""
    given = np.float32(rows)
    kept = suppress(Objects(given[:, :4], given[:, 4], given[:, 5].astype(np.int64)))
    return np.column_stack((kept.boxes, kept.labels)).tolist()


def test_the_most_certain_of_one_class_stays_also_where_boxes_leave_the_image():
    expected = [[0, 0, 10, 11, 0], [5, 0, 15, 10, 0]]
    assert found((0, 0, 10, 10, 0.5, 0), (0, 0, 10, 11, 0.7, 0), (5, 0, 15, 10, 0.6, 0)) == expected
    boxes = (50, 0, 100, 50, 0.9, 0), (-51, -101, -1, -51, 0.8, 1), (50, 0, 100, 50, 0.7, 1)
    assert len(found(*boxes)) == 3
