import math

import numpy as np
import pytest

from deadline_perception.extras.rendered_drive import street
from deadline_perception.extras.rendered_drive.street import (
    Course,
    Roadside,
    choose_layout,
    place_junctions,
)


def test_the_course_bends_gently_and_places_to_the_right():
    course = Course(np.random.default_rng(3), 500)
    along = np.arange(0, 500.0)
    turn = np.diff(course.heading_rad(along))
    assert np.abs(turn).max() < 1 / 90
    assert course.heading_rad(0.0) == pytest.approx(0)
    middle, aside = course.place(200.0, 0.0), course.place(200.0, 3.0)
    assert math.dist(middle, aside) == pytest.approx(3.0)
    heading = float(course.heading_rad(200.0))
    assert aside - middle == pytest.approx([3 * math.sin(heading), -3 * math.cos(heading)])


def test_the_first_junction_holds_the_ego_vehicle():
    junctions = place_junctions(np.random.default_rng(0), 120.0, 1500.0)
    assert junctions[0].at_m == 120.0 and junctions[0].holds_ego
    gaps = [after.at_m - before.at_m for before, after in zip(junctions, junctions[1:])]
    assert min(gaps) >= 95 and max(gaps) <= 190


def test_the_roadside_leaves_the_lanes_free():
    rng = np.random.default_rng(5)
    layout, course = choose_layout(rng), Course(rng, 400)
    junctions = place_junctions(rng, 100.0, 300.0)
    roadside = Roadside(rng, course, layout, junctions, 300.0)
    assert len(roadside.things) == len(roadside.along_m) > 30
    for thing, along in zip(roadside.things, roadside.along_m):
        middle = course.place(along, 0.0)
        assert math.dist(middle, (thing.x_m, thing.y_m)) > layout.lanes * street.LANE_M
