import numpy as np
import pytest
from made_up_labels import found

from deadline_perception.extras.several_networks.classifier.crop import crop_box
from deadline_perception.extras.several_networks.most_important_crop import most_important_crop

GRADIENT = np.arange(40 * 60 * 3, dtype=np.uint8).reshape(40, 60, 3)


LARGEST = [[1, 1, 5, 5, 0.9, 0], [20, 10, 30, 30, 0.6, 0], [0, 0, 60, 40, 0.2, 0]]


@pytest.mark.parametrize(
    'rows, box',
    [
        # The largest that is likely.
        (LARGEST, (20, 10, 30, 30)),
        # One that reaches over the image is weighed and cut by what is seen.
        ([[1, 1, 8, 8, 0.9, 0], [58, 30, 90, 36, 0.9, 0]], (1, 1, 8, 8)),
        ([[58, 30, 90, 36, 0.9, 0]], (58, 30, 60, 36)),
        # None is likely, or in the image.
        ([], None),
        ([[1, 1, 9, 9, 0.4, 0]], None),
        ([[70, 1, 90, 9, 0.9, 0]], None),
    ],
)
def test_the_largest_likely_object_is_cut_out_as_classifiers_learn_objects(rows, box):
    crop = most_important_crop(GRADIENT, found(*rows))
    assert crop is None if box is None else np.array_equal(crop, crop_box(GRADIENT, box))
