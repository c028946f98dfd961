from __future__ import annotations

import math

import numpy as np
import pytest

from deadline_perception.extras.rendered_drive.camera import Camera
from deadline_perception.extras.rendered_drive.drive import Drive
from deadline_perception.extras.rendered_drive.painter import in_sight, paint, visible_objects
from deadline_perception.extras.rendered_drive.pedestrians import Pedestrian
from deadline_perception.extras.rendered_drive.street import PERSON

LOOK = ((9, 9, 9), (8, 8, 8), (7, 7, 7), 1.7)


@pytest.fixture(scope='module')
def drive():
    return Drive(32.0, 2, Camera(640, 380))


def test_pacing_goes_to_and_fro_at_its_speed():
    person = Pedestrian(100.0, 5.0, 10.0, 2.0, 0.0, LOOK)
    poses = [person.pose(time_s) for time_s in (0.0, 5.0, 10.0, 15.0, 20.0)]
    assert [along for along, *_ in poses] == pytest.approx([90.0, 100.0, 110.0, 100.0, 90.0])
    assert [turn for _, _, turn, _ in poses] == pytest.approx([0.0, 0.0, math.pi, math.pi, 0.0])
    assert {aside for _, aside, _, _ in poses} == {5.0}


def test_crossing_begins_at_its_time_and_ends_on_the_other_side():
    for aside, turn in ((6.0, math.pi / 2), (-6.0, -math.pi / 2)):
        person = Pedestrian(50.0, aside, 0.0, 1.5, 4.0, LOOK)
        poses = [person.pose(time_s) for time_s in (0.0, 4.0, 8.0, 12.0, 30.0)]
        assert [place for _, place, _, _ in poses] == pytest.approx(
            [aside, aside, 0.0, -aside, -aside]
        )
        assert all(pose[2] == turn and pose[0] == 50.0 for pose in poses)


def test_people_keep_off_the_carriageway_but_where_they_cross_while_the_light_is_red(drive):
    crossing = [person for person in drive._people if not person.reach_m]
    assert len(crossing) > 4 and len(drive._people) > 50
    for time_s in np.arange(0, 32, 0.5):
        for person in drive._people:
            along, aside, _, _ = person.pose(time_s)
            if abs(aside) < drive._layout.half_m:
                junction, green_s = min(
                    zip(drive._junctions, drive._motion.red_until_s),
                    key=lambda pair: abs(pair[0].at_m - along),
                )
                assert (
                    junction.holds_ego
                    and time_s < green_s
                    and 5.0 < abs(along - junction.at_m) < 7.4
                )


def test_boxes_hold_the_people_that_are_painted(drive):
    """Painted without anybody on foot, the picture changes inside the boxes, and hardly elsewhere."""
    checked = 0
    for time_s in (3.0, 9.0, 12.5):
        view = drive.view(time_s)
        things = in_sight(drive._things(time_s), view, 125.0)
        boxes, labels, crowd = visible_objects(things, view)
        with_people, without = (np.zeros((380, 640, 3), np.uint8) for _ in range(2))
        paint(with_people, things, view, drive._light)
        paint(without, [thing for thing in things if thing.label != PERSON], view, drive._light)
        changed = (with_people != without).any(2)
        elsewhere = changed.copy()
        for box, label, ignored in zip(boxes, labels, crowd):
            if label == PERSON and not ignored:
                left, top, right, bottom = np.rint(box).astype(int)
                assert changed[top:bottom, left:right].mean() > 0.25
                elsewhere[max(0, top - 2) : bottom + 2, max(0, left - 2) : right + 2] = False
                checked += 1
        hidden = sum(label == PERSON for label, ignored in zip(labels, crowd) if ignored)
        assert elsewhere.sum() <= 64 * (hidden + 1)
    assert checked > 8
