from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.extras.rendered_drive.camera import NEAR_M, Camera, View


def test_intrinsics_of_ninety_degrees():
    camera = Camera(640, 380)
    assert camera.focal_px == pytest.approx(320)
    assert camera.matrix == pytest.approx(np.array([[320, 0, 319.5], [0, 320, 189.5], [0, 0, 1]]))


def test_points_appear_where_geometry_says():
    view = View(Camera(640, 380), 10.0, 5.0, math.pi / 2)
    # 8 m ahead (along y), 2 m to the right (along x), on the ground
    assert view.to_camera(np.array([[12.0, 13.0, 0.0]])) == pytest.approx(np.array([[2, 1.5, 8]]))
    assert view.to_pixels(np.array([[12.0, 13.0, 0.0]])) == pytest.approx(
        np.array([[319.5 + 80, 189.5 + 60]])
    )


def test_looking_down_moves_the_horizon_up():
    level, down = (
        View(Camera(), 0, 0, 0, pitch).to_pixels(np.array([[1e6, 0, 1.5]]))[0, 1]
        for pitch in (0.0, 0.05)
    )
    assert level == pytest.approx(189.5)
    assert down == pytest.approx(189.5 - 320 * math.tan(0.05))


def test_points_behind_the_camera_move_to_the_near_plane():
    view = View(Camera(), 0, 0, 0)
    pixels = view.to_pixels(np.array([[-5.0, -1.0, 1.5], [NEAR_M, -1.0, 1.5]]))
    assert pixels[0] == pytest.approx(pixels[1])


@settings(max_examples=50, deadline=None)
@given(
    st.floats(-3.1, 3.1),
    st.floats(-0.2, 0.2),
    st.floats(1, 90),
    st.floats(-30, 30),
    st.floats(0, 5),
)
def test_rotation_keeps_distances(heading, pitch, x, y, z):
    view = View(Camera(), 1.0, -2.0, heading, pitch)
    point = np.array([[x, y, z]])
    assert np.linalg.norm(view.to_camera(point)) == pytest.approx(
        np.linalg.norm(point - view.position)
    )
