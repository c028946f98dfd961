import pytest

from deadline_perception.extras.rendered_drive.camera import Camera, View
from deadline_perception.extras.rendered_drive.painter import (
    Thing,
    depth_of,
    in_sight,
    visible_objects,
)
from deadline_perception.extras.rendered_drive.shapes import ShapeBuilder

VIEW = View(Camera(640, 380), 0.0, 0.0, 0.0)


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
