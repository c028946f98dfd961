import numpy as np
import pytest
from plain_images import grey

from deadline_perception.extras.rendered_drive.camera import Camera, View
from deadline_perception.extras.rendered_drive.ground import (
    Ground,
    cloud_panorama,
)
from deadline_perception.extras.rendered_drive.painter import Light
from deadline_perception.extras.rendered_drive.street import Course, Layout, place_junctions

LAYOUT = Layout(
    lanes=2,
    parking_m=0.0,
    walk_m=3.0,
    density=1.0,
    style='suburb',
    yellow=True,
    overhead=False,
    trees=('conifer', 'poplar'),
)


@pytest.fixture(scope='module')
def drawn():
    rng = np.random.default_rng(1)
    light = Light((0.0, 0.6, 0.8), (0.6, 0.6, 0.6), (0.4, 0.4, 0.4), (210.0, 205.0, 200.0), 400.0)
    course = Course(rng, 400)
    sky = cloud_panorama(rng, np.array([200.0, 140, 90]), np.array([220.0, 210, 200]), 0.4)
    ground = Ground(rng, course, LAYOUT, place_junctions(rng, 200.0, 300.0), light, sky, 0.4)
    view = View(Camera(), *course.place(10.0, 1.75).tolist(), float(course.heading_rad(10.0)))
    image = grey(380, 640)
    horizon = ground.draw_far(image, view)
    ground.draw_road(image, view, 10.0, horizon, [])
    return image, horizon


def test_the_middle_line_is_yellow_and_left_of_the_camera(drawn):
    image, _ = drawn
    row = image[330].astype(int)
    yellow = np.flatnonzero(row[:, 2] - row[:, 0] > 60)
    # 1.75 m to the left, at a depth of 320 * 1.5 / (330 - 189.5) m
    assert 319.5 - np.median(yellow) == pytest.approx(1.75 * 140.5 / 1.5, abs=25)
