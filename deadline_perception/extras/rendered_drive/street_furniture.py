"""What stands beside a rendered street: buildings, trees, poles, traffic lights and signs."""

from __future__ import annotations

import math

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.extras.rendered_drive.shapes import Colour, Shape, ShapeBuilder

TOWARDS = np.array([-1.0, 0.0, 0.0])
LIT = {'red': (40, 40, 255), 'yellow': (40, 200, 255), 'green': (140, 235, 60)}
UNLIT = {'red': (22, 18, 52), 'yellow': (18, 40, 52), 'green': (28, 48, 20)}
FACADES: tuple[Colour, ...] = (
    (190, 195, 200),
    (120, 135, 160),
    (70, 80, 130),
    (150, 150, 145),
    (110, 120, 125),
    (170, 190, 205),
    (90, 95, 105),
    (140, 165, 190),
    (180, 175, 160),
    (60, 70, 85),
)
HOUSINGS: tuple[Colour, ...] = (
    (26, 28, 28),
    (26, 28, 28),
    (40, 150, 190),
    (34, 60, 40),
)  # of traffic lights
ROOFS: tuple[Colour, ...] = ((60, 70, 110), (70, 70, 75), (50, 60, 80), (80, 90, 120))
SIGN_NAMES = (
    '30',
    '50',
    '60',
    '90',
    'stop',
    'yield',
    'warning',
    'no_entry',
    'ahead',
    'priority',
    'crossing',
)


def building(rng: np.random.Generator, length: float, depth: float, floors: int) -> Shape:
    """A flat-roofed block; its front is the plane y = 0, it reaches to y = -depth (away from a street on its left)."""
    builder = ShapeBuilder()
    colour = FACADES[rng.integers(len(FACADES))]
    colour = tuple(float(np.clip(c + rng.normal(0, 10), 20, 235)) for c in colour)
    storey = rng.uniform(2.9, 3.6)
    height = storey * floors + rng.uniform(0.4, 1.2)
    faces = builder.frustum(
        (-length / 2, length / 2, depth / 2, 0.0),
        (-length / 2, length / 2, depth / 2, height),
        colour,
        aside_m=-depth / 2,
    )
    trim = tuple(c * rng.uniform(0.6, 1.15) for c in colour)
    pane: Colour = (86, 76, 66) if rng.random() < 0.6 else (150, 138, 120)
    ribbon = rng.random() < 0.25
    share = rng.uniform(0.35, 0.65)
    for name, outward, extent in (
        ('left', np.array([0, 1.0, 0]), length),
        ('rear', TOWARDS, depth),
        ('front', -TOWARDS, depth),
    ):
        columns = max(1, int(extent / rng.uniform(2.2, 3.4)))
        spans, frames = [], []
        for floor in range(floors):
            low, high = (floor + 0.3) * storey / height, (floor + 0.82) * storey / height
            if floor == 0 and name == 'left':
                low = 0.08 * storey / height
            if ribbon:
                spans.append((0.03, 0.97, low, high))
                continue
            for column in range(columns):
                left, right = (
                    (column + 0.5 - share / 2) / columns,
                    (column + 0.5 + share / 2) / columns,
                )
                spans.append((left, right, low, high))
                frames.append((left - 0.004, right + 0.004, low - 0.3 / height, low))
        builder.patches(faces[name], spans, pane, outward)
        if frames:
            builder.patches(faces[name], frames, trim, outward)
        builder.patches(faces[name], [(0, 1, 1 - 0.35 / height, 1.0)], trim, outward, detail=False)
    return builder.build()


def house(rng: np.random.Generator, length: float, depth: float) -> Shape:
    """A house with a gable roof along the street; its front is the plane y = 0."""
    builder = ShapeBuilder()
    colour = FACADES[rng.integers(len(FACADES))]
    roof = ROOFS[rng.integers(len(ROOFS))]
    eaves, ridge = rng.uniform(2.8, 6.0), rng.uniform(1.8, 3.2)
    faces = builder.frustum(
        (-length / 2, length / 2, depth / 2, 0.0),
        (-length / 2, length / 2, depth / 2, eaves),
        colour,
        aside_m=-depth / 2,
    )
    floors = 2 if eaves > 4.6 else 1
    for name, outward, extent in (
        ('left', np.array([0, 1.0, 0]), length),
        ('rear', TOWARDS, depth),
        ('front', -TOWARDS, depth),
    ):
        columns = max(2, int(extent / 3.0))
        spans = [
            ((c + 0.28) / columns, (c + 0.72) / columns, (f + 0.35) / floors, (f + 0.8) / floors)
            for f in range(floors)
            for c in range(columns)
        ]
        builder.patches(faces[name], spans, (80, 72, 66), outward)
    door = rng.uniform(0.2, 0.7)
    builder.patches(
        faces['left'],
        [(door, door + 1.0 / length, 0.0, 2.1 / eaves)],
        (40, 50, 90),
        np.array([0, 1.0, 0]),
    )
    for x, outward in ((-length / 2, TOWARDS), (length / 2, -TOWARDS)):
        builder.polygon(
            np.array([(x, 0, eaves), (x, -depth, eaves), (x, -depth / 2, eaves + ridge)]),
            colour,
            outward,
        )
    for y, sign in ((0.35, 1.0), (-depth - 0.35, -1.0)):
        builder.polygon(
            np.array(
                [
                    (-length / 2 - 0.3, y, eaves - 0.15),
                    (length / 2 + 0.3, y, eaves - 0.15),
                    (length / 2 + 0.3, -depth / 2, eaves + ridge),
                    (-length / 2 - 0.3, -depth / 2, eaves + ridge),
                ]
            ),
            roof,
            np.array([0, sign, 1.0]),
        )
    return builder.build()


def wall(rng: np.random.Generator, length: float) -> Shape:
    """A low wall, hedge or row of panels along the street, front at y = 0."""
    builder = ShapeBuilder()
    colour = ((150, 155, 160), (50, 90, 55), (70, 80, 95), (100, 120, 150))[rng.integers(4)]
    height = rng.uniform(0.8, 2.2)
    faces = builder.frustum(
        (-length / 2, length / 2, 0.15, 0), (-length / 2, length / 2, 0.15, height), colour
    )
    posts = max(1, int(length / 2.5))
    builder.patches(
        faces['left'],
        [(i / posts, i / posts + 0.02, 0, 1) for i in range(posts)],
        tuple(c * 0.75 for c in colour),
        np.array([0, 1.0, 0]),
    )
    return builder.build()


def lamp_post(height: float, reach: float) -> Shape:
    """A street lamp whose arm reaches to the left."""
    builder = ShapeBuilder()
    builder.rod((0, 0, 0), (0, 0, height), 0.08, (95, 95, 92))
    builder.rod((0, 0, height), (0, reach, height + 0.4), 0.05, (95, 95, 92))
    builder.rod(
        (0, reach - 0.1, height + 0.42), (0, reach + 0.6, height + 0.42), 0.1, (120, 120, 118)
    )
    return builder.build()


def pole(height: float, reach: float = 0.0, radius: float = 0.05) -> Shape:
    """A post, with an arm to the left at its top where `reach` is not 0."""
    builder = ShapeBuilder()
    builder.rod((0, 0, 0), (0, 0, height), radius, (105, 105, 104))
    if reach:
        builder.rod((0, 0, height - 0.1), (0, reach, height - 0.1), radius * 0.8, (105, 105, 104))
    return builder.build()


def traffic_light(colour: str, housing: Colour, *, backplate: bool) -> Shape:
    """The housing alone, 0.36 m x 0.95 m, bottom at z = 0, seen from -x; `colour` is a key of `LIT`."""
    builder = ShapeBuilder()
    if backplate:
        builder.frustum((0.1, 0.14, 0.3, -0.12), (0.1, 0.14, 0.3, 1.17), (30, 32, 32))
    builder.frustum((-0.14, 0.14, 0.18, 0.0), (-0.14, 0.14, 0.18, 1.05), housing)
    for name, level in (('green', 0.19), ('yellow', 0.525), ('red', 0.86)):
        shines = name == colour
        builder.disc((-0.145, 0, level), 0.155, (14, 14, 14), TOWARDS)
        builder.disc(
            (-0.15, 0, level), 0.13, LIT[name] if shines else UNLIT[name], TOWARDS, lit=not shines
        )
        if shines:
            builder.disc(
                (-0.155, 0, level),
                0.07,
                tuple(0.4 * c + 150 for c in LIT[name]),
                TOWARDS,
                lit=False,
                detail=True,
            )
    return builder.build()


def tree_sprite(rng: np.random.Generator, kind: str) -> np.ndarray:
    """A tree seen from the side: uint8 BGRA `[256, 192, 4]`, its foot at the bottom centre."""
    height, width = 256, 192
    sprite = np.zeros((height, width, 4), np.uint8)
    green = {
        'broadleaf': (45, 95, 60),
        'conifer': (42, 66, 34),
        'poplar': (40, 90, 70),
        'autumn': (30, 60, 92),
    }[kind]
    trunk_top = 40 if kind == 'conifer' else 130
    cv2.fillConvexPoly(
        sprite,
        np.array([(92, 255), (101, 255), (98, trunk_top), (94, trunk_top)]),
        (38, 48, 62, 255),
        cv2.LINE_AA,
    )
    lobes = [
        (96 + rng.uniform(-42, 42), rng.uniform(50, 130), rng.uniform(24, 42), rng.uniform(22, 36))
        for _ in range(7)
    ]
    lobes.append((96.0, 110.0, 40.0, 50.0))
    if kind == 'poplar':
        lobes = [
            (96 + rng.uniform(-8, 8), y, rng.uniform(16, 30), 30.0) for y in range(36, 200, 20)
        ]
    for index in range(520):
        share = index / 520
        if kind == 'conifer':
            level = rng.uniform(0, 1) ** 0.8
            reach = 8 + 62 * level * (0.72 + 0.28 * ((level * 7) % 1.0))
            x, y = 96 + rng.uniform(-reach, reach), 14 + 205 * level
            radius = rng.uniform(3, 8)
        else:
            lobe = lobes[rng.integers(len(lobes))]
            angle, distance = rng.uniform(0, 2 * math.pi), math.sqrt(rng.uniform(0, 1))
            x, y = (
                lobe[0] + lobe[2] * distance * math.cos(angle),
                lobe[1] + lobe[3] * distance * math.sin(angle),
            )
            radius = rng.uniform(3, 9)
        shade = 0.42 + 0.5 * share + 0.25 * (1 - y / 220) - 0.1 * (x > 110) + rng.normal(0, 0.09)
        colour = tuple(float(np.clip(c * shade, 0, 255)) for c in green)
        cv2.circle(sprite, (int(x), int(y)), int(radius), (*colour, 255), -1, cv2.LINE_AA)
    return sprite


def sign_sprite(name: str) -> np.ndarray:
    """The face of a traffic sign: uint8 BGRA `[128, 128, 4]` that it fills from edge to edge."""
    size, middle = 128, (64, 64)
    face = np.zeros((size, size, 4), np.uint8)
    red, white, black, blue = (
        (40, 30, 190, 255),
        (240, 240, 240, 255),
        (30, 30, 30, 255),
        (160, 90, 30, 255),
    )

    def regular(corners: int, turn: float, radius: float, colour: tuple[int, ...]) -> None:
        angles = np.arange(corners) * 2 * math.pi / corners + turn
        points = np.stack([64 + radius * np.cos(angles), 64 + radius * np.sin(angles)], 1)
        cv2.fillConvexPoly(face, np.rint(points * 16).astype(np.int32), colour, cv2.LINE_AA, 4)

    def write(text: str, scale: float, colour: tuple[int, ...]) -> None:
        (wide, tall), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 9)
        cv2.putText(
            face,
            text,
            (64 - wide // 2, 64 + tall // 2),
            cv2.FONT_HERSHEY_SIMPLEX,
            scale,
            colour,
            9,
            cv2.LINE_AA,
        )

    if name.isdigit():
        cv2.circle(face, middle, 63, red, -1, cv2.LINE_AA)
        cv2.circle(face, middle, 49, white, -1, cv2.LINE_AA)
        write(name, 1.6, black)
    elif name == 'stop':
        regular(8, math.pi / 8, 68, white)
        regular(8, math.pi / 8, 62, red)
        write('STOP', 1.1, white)
    elif name in ('yield', 'warning'):
        turn = 1 if name == 'yield' else -1
        for grow, colour in ((1.0, red), (0.68, white)):
            tip = np.array(
                [
                    (64, 64 + turn * 63 * grow),
                    (64 - 63 * grow, 64 - turn * (63 * grow - 6)),
                    (64 + 63 * grow, 64 - turn * (63 * grow - 6)),
                ]
            )
            cv2.fillConvexPoly(face, np.rint(tip * 16).astype(np.int32), colour, cv2.LINE_AA, 4)
        if name == 'warning':
            cv2.line(face, (64, 56), (64, 88), black, 9)
            cv2.circle(face, (64, 102), 5, black, -1)
    elif name == 'no_entry':
        cv2.circle(face, middle, 63, red, -1, cv2.LINE_AA)
        cv2.rectangle(face, (22, 52), (106, 76), white, -1)
    elif name == 'ahead':
        cv2.circle(face, middle, 63, blue, -1, cv2.LINE_AA)
        cv2.arrowedLine(face, (64, 108), (64, 24), white, 12, cv2.LINE_AA, 0, 0.4)
    elif name == 'priority':
        regular(4, 0, 63, white)
        regular(4, 0, 50, (40, 190, 235, 255))
    else:
        cv2.rectangle(face, (1, 1), (126, 126), blue, -1)
        cv2.fillConvexPoly(face, np.array([(64, 22), (22, 104), (106, 104)]), white, cv2.LINE_AA)
        cv2.line(face, (64, 48), (58, 92), black, 8, cv2.LINE_AA)
    return face
