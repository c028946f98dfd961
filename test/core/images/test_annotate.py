import math

import numpy as np
import pytest

from deadline_perception.core.detections import Detections
from deadline_perception.core.images.annotate import annotate, class_colour

NAMES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
GREEN, RED = (120, 200, 80), (70, 80, 240)
IMAGE = np.full((380, 640, 3), 100, np.uint8)


def share(picture, colour):
    return float((picture == colour).all(axis=2).mean())


def strip(**given):
    return annotate(IMAGE, Detections.none(), NAMES, **given)[len(IMAGE) :]


def test_image_is_left_alone_and_a_strip_is_added_below():
    before = IMAGE.copy()
    drawn = annotate(IMAGE, Detections.none(), NAMES, budget_ms=100.0, latency_ms=50.0)
    np.testing.assert_array_equal(IMAGE, before)
    np.testing.assert_array_equal(drawn[:380], IMAGE)
    assert drawn.shape[0] > 400 and drawn.shape[1:] == (640, 3) and drawn.dtype == np.uint8


def test_box_is_drawn_in_the_colour_of_its_class_around_the_object():
    drawn = annotate(IMAGE, Detections([(100, 100, 300, 200)], [0.9], [2]), NAMES)
    assert (drawn[[150, 200], [100, 200]] == class_colour('motorbike')).all()
    assert (drawn[110:190, 110:290] == 100).all()  # the object stays visible
    assert share(drawn[60:100, 100:300], class_colour('motorbike')) > 0.03  # the tag above it


def test_more_of_the_bar_is_filled_the_longer_the_frame_took_and_a_miss_is_red():
    short, long = (
        share(strip(budget_ms=100.0, latency_ms=latency), GREEN) for latency in (20.0, 80.0)
    )
    assert long == pytest.approx(4 * short, rel=0.1) and short > 0
    missed = strip(budget_ms=100.0, latency_ms=120.0, outcome='late', met=False)
    assert share(missed, RED) > long and share(missed, GREEN) == 0


@pytest.mark.parametrize(
    'given',
    [
        {},
        {'budget_ms': math.nan, 'latency_ms': math.nan},
        {'budget_ms': 100.0, 'latency_ms': math.inf},
        {'budget_ms': 50.0, 'bound_ms': math.inf},
        {'path': 'odd name'},
    ],
)
def test_unknown_values_leave_gaps_but_draw(given):
    assert strip(**given).any()


def test_boxes_beyond_the_image_and_labels_beyond_the_names_are_drawn():
    found = Detections([(-1e6, -50, 50, 50), (600, 350, 1e9, 1e9)], [0.9, 0.8], [7, 0])
    assert (annotate(IMAGE, found, NAMES)[:380] != IMAGE).any()
