import numpy as np
import pytest
from made_up_labels import found, known

from deadline_perception.decision.scene import SIZE_NAMES
from deadline_perception.extras.evaluation.size_precision import objects_by_size, precision_by_size

SIZE = (100, 400)
NEAR, FAR = [0, 0, 200, 50], [300, 10, 304, 20]


def test_what_is_found_of_one_size_says_nothing_of_another():
    counts = objects_by_size([known([*NEAR, 0, 0], [*FAR, 1, 0]), known()], 2, [SIZE, SIZE])
    assert counts.tolist() == [[0, 0, 0, 0, 1], [1, 0, 0, 0, 0]]
    objects = [known([*NEAR, 0, 0], [*FAR, 0, 0])]
    values = precision_by_size([found([*NEAR, 0.9, 0])], objects, ('vehicle', 'person'), [SIZE])
    assert values.shape == (2, len(SIZE_NAMES))
    assert values[0, -1] == pytest.approx(1.0) and values[0, 0] == 0.0
    assert np.isnan(values[0, 1:4]).all() and np.isnan(values[1]).all()
    assert np.isnan(precision_by_size([], [], ('vehicle',), [])).all()
