"""Detections as markers for RViz: frames in the camera's view, drawn on a plane ahead of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from deadline_perception.core.detections import Detections
from deadline_perception.core.images.annotate import class_colour, class_name

FOCAL_RANGE_PX = (1.0, 100_000.0)
FARTHEST_CENTRE_PX = 100_000.0
_DISTANCE_M = 5.0  # of the plane that boxes are drawn on: what is drawn looks the same at any, from the camera
_LIFETIME = Duration(
    sec=2
)  # of what is not replaced, so that nobody takes the last boxes of a dead node for new ones


@dataclass(frozen=True)
class PinholeCamera:
    """How pixels become directions: x right, y down, z ahead (ROS's optical frame).

    Attributes:
        focal_px: focal lengths in x and y, px, within `FOCAL_RANGE_PX`.
        centre_px: principal point in x and y, px, at most `FARTHEST_CENTRE_PX` from the image's corner.

    Raises:
        ValueError: a number lies outside, so that points could be infinite or not numbers.
    """

    focal_px: tuple[float, float]
    centre_px: tuple[float, float]

    def __post_init__(self) -> None:
        smallest_px, largest_px = FOCAL_RANGE_PX
        if not all(smallest_px <= focal_px <= largest_px for focal_px in self.focal_px):
            raise ValueError(
                f'focal length is {self.focal_px} px, expected [{smallest_px:g}, {largest_px:g}] px'
            )
        if not all(abs(centre_px) <= FARTHEST_CENTRE_PX for centre_px in self.centre_px):
            raise ValueError(
                f'principal point is {self.centre_px} px, expected at most {FARTHEST_CENTRE_PX:g} px from '
                f'the corner'
            )

    def at_distance(self, points_px: np.ndarray, distance_m: float) -> np.ndarray:
        """Points `[N, 2]` in px as `[N, 3]` in m on the plane z = distance."""
        flat = (points_px - np.array(self.centre_px)) / np.array(self.focal_px) * distance_m
        return np.column_stack([flat, np.full(len(flat), distance_m)])


def detection_markers(
    detections: Detections,
    class_names: Sequence[str],
    header: Header,
    camera: PinholeCamera,
    headline: str,
) -> MarkerArray:
    """One line list and one text per object, and one headline; the array replaces what was shown before."""
    markers = [Marker(header=header, action=Marker.DELETEALL)]
    for number, (box, score, label) in enumerate(
        zip(detections.boxes_xyxy_px, detections.scores, detections.labels)
    ):
        x0, y0, x1, y1 = box
        corners = camera.at_distance(
            np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)]), _DISTANCE_M
        )
        name = class_name(int(label), class_names)
        blue, green, red = (part / 255.0 for part in class_colour(name))
        colour = ColorRGBA(r=red, g=green, b=blue, a=1.0)
        frame = Marker(
            header=header,
            ns='boxes',
            id=number,
            type=Marker.LINE_STRIP,
            color=colour,
            lifetime=_LIFETIME,
        )
        frame.scale.x = 0.004 * _DISTANCE_M
        frame.pose.orientation.w = 1.0
        frame.points = [_point(corner) for corner in (*corners, corners[0])]
        markers += [
            frame,
            _text(header, 'labels', number, f'{name} {score:.2f}', corners[0], colour),
        ]
    top = camera.at_distance(np.array([(camera.centre_px[0], 0.0)]), _DISTANCE_M)[0]
    white = ColorRGBA(r=1.0, g=1.0, b=1.0, a=1.0)
    markers.append(_text(header, 'headline', 0, headline, top, white))
    return MarkerArray(markers=markers)


def _text(
    header: Header,
    namespace: str,
    number: int,
    text: str,
    place: np.ndarray,
    colour: ColorRGBA,
) -> Marker:
    marker = Marker(
        header=header,
        ns=namespace,
        id=number,
        type=Marker.TEXT_VIEW_FACING,
        color=colour,
        text=text,
        lifetime=_LIFETIME,
    )
    marker.pose.position = _point(place - np.array((0.0, 0.02 * _DISTANCE_M, 0.0)))
    marker.pose.orientation.w = 1.0
    marker.scale.z = 0.03 * _DISTANCE_M
    return marker


def _point(place: np.ndarray) -> Point:
    return Point(x=float(place[0]), y=float(place[1]), z=float(place[2]))
