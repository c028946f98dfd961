import numpy as np
import pytest
from plain_images import grey

from deadline_perception.extras.rendered_drive import road_users
from deadline_perception.extras.rendered_drive.camera import Camera, View
from deadline_perception.extras.rendered_drive.painter import (
    Light,
    Thing,
    depth_of,
    in_sight,
    paint,
    silhouette,
    visible_objects,
)
from deadline_perception.extras.rendered_drive.shapes import ShapeBuilder
from deadline_perception.extras.rendered_drive.street_furniture import sign_sprite

VIEW = View(Camera(640, 380), 0.0, 0.0, 0.0)
LIGHT = Light((0.0, 0.0, 1.0), (0.7, 0.7, 0.7), (0.3, 0.3, 0.3), (200.0, 200.0, 200.0), 300.0)


def box(width: float, height: float):
    builder = ShapeBuilder()
    builder.frustum((-0.01, 0.01, width / 2, 0.0), (-0.01, 0.01, width / 2, height), (0, 0, 250))
    return builder.build()


def thing(x: float, y: float = 0.0, label: int = 0, shape=None) -> Thing:
    return Thing(x, y, 0.0, 0.0, shape=shape or box(2.0, 1.5), label=label, reach_m=1.0)


def test_the_box_of_a_known_rectangle():
    boxes, labels, crowd = visible_objects([thing(10.01, label=3)], VIEW)
    # 2 m at 10 m with 320 px focal length: 64 px wide; 1.5 m tall from the ground up to the horizon
    assert boxes[0] == pytest.approx([320 - 32, 190 - 0, 320 + 32, 190 + 48], abs=0.11)
    assert labels.tolist() == [3] and crowd.tolist() == [False]


def test_what_is_nearer_hides_what_is_farther():
    left_half = thing(5.0, y=1.0, label=1)
    things = in_sight([left_half, thing(10.01)], VIEW, 100)
    assert [depth_of(t, VIEW) for t in things] == [10.01, 5.0]
    boxes, labels, crowd = visible_objects(things, VIEW)
    half_hidden = boxes[labels.tolist().index(0)]
    assert half_hidden == pytest.approx([320, 190, 352, 238], abs=1.6)
    assert not crowd.any()


def test_a_mostly_hidden_object_is_crowd_and_a_wholly_hidden_one_none():
    hidden = thing(10.01)
    narrow = thing(5.0, y=0.15, label=-1, shape=box(0.9, 1.6))
    _, labels, crowd = visible_objects([hidden, narrow], VIEW)
    assert labels.tolist() == [0] and crowd.tolist() == [True]
    wide = thing(5.0, label=-1, shape=box(1.5, 1.6))
    assert len(visible_objects([hidden, wide], VIEW)[0]) == 0


def test_a_small_object_is_crowd():
    boxes, _, crowd = visible_objects([thing(95.0)], VIEW)
    assert (boxes[0, 2] - boxes[0, 0]) * (boxes[0, 3] - boxes[0, 1]) < 64
    assert crowd.tolist() == [True]


def test_a_box_ends_at_the_images_edge():
    boxes, _, crowd = visible_objects([thing(5.0, y=5.0)], VIEW)
    assert boxes[0, 0] == 0 and boxes[0, 2] == pytest.approx(320 - 4 * 64, abs=1.7) and not crowd[0]


def test_what_is_behind_or_aside_is_not_in_sight():
    assert in_sight([thing(-5.0), thing(5.0, y=30.0), thing(200.0)], VIEW, 100) == []
    assert silhouette(thing(-5.0), VIEW) is None


def test_paint_fills_the_silhouette_of_a_car():
    image = grey(380, 640, 128)
    car = Thing(
        9.0, 0.0, 0.0, 0.0, shape=road_users.car('saloon', (30, 30, 200)), label=0, reach_m=3
    )
    paint(image, [car], VIEW, LIGHT)
    ((left, top, right, bottom),) = visible_objects([car], VIEW)[0]
    changed = (image != 128).any(2)
    rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
    assert [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1] == pytest.approx(
        [left, top, right, bottom], abs=2
    )
    assert changed[int(top) : int(bottom), int(left) : int(right)].mean() > 0.7


def test_paint_draws_signs_at_their_place():
    image = grey(380, 640)
    sign = Thing(
        8.0, -2.0, 2.0, 0.0, sprite=sign_sprite('no_entry'), size_m=(0.8, 0.8), label=4, reach_m=1
    )
    paint(image, [sign], VIEW, LIGHT)
    ((left, top, right, bottom),) = visible_objects([sign], VIEW)[0]
    assert [left, right] == pytest.approx([320 + 64, 320 + 96], abs=0.2)
    assert image[int(top) : int(bottom), int(left) : int(right)].any(2).mean() > 0.7
    assert image.any(2).sum() == pytest.approx(np.pi * 16**2, rel=0.1)
