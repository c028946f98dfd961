"""Single rendered objects whose class is exactly known: signs by their meaning, lights by their lamp, road users."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.rendered_drive import road_users, street, street_furniture
from deadline_perception.extras.rendered_drive.camera import Camera, View
from deadline_perception.extras.rendered_drive.object_views import ObjectView, annotated_views
from deadline_perception.extras.rendered_drive.painter import Light, Thing, paint, silhouette
from deadline_perception.extras.rendered_drive.pedestrians import pedestrian_colours
from deadline_perception.extras.several_networks.classifier.classes import (
    BACKGROUND,
    CLASS_NAMES,
    LAMPS,
    NO_LAMP,
    OTHER_SIGN,
    ROAD_USERS,
    SIGN_FACES,
)

SIZES_PX = (8.0, 64.0)  # shortest and longest of the longer sides that are learnt
_OTHER_FACES = ('20', '40', '70', '99', 'blue', 'board')  # signs of other meanings
_FONTS = (cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_TRIPLEX)
_MARGIN = 2.4  # side of a view over the longer side of its object
_FINER = 2  # painted at so many times the size, then averaged


def render_object(
    rng: np.random.Generator, name: str, size_px: float, background_bgr: np.ndarray
) -> ObjectView:
    """One object over a piece of background, in a light and at an angle that are drawn by chance.

    Args:
        rng: decides all that varies.
        name: class of the object, one of `classifier.classes` but the background.
        size_px: longer side that its box is to have, in [4, 256] px.
        background_bgr: uint8 `[h, w, 3]` of any size.

    Raises:
        ValueError: another class, or a size out of range.
    """
    if not 4.0 <= size_px <= 256.0:
        raise ValueError(f'size is {size_px} px, expected 4 to 256 px')
    things = _things(rng, name)
    thing = things[-1]
    canvas = 2 * math.ceil(_MARGIN * _FINER * size_px / 2)
    wide_view = View(Camera(1000, 1000, 90.0), 0.0, 0.0, 0.0)  # of 500 px focal length
    outline = silhouette(thing, wide_view)
    span = float(np.ptp(outline, axis=0).max()) / 500.0
    field_deg = 2 * math.degrees(math.atan(canvas / 2 * span / (_FINER * size_px)))
    view = View(
        Camera(max(16, canvas), max(16, canvas), min(max(field_deg, 10.5), 149.0)), 0.0, 0.0, 0.0
    )
    image = cv2.resize(
        background_bgr, (view.camera.width, view.camera.height), interpolation=cv2.INTER_LINEAR
    )
    paint(image, things, view, _light(rng, thing.x_m))
    outline = silhouette(thing, view) + 0.5
    image = cv2.resize(image, None, fx=1 / _FINER, fy=1 / _FINER, interpolation=cv2.INTER_AREA)
    low, high = outline.min(0) / _FINER, outline.max(0) / _FINER
    return ObjectView(
        image, (float(low[0]), float(low[1]), float(high[0]), float(high[1])), (name,)
    )


def _things(rng: np.random.Generator, name: str) -> list[Thing]:
    """What is painted; the object itself last, its middle at the height of the camera."""
    if name in SIGN_FACES or name == OTHER_SIGN:
        return _sign(rng, SIGN_FACES.get(name) or _OTHER_FACES[rng.integers(len(_OTHER_FACES))])
    if name in LAMPS or name == NO_LAMP:
        return _traffic_light(rng, LAMPS.get(name))
    if name not in ROAD_USERS:
        raise ValueError(
            f'class is {name!r}, expected one that can be rendered: '
            f'{", ".join((*ROAD_USERS, *LAMPS, NO_LAMP, *SIGN_FACES, OTHER_SIGN))}'
        )
    turn = float(rng.uniform(0, 2 * math.pi))
    if name == 'person':
        shape = road_users.pedestrian(
            *pedestrian_colours(rng),
            round(float(rng.uniform(1.5, 1.95)), 2),
            round(float(rng.uniform(-1, 1)), 1),
        )
    elif name == 'bike':
        shape = street.bike(rng, rider=bool(rng.random() < 0.8))
    else:
        wanted = street.VEHICLE if name == 'vehicle' else street.MOTORBIKE
        while True:
            shapes, _, label = street.vehicle(rng)
            if label == wanted:
                break
        shape = shapes[int(rng.random() < 0.4)]
        if name == 'vehicle' and rng.random() < 0.7:  # most are seen along the road
            turn = float(rng.choice([0.0, math.pi]) + rng.normal(0, 0.3))
    extent = shape.outline.max(0) - shape.outline.min(0)
    distance = float(extent.max() * rng.uniform(3.0, 7.0))
    return [
        Thing(
            distance,
            0.0,
            1.5 - float(extent[2]) / 2,
            turn,
            shape=shape,
            label=0,
            casts_shadow=False,
        )
    ]


def _traffic_light(rng: np.random.Generator, lamp: str | None) -> list[Thing]:
    """A light on its pole; without a lamp it is seen from behind or from the side."""
    housing = street_furniture.HOUSINGS[rng.integers(4)]
    shape = street_furniture.traffic_light(
        lamp or ('red', 'yellow', 'green')[rng.integers(3)],
        housing,
        backplate=bool(rng.random() < 0.3),
    )
    turn = (
        float(rng.normal(0, 0.35))
        if lamp
        else float(rng.choice([-1, 1]) * rng.uniform(1.75, math.pi))
    )
    turn = min(max(turn, -0.9), 0.9) if lamp else turn
    distance = float(rng.uniform(3.0, 7.0))
    light = Thing(distance, 0.0, 1.5 - 0.52, turn, shape=shape, label=0)
    pole = Thing(distance + 0.2, 0.0, 0.0, 0.0, shape=street_furniture.pole(2.0), label=-1)
    return [pole, light]


def _sign(rng: np.random.Generator, face: str) -> list[Thing]:
    """A sign on its pole, turned about all axes."""
    if face.isdigit():
        sprite = _limit_face(rng, face)
    else:
        sprite = (
            _other_face(rng, face) if face in _OTHER_FACES else street_furniture.sign_sprite(face)
        )
    side = sprite.shape[0]
    lean = cv2.getRotationMatrix2D(
        ((side - 1) / 2, (side - 1) / 2), float(rng.normal(0, 4.0)), 0.97
    )
    sprite = cv2.warpAffine(sprite, lean, (side, side), flags=cv2.INTER_LINEAR)
    tall = float(rng.uniform(0.6, 0.95))
    wide = tall * math.cos(float(np.clip(rng.normal(0, 0.35), -0.9, 0.9)))
    distance = tall * float(rng.uniform(3.0, 7.0))
    sign = Thing(distance, 0.0, 1.5 - tall / 2, 0.0, sprite=sprite, size_m=(wide, tall), label=0)
    pole = Thing(
        distance + 0.1,
        0.0,
        0.0,
        0.0,
        shape=street_furniture.pole(1.5 + tall * 0.3, radius=0.04),
        label=-1,
    )
    return [pole, sign]


def _limit_face(rng: np.random.Generator, digits: str) -> np.ndarray:
    """A speed limit with ring, font and weight drawn by chance, as countries and simulators differ; BGRA as
    `sign_sprite`."""
    face = np.zeros((128, 128, 4), np.uint8)
    inner = int(rng.integers(45, 57))
    red = tuple(int(value) for value in rng.integers((20, 15, 150), (60, 50, 230)))
    cv2.circle(face, (64, 64), 63, (*red, 255), -1, cv2.LINE_AA)
    cv2.circle(face, (64, 64), inner, (240, 240, 240, 255), -1, cv2.LINE_AA)
    font, weight = _FONTS[rng.integers(len(_FONTS))], int(rng.integers(6, 13))
    (wide, _), _ = cv2.getTextSize(digits, font, 1.0, 1)
    scale = float(rng.uniform(1.15, 1.65)) * inner / wide
    (wide, tall), _ = cv2.getTextSize(digits, font, scale, weight)
    cv2.putText(
        face,
        digits,
        (64 - wide // 2, 64 + tall // 2),
        font,
        scale,
        (30, 30, 30, 255),
        weight,
        cv2.LINE_AA,
    )
    return face


def _other_face(rng: np.random.Generator, face: str) -> np.ndarray:
    """A sign that says nothing the classifier knows: a blue disc, or a board with bars; BGRA as `sign_sprite`."""
    sprite = np.zeros((128, 128, 4), np.uint8)
    if face == 'blue':
        cv2.circle(sprite, (64, 64), 63, (160, 90, 30, 255), -1, cv2.LINE_AA)
        turned = cv2.getRotationMatrix2D(
            (64, 64), float(rng.choice([90.0, -90.0, 45.0, -45.0])), 1.0
        )
        ends = (turned @ np.array([[64, 64], [108, 24], [1, 1]])).T.round().astype(int).tolist()
        cv2.arrowedLine(sprite, ends[0], ends[1], (240, 240, 240, 255), 12, cv2.LINE_AA, 0, 0.4)
        return sprite
    ground = ((40, 190, 235), (240, 240, 240), (60, 120, 40), (150, 150, 150))[rng.integers(4)]
    low = int(rng.integers(0, 40))
    cv2.rectangle(sprite, (1, low), (126, 127 - low), (*ground, 255), -1)
    for row in range(low + 14, 116 - low, 18):
        cv2.line(sprite, (14, row), (int(rng.integers(60, 114)), row), (40, 40, 40, 255), 6)
    return sprite


def _light(rng: np.random.Generator, distance_m: float) -> Light:
    """Day, dusk or haze."""
    azimuth, elevation = rng.uniform(0, 2 * math.pi), rng.uniform(0.2, 1.1)
    sun = (
        math.cos(elevation) * math.cos(azimuth),
        math.cos(elevation) * math.sin(azimuth),
        math.sin(elevation),
    )
    ambient, direct, grey = rng.uniform(0.3, 0.95), rng.uniform(0.0, 0.5), rng.uniform(120, 205)
    tint = rng.normal(1.0, (0.1, 0.03, 0.12))  # of the sky, the sun, and the camera's white balance
    return Light(
        sun,
        tuple(ambient * tint),
        tuple(direct * np.array([0.9, 1.0, 1.06])),
        tuple(grey * tint),
        distance_m * float(rng.uniform(2.5, 30.0)),
    )


def render_views(
    names: tuple[str, ...],
    count: int,
    backgrounds: list[np.ndarray],
    *,
    seed: int,
    sizes_px: tuple[float, float] = SIZES_PX,
) -> list[ObjectView]:
    """So many objects of each class, longer sides distributed evenly over the logarithm of the sizes.

    Raises:
        ValueError: there is no background, of which each piece is uint8 `[h, w, 3]`.
    """
    if not backgrounds:
        raise ValueError(
            'there is no background, expected at least one piece to render objects over'
        )
    views = []
    for number, name in enumerate(names):
        rng = np.random.default_rng([seed, 22, number])
        for _ in range(count):
            size = float(np.exp(rng.uniform(*np.log(sizes_px))))
            views.append(
                render_object(rng, name, size, backgrounds[rng.integers(len(backgrounds))])
            )
    return views


def gather_views(
    frames: Sequence[Frame],
    class_names: Sequence[str],
    *,
    backgrounds: int,
    rendered: int,
    seed: int,
    sizes_px: tuple[float, float] = SIZES_PX,
) -> tuple[list[ObjectView], list[ObjectView]]:
    """What a classifier learns from, or is judged on: views of annotated images, and rendered ones over their
    background.

    Args:
        frames: annotated images; `class_names` is what their labels mean.
        backgrounds: windows of background of each image, at least 1.
        rendered: objects of each class.
        seed: of windows and rendered objects; what is judged on has another one than what was learnt from.

    Raises:
        ValueError: no image has room for a piece of background.
    """
    annotated = list(annotated_views(frames, class_names, backgrounds=backgrounds, seed=seed))
    pieces = [view.image_bgr for view in annotated if view.classes == (BACKGROUND,)]
    return annotated, render_views(
        CLASS_NAMES[1:], rendered, pieces, seed=seed, sizes_px=sizes_px
    ) if rendered else []
