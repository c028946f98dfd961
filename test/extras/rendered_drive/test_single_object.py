import numpy as np
import pytest
from plain_images import grey

from deadline_perception.extras.rendered_drive.drive import CLASS_NAMES as DETECTED
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.rendered_drive.single_object import (
    gather_views,
    render_object,
    render_views,
)
from deadline_perception.extras.several_networks.classifier.classes import CLASS_NAMES

BACKGROUND = grey(60, 60, 128)


def test_what_is_gathered_has_annotated_objects_background_and_every_class_that_can_be_rendered():
    drive = render_drive(seconds=1.0, rate_hz=2.0, seed=3, width=320, height=190)
    annotated, rendered = gather_views(drive.frames, DETECTED, backgrounds=4, rendered=2, seed=5)
    assert {view.classes for view in rendered} == {(name,) for name in CLASS_NAMES[1:]}
    assert len(rendered) == 42
    assert ('background',) in {view.classes for view in annotated}
    assert gather_views(drive.frames, DETECTED, backgrounds=4, rendered=0, seed=5)[1] == []


@pytest.mark.parametrize(
    'name, size, match',
    [
        ('background', 20.0, "class is 'background', expected one that can be rendered"),
        ('tram', 20.0, "class is 'tram'"),
        ('stop', 2.0, 'size is 2.0 px, expected 4 to 256 px'),
    ],
)
def test_what_cannot_be_rendered_is_refused(name, size, match):
    with pytest.raises(ValueError, match=match):
        render_object(np.random.default_rng(0), name, size, BACKGROUND)
    with pytest.raises(ValueError, match='there is no background'):
        render_views(('stop',), 1, [], seed=0)
