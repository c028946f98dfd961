import math

import numpy as np
import pytest

from deadline_perception.core.detections import Detections
from deadline_perception.core.images.annotate import annotate, class_colour, path_chips
from deadline_perception.core.operator_record import OperatorRecord
from deadline_perception.extras.data import bdd100k, cityscapes
from deadline_perception.extras.rendered_drive import drive

NAMES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
GREEN, RED, YELLOW = (120, 200, 80), (70, 80, 240), (60, 200, 250)
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


@pytest.mark.parametrize('label', range(5))
def test_box_is_drawn_in_the_colour_of_its_class_around_the_object(label):
    drawn = annotate(IMAGE, Detections([(100, 100, 300, 200)], [0.9], [label]), NAMES)
    assert (drawn[150, 100] == class_colour(NAMES[label])).all()
    assert (drawn[200, 200] == class_colour(NAMES[label])).all()
    np.testing.assert_array_equal(
        drawn[110:190, 110:290], IMAGE[110:190, 110:290]
    )  # the object stays visible
    assert share(drawn[60:100, 100:300], class_colour(NAMES[label])) > 0.03  # the tag above it


def test_colours_follow_the_names_and_differ_within_a_data_set():
    assert class_colour('traffic light') == class_colour('traffic_light')
    for names in (cityscapes.CLASS_NAMES, bdd100k.CLASS_NAMES, drive.CLASS_NAMES):
        colours = np.array([class_colour(name) for name in names], float)
        apart = np.linalg.norm(colours[:, None] - colours, axis=2)[~np.eye(len(names), dtype=bool)]
        assert apart.min() > 50, names
    many = [class_colour(f'class {number}') for number in range(80)]
    assert len(set(many)) > 70
    assert all(0 <= value <= 255 and isinstance(value, int) for value in sum(many, ()))


def test_more_of_the_bar_is_filled_the_longer_the_frame_took_and_a_miss_is_red():
    short, long = (
        share(strip(budget_ms=100.0, latency_ms=latency), GREEN) for latency in (20.0, 80.0)
    )
    assert long == pytest.approx(4 * short, rel=0.1) and short > 0
    missed = strip(budget_ms=100.0, latency_ms=120.0, outcome='late', met=False)
    assert share(missed, RED) > long and share(missed, GREEN) == 0


def test_bound_is_a_mark_on_the_bar_only_where_it_is_known():
    without = strip(budget_ms=100.0, latency_ms=50.0, bound_ms=math.nan)
    assert share(without, YELLOW) == 0
    assert share(strip(budget_ms=100.0, latency_ms=50.0, bound_ms=70.0), YELLOW) > 0


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


def test_words_hide_no_other_object():
    """A far one right above the near one, whose words go to its other corner; the far one has room above."""
    near, far = (200, 150, 400, 300), (200, 100, 260, 149)
    drawn = annotate(IMAGE, Detections([near, far], [0.9, 0.8], [0, 1]), NAMES)
    inside = drawn[105:144, 205:255]
    assert (inside == IMAGE[105:144, 205:255]).all()
    assert share(drawn[139:149, 340:400], class_colour(NAMES[0])) > 0.1
    assert share(drawn[89:99, 200:250], class_colour(NAMES[1])) > 0.1


def test_boxes_beyond_the_image_and_labels_beyond_the_names_are_drawn():
    found = Detections([(-1e6, -50, 50, 50), (600, 350, 1e9, 1e9)], [0.9, 0.8], [7, 0])
    assert (annotate(IMAGE, found, NAMES)[:380] != IMAGE).any()


def test_chips_name_every_operator_and_its_share_of_the_work():
    operators = [
        OperatorRecord(name, kind, setting, level, levels, True, False, 8.0, 3.0)
        for name, kind, setting, level, levels in (
            ('pyramid_width', 'width', '0.50', 0, 2),
            ('lens', 'magnifier', 'near', 1, 3),
            ('head', 'switch', '0', 0, 1),
        )
    ]
    assert path_chips('s0-w1.00', operators) == [
        ('pyramid width 0.50', 0.0),
        ('lens near', 0.5),
        ('head 0', 1.0),
    ]
    assert path_chips('', ()) == []
    assert [text for text, _ in path_chips('baseline', ())] == ['baseline']
