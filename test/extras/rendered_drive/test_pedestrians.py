import numpy as np
import pytest
from plain_images import grey

from deadline_perception.extras.rendered_drive.camera import Camera
from deadline_perception.extras.rendered_drive.drive import Drive
from deadline_perception.extras.rendered_drive.painter import in_sight, paint, visible_objects
from deadline_perception.extras.rendered_drive.street import PERSON


@pytest.fixture(scope='module')
def drive():
    return Drive(32.0, 2, Camera(640, 380))


def test_boxes_hold_the_people_that_are_painted(drive):
    """Painted without anybody on foot, the picture changes inside the boxes, and hardly elsewhere."""
    checked = 0
    for time_s in (3.0, 9.0, 12.5):
        view = drive.view(time_s)
        things = in_sight(drive._things(time_s), view, 125.0)
        boxes, labels, crowd = visible_objects(things, view)
        with_people, without = (grey(380, 640) for _ in range(2))
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
