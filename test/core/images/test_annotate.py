import math

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.images.annotate import annotate

NAMES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
IMAGE = np.full((380, 640, 3), 100, np.uint8)


def test_unknown_values_leave_gaps_and_boxes_beyond_the_image_and_labels_beyond_names_are_drawn():
    for given in (
        {},
        {'budget_ms': math.nan, 'latency_ms': math.nan},
        {'budget_ms': 100.0, 'latency_ms': math.inf},
        {'budget_ms': 50.0, 'bound_ms': math.inf},
        {'path': 'odd name'},
    ):
        drawn = annotate(IMAGE, Detections.none(), NAMES, **given)
        assert (drawn[:380] == IMAGE).all() and drawn[380:].any()
    found = Detections([(-1e6, -50, 50, 50), (600, 350, 1e9, 1e9)], [0.9, 0.8], [7, 0])
    assert (annotate(IMAGE, found, NAMES)[:380] != IMAGE).any()
