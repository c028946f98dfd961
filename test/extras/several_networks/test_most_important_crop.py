import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.extras.several_networks.classifier.crop import crop_box
from deadline_perception.extras.several_networks.most_important_crop import most_important_crop

GRADIENT = np.arange(40 * 60 * 3, dtype=np.uint8).reshape(40, 60, 3)


def test_the_largest_likely_object_is_cut_out_as_classifiers_learn_objects():
    found = Detections([[1, 1, 5, 5], [20, 10, 30, 30], [0, 0, 60, 40]], [0.9, 0.6, 0.2], [0, 0, 0])
    crop = most_important_crop(GRADIENT, found)
    assert crop.shape == (24, 24, 3)  # square, with a border around the longer side of 20 px
    assert np.array_equal(crop, crop_box(GRADIENT, (20, 10, 30, 30)))


def test_an_object_that_reaches_over_the_image_is_weighed_and_cut_by_what_is_seen():
    found = Detections([[1, 1, 8, 8], [58, 30, 90, 36]], [0.9, 0.9], [0, 0])
    assert np.array_equal(most_important_crop(GRADIENT, found), crop_box(GRADIENT, (1, 1, 8, 8)))
    alone = Detections([[58, 30, 90, 36]], [0.9], [0])
    assert np.array_equal(
        most_important_crop(GRADIENT, alone), crop_box(GRADIENT, (58, 30, 60, 36))
    )


def test_without_a_likely_object_there_is_nothing():
    assert most_important_crop(GRADIENT, Detections.none()) is None
    assert most_important_crop(GRADIENT, Detections([[1, 1, 9, 9]], [0.4], [0])) is None
    assert most_important_crop(GRADIENT, Detections([[70, 1, 90, 9]], [0.9], [0])) is None
