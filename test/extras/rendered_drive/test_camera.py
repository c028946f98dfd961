import math

import numpy as np
import pytest

from deadline_perception.extras.rendered_drive.camera import Camera, View


def test_points_appear_where_geometry_says():
    camera = Camera(640, 380)
    assert camera.focal_px == pytest.approx(320)
    assert camera.matrix == pytest.approx(np.array([[320, 0, 319.5], [0, 320, 189.5], [0, 0, 1]]))
    view = View(Camera(640, 380), 10.0, 5.0, math.pi / 2)
    # 8 m ahead (along y), 2 m to the right (along x), on the ground
    assert view.to_camera(np.array([[12.0, 13.0, 0.0]])) == pytest.approx(np.array([[2, 1.5, 8]]))
    assert view.to_pixels(np.array([[12.0, 13.0, 0.0]])) == pytest.approx(
        np.array([[319.5 + 80, 189.5 + 60]])
    )
