"""Draws the shapes of a street into an image, far ones first, and tells what of them can be seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.extras.rendered_drive.camera import NEAR_M, View, project
from deadline_perception.extras.rendered_drive.shapes import Shape

SHIFT = 4
DETAIL_PX_PER_M = 5.0
CROWD_SHARE = 0.25
CROWD_AREA_PX = 64.0
CUT_SHARE = 0.12


@dataclass(frozen=True, eq=False)
class Thing:
    """Something that stands on the street.

    Attributes:
        z_m: height of its foot.
        heading_rad: of its x axis.
        shape: a solid, or None for a sprite.
        sprite: uint8 BGRA `[h, w, 4]`, premultiplied, that always faces the camera, or None.
        size_m: width and height of the sprite.
        label: index of its class, -1 for what is not annotated.
        reach_m: distance from its middle to its farthest point, for culling.
        far_key: True when it is painted by its farthest point (buildings), not by its middle.
    """

    x_m: float
    y_m: float
    z_m: float
    heading_rad: float
    shape: Shape | None = None
    sprite: np.ndarray | None = None
    size_m: tuple[float, float] = (0.0, 0.0)
    label: int = -1
    reach_m: float = 3.0
    far_key: bool = False
    casts_shadow: bool = False


@dataclass(frozen=True)
class Light:
    """How a street is lit.

    Attributes:
        sun: unit vector towards the sun, in the street's frame.
        ambient_bgr: share of a surface's colour that shows in the shade.
        direct_bgr: share added where the sun falls straight.
        haze_bgr: colour of the distance.
        visibility_m: distance at which 63 % is haze.
    """

    sun: tuple[float, float, float]
    ambient_bgr: tuple[float, float, float]
    direct_bgr: tuple[float, float, float]
    haze_bgr: tuple[float, float, float]
    visibility_m: float


def fixed(points: np.ndarray) -> np.ndarray:
    """Pixel coordinates as OpenCV's fixed-point integers."""
    return np.rint(points * (1 << SHIFT)).astype(np.int32)


def depth_of(thing: Thing, view: View) -> float:
    """Distance along the optical axis, m."""
    return (thing.x_m - view.x_m) * math.cos(view.heading_rad) + (thing.y_m - view.y_m) * math.sin(
        view.heading_rad
    )


def in_sight(things: list[Thing], view: View, farthest_m: float) -> list[Thing]:
    """Those that may appear in the image, far ones first."""
    slope = view.camera.width / 2 / view.camera.focal_px * 1.05
    kept = []
    for thing in things:
        depth = depth_of(thing, view)
        if not -thing.reach_m < depth < farthest_m:
            continue
        x, y = thing.x_m - view.x_m, thing.y_m - view.y_m
        aside = x * math.sin(view.heading_rad) - y * math.cos(view.heading_rad)
        if abs(aside) - thing.reach_m * 1.5 < max(depth, 0) * slope:
            kept.append((depth + (thing.reach_m if thing.far_key else 0.0), thing))
    kept.sort(key=lambda pair: -pair[0])
    return [thing for _, thing in kept]


def _to_camera(thing: Thing, view: View) -> tuple[np.ndarray, np.ndarray]:
    """Rotation `[3, 3]` and translation `[3]` from the thing's frame to the camera's."""
    cos, sin = math.cos(thing.heading_rad), math.sin(thing.heading_rad)
    turn = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1.0]])
    rotation = view.rotation
    return rotation @ turn, rotation @ (np.array([thing.x_m, thing.y_m, thing.z_m]) - view.position)


def _sprite_corners(thing: Thing, view: View) -> np.ndarray | None:
    """Left, top, right, bottom in px, or None behind the camera."""
    rotation = view.rotation
    foot = rotation @ (np.array([thing.x_m, thing.y_m, thing.z_m]) - view.position)
    if foot[2] < 2 * NEAR_M:
        return None
    top = rotation @ (np.array([thing.x_m, thing.y_m, thing.z_m + thing.size_m[1]]) - view.position)
    low, high = project(view.camera, np.array([foot, top]))
    half = thing.size_m[0] / 2 * view.camera.focal_px / foot[2]
    return np.array([low[0] - half, high[1], low[0] + half, low[1]])


def silhouette(thing: Thing, view: View) -> np.ndarray | None:
    """Convex outline in the image, float32 `[K, 2]` px; None when it lies behind the camera."""
    if thing.shape is None:
        corners = _sprite_corners(thing, view)
        if corners is None:
            return None
        left, top, right, bottom = corners
        if thing.label >= 0:
            return np.array(
                [(left, top), (right, top), (right, bottom), (left, bottom)], np.float32
            )
        angles = np.arange(10) * (2 * math.pi / 10)
        tall = (bottom - top) * 0.4
        crown = [
            (left + right) / 2 + (right - left) * 0.4 * np.cos(angles),
            top + tall + tall * np.sin(angles),
        ]
        return np.stack(crown, 1).astype(np.float32)
    rotation, translation = _to_camera(thing, view)
    points = thing.shape.outline @ rotation.T + translation
    if points[:, 2].max() < NEAR_M:
        return None
    return cv2.convexHull(project(view.camera, points).astype(np.float32))[:, 0]


def visible_objects(things: list[Thing], view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What an annotator would mark: boxes `[N, 4]` xyxy in px, labels `[N]`, crowd `[N]`.

    A box is tight around what can be seen of an object within the image. It is a crowd region when less than
    `CROWD_SHARE` of what the image holds of the object is unhidden, when the image's edge cuts it to less than
    `CUT_SHARE`, or when the box is under `CROWD_AREA_PX` large. Things come in painter's order, as from `in_sight`.
    """
    width, height = view.camera.width, view.camera.height
    owners = np.zeros((height, width), np.uint16)
    outlines: dict[int, np.ndarray] = {}
    for number, thing in enumerate(things, 1):
        outline = silhouette(thing, view)
        if outline is None:
            continue
        cv2.fillConvexPoly(owners, fixed(outline), number, cv2.LINE_8, SHIFT)
        if thing.label >= 0:
            outlines[number] = outline
    boxes, labels, crowd = [], [], []
    for number, outline in outlines.items():
        # pixel centres lie at integers while drawing, boxes count from the pixels' edges
        low, high = outline.min(0) + 0.5, outline.max(0) + 0.5
        left, top = max(0, math.floor(low[0]) - 1), max(0, math.floor(low[1]) - 1)
        right, bottom = min(width, math.ceil(high[0]) + 1), min(height, math.ceil(high[1]) + 1)
        if left >= right or top >= bottom:
            continue
        seen = owners[top:bottom, left:right] == number
        columns, rows = np.flatnonzero(seen.any(0)), np.flatnonzero(seen.any(1))
        if not len(columns):
            continue
        edges = np.array(
            [left + columns[0], top + rows[0], left + columns[-1] + 1, top + rows[-1] + 1],
            np.float64,
        )
        exact = np.array([low[0], low[1], high[0], high[1]])
        box = np.where(np.abs(edges - exact) <= 1.6, exact, edges)
        box = np.clip(box, 0, (width, height, width, height))
        area = float((box[2] - box[0]) * (box[3] - box[1]))
        inside = cv2.contourArea(np.clip(outline, 0, (width, height)).astype(np.float32))
        # beside the camera a silhouette grows without bounds: what lies half an image outside does not count
        near = np.clip(outline, (-width / 2, -height / 2), (width * 1.5, height * 1.5))
        around = cv2.contourArea(near.astype(np.float32))
        hidden = seen.sum() < CROWD_SHARE * max(inside, 1.0) or seen.sum() < CUT_SHARE * around
        if box[2] - box[0] < 1 or box[3] - box[1] < 1:
            continue
        boxes.append(box)
        labels.append(things[number - 1].label)
        crowd.append(hidden or area < CROWD_AREA_PX)
    return (
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(labels, np.int64),
        np.array(crowd, bool),
    )


def paint(image: np.ndarray, things: list[Thing], view: View, light: Light) -> None:
    """Draws things over an image, in the order given."""
    for thing in things:
        if thing.shape is None:
            _paint_sprite(image, thing, view, light)
        else:
            _paint_shape(image, thing, thing.shape, view, light)


def _paint_sprite(image: np.ndarray, thing: Thing, view: View, light: Light) -> None:
    corners = _sprite_corners(thing, view)
    if corners is None or thing.sprite is None:
        return
    left, top, right, bottom = corners
    x0, y0 = max(0, math.floor(left)), max(0, math.floor(top))
    x1, y1 = min(image.shape[1], math.ceil(right) + 1), min(image.shape[0], math.ceil(bottom) + 1)
    if x0 >= x1 or y0 >= y1:
        return
    rows, columns = thing.sprite.shape[:2]
    sprite, scale = thing.sprite, (right - left) / columns
    while scale < 0.5 and min(sprite.shape[:2]) > 8:
        sprite = cv2.resize(sprite, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        scale *= 2
    # a sprite's pixels are counted from their centres too, its edges lie half a pixel beyond the outer ones
    wide, tall = (right - left) / sprite.shape[1], (bottom - top) / sprite.shape[0]
    to_image = np.array([[wide, 0, left - x0 + wide / 2], [0, tall, top - y0 + tall / 2]])
    drawn = cv2.warpAffine(
        sprite, to_image, (x1 - x0, y1 - y0), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT
    )
    distance = depth_of(thing, view)
    haze = 1 - math.exp(-max(distance, 0) / light.visibility_m)
    gain = (np.array(light.ambient_bgr) + 0.55 * np.array(light.direct_bgr)) * (1 - haze)
    alpha = drawn[..., 3:].astype(np.float32) * np.float32(1 / 255)
    below = image[y0:y1, x0:x1]
    # drawn with anti-aliasing on empty pixels, so colours are already multiplied by alpha
    distant = (np.array(light.haze_bgr) * haze).astype(np.float32)
    colour = drawn[..., :3] * gain.astype(np.float32) + (distant - below) * alpha
    below[:] = np.clip(below + colour, 0, 255)


def _paint_shape(image: np.ndarray, thing: Thing, shape: Shape, view: View, light: Light) -> None:
    rotation, translation = _to_camera(thing, view)
    points = shape.points @ rotation.T + translation
    if points[:, 2].max() < NEAR_M:
        return
    focal = view.camera.focal_px
    scale = focal / max(translation[2], 1.0)
    pixels = project(view.camera, points)
    corners = fixed(pixels)
    eye = -translation @ rotation
    facing = ((eye - shape.centres) * shape.normals).sum(1)
    two_sided = ~shape.normals.any(1)
    cos, sin = math.cos(thing.heading_rad), math.sin(thing.heading_rad)
    sun = np.array(
        [
            cos * light.sun[0] + sin * light.sun[1],
            -sin * light.sun[0] + cos * light.sun[1],
            light.sun[2],
        ]
    )
    direct = np.where(two_sided, 0.5, np.maximum(shape.normals @ sun, 0))[:, None]
    strength = np.where(
        shape.lit[:, None], np.array(light.ambient_bgr) + direct * np.array(light.direct_bgr), 1.0
    )
    haze = 1 - math.exp(-max(float(translation[2]), 0.0) / light.visibility_m)
    colours = (
        np.minimum(shape.bgr * strength, 255) * (1 - haze) + np.array(light.haze_bgr) * haze
    ).tolist()
    shown = (facing > 0) | two_sided
    small = scale < DETAIL_PX_PER_M
    for index, element in enumerate(shape.elements):
        if not shown[index] or (small and element.detail):
            continue
        first, last, colour = element.first, element.last, colours[index]
        if element.kind == 'polygon':
            cv2.fillConvexPoly(image, corners[first:last], colour, cv2.LINE_AA, SHIFT)
        elif element.kind == 'quads':
            cv2.fillPoly(
                image, list(corners[first:last].reshape(-1, 4, 2)), colour, cv2.LINE_AA, SHIFT
            )
        elif points[first:last, 2].min() > NEAR_M:
            radii = element.radius_m * focal / points[first:last, 2]
            if element.kind == 'ring':
                thickness = max(1, round(2 * float(radii.mean())))
                cv2.polylines(
                    image, [corners[first:last]], True, colour, thickness, cv2.LINE_AA, SHIFT
                )
            elif element.kind == 'rod':
                cv2.fillConvexPoly(
                    image,
                    fixed(_bar(pixels[first], pixels[first + 1], radii)),
                    colour,
                    cv2.LINE_AA,
                    SHIFT,
                )
            else:
                x, y = corners[first].tolist()
                cv2.circle(
                    image,
                    (x, y),
                    max(1, int(radii[0] * (1 << SHIFT))),
                    colour,
                    -1,
                    cv2.LINE_AA,
                    SHIFT,
                )


def _bar(start: np.ndarray, end: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Corners of a rod in the image, `[4, 2]`; one seen from its end is as long as it is thick."""
    (x0, y0), (x1, y1), (r0, r1) = start.tolist(), end.tolist(), radii.tolist()
    length = math.hypot(x1 - x0, y1 - y0)
    along_x, along_y = ((x1 - x0) / length, (y1 - y0) / length) if length > 1e-6 else (0.0, 1.0)
    # the ends are rounded off by four tenths of the radius
    x0, y0 = x0 - 0.4 * r0 * along_x, y0 - 0.4 * r0 * along_y
    x1, y1 = x1 + 0.4 * r1 * along_x, y1 + 0.4 * r1 * along_y
    return np.array(
        (
            (x0 - r0 * along_y, y0 + r0 * along_x),
            (x1 - r1 * along_y, y1 + r1 * along_x),
            (x1 + r1 * along_y, y1 - r1 * along_x),
            (x0 + r0 * along_y, y0 - r0 * along_x),
        )
    )
