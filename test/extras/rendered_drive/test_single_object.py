import cv2
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
from deadline_perception.extras.rendered_drive.street_furniture import sign_sprite
from deadline_perception.extras.several_networks.classifier.classes import CLASS_NAMES, SIGN_FACES

BACKGROUND = grey(60, 60, 128)


OTHERS = {name: face for name, face in SIGN_FACES.items() if not face.isdigit()}


def shrunk(image) -> np.ndarray:
    return cv2.resize(image, (48, 48), interpolation=cv2.INTER_AREA).astype(np.float64)


def cut_out(view) -> np.ndarray:
    """The box of a view as 48 x 48 px, float64."""
    left, top, right, bottom = (round(value) for value in view.box_xyxy_px)
    return shrunk(view.image_bgr[top:bottom, left:right])


def likeness(view, face: str) -> float:
    """Correlation of a rendered sign with a face, over the pixels of the face."""
    sprite = shrunk(sign_sprite(face))
    inside = sprite[..., 3] > 200
    return float(np.corrcoef(cut_out(view)[inside].ravel(), sprite[inside][:, :3].ravel())[0, 1])


@pytest.mark.parametrize('name', OTHERS)
def test_a_rendered_sign_is_most_like_the_face_of_its_meaning(name):
    generators = [np.random.default_rng(seed) for seed in range(8)]
    views = [render_object(generator, name, 128.0, BACKGROUND) for generator in generators]

    def like(meaning):
        return np.mean([likeness(view, OTHERS[meaning]) for view in views])

    assert max(OTHERS, key=like) == name


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
