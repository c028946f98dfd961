"""A pinhole camera on a vehicle: where points of the street appear in its image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

NEAR_M = 0.3
MOUNTING_HEIGHT_M = 1.5  # of the optical centre above the road
FARTHEST_PX = 8000.0


@dataclass(frozen=True)
class Camera:
    """Intrinsics and mounting of an ideal camera without distortion.

    Attributes:
        width, height: of the image in px, at least 16.
        field_of_view_deg: horizontal, in (10, 150).
    """

    width: int = 640
    height: int = 380
    field_of_view_deg: float = 90.0

    def __post_init__(self) -> None:
        if self.width < 16 or self.height < 16:
            raise ValueError(f'image of {self.width}x{self.height} px, expected at least 16x16')

    @property
    def focal_px(self) -> float:
        """Focal length in px, the same for both axes."""
        return self.width / 2 / math.tan(math.radians(self.field_of_view_deg) / 2)

    @property
    def matrix(self) -> np.ndarray:
        """Intrinsics K, float64 `[3, 3]`, pixel centres at integers (sensor_msgs/CameraInfo's k)."""
        return np.array(
            [
                [self.focal_px, 0, (self.width - 1) / 2],
                [0, self.focal_px, (self.height - 1) / 2],
                [0, 0, 1],
            ]
        )


@dataclass(frozen=True)
class View:
    """A camera at one place: the affine map from the street's frame (x, y on the ground, z up) to the camera's.

    Attributes:
        heading_rad: of the optical axis, counter-clockwise from x.
        pitch_rad: positive when the camera looks down.
    """

    camera: Camera
    x_m: float
    y_m: float
    heading_rad: float
    pitch_rad: float = 0.0

    @cached_property
    def rotation(self) -> np.ndarray:
        """Rows right, down, forward in the street's frame, `[3, 3]`."""
        cos, sin = math.cos(self.heading_rad), math.sin(self.heading_rad)
        down, ahead = math.cos(self.pitch_rad), math.sin(self.pitch_rad)
        forward = np.array([cos, sin, 0.0])
        up = np.array([0.0, 0.0, 1.0])
        return np.stack(
            [np.array([sin, -cos, 0.0]), -down * up - ahead * forward, down * forward - ahead * up]
        )

    @cached_property
    def position(self) -> np.ndarray:
        """Optical centre in the street's frame, `[3]`."""
        return np.array([self.x_m, self.y_m, MOUNTING_HEIGHT_M])

    def to_camera(self, points: np.ndarray) -> np.ndarray:
        """Street points `[N, 3]` as right, down, forward of the camera, `[N, 3]`, in m."""
        return (points - self.position) @ self.rotation.T

    def to_pixels(self, points: np.ndarray) -> np.ndarray:
        """Street points `[N, 3]` in the image, `[N, 2]`."""
        return project(self.camera, self.to_camera(points))


def project(camera: Camera, points: np.ndarray) -> np.ndarray:
    """Camera points `[N, 3]` in the image, `[N, 2]` px; those behind the camera are moved to the near plane."""
    depth = np.maximum(points[:, 2:], NEAR_M)
    pixels = points[:, :2] / depth * camera.focal_px
    pixels += ((camera.width - 1) / 2, (camera.height - 1) / 2)
    return np.clip(pixels, -FARTHEST_PX, FARTHEST_PX)
