from __future__ import annotations

import numpy as np

from deadline_perception.detector.detections import Detections
from deadline_perception.runtime.object_crop import most_important_crop

IMAGE = np.arange(40 * 60 * 3, dtype=np.uint8).reshape(40, 60, 3)


def test_the_largest_likely_object_is_cut_out_within_the_image():
    found = Detections([[1, 1, 5, 5], [50, 30, 70, 50], [0, 0, 60, 40]], [0.9, 0.6, 0.2], [0, 0, 0])
    assert np.array_equal(most_important_crop(IMAGE, found), IMAGE[30:40, 50:60])


def test_without_a_likely_object_there_is_nothing():
    assert most_important_crop(IMAGE, Detections.none()) is None
    assert most_important_crop(IMAGE, Detections([[1, 1, 9, 9]], [0.4], [0])) is None
    assert most_important_crop(IMAGE, Detections([[70, 1, 90, 9]], [0.9], [0])) is None
