"""Shapes of vehicles, motorbikes, bikes and pedestrians of a rendered street."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from deadline_perception.extras.rendered_drive.shapes import (
    GLASS,
    METAL,
    RUBBER,
    Colour,
    Shape,
    ShapeBuilder,
)

LEFT, RIGHT = np.array([0.0, 1.0, 0.0]), np.array([0.0, -1.0, 0.0])
REAR, FRONT = np.array([-1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])
PAINTS: tuple[Colour, ...] = (
    (40, 36, 34),
    (225, 225, 222),
    (150, 150, 150),
    (46, 38, 170),
    (150, 74, 30),
    (60, 60, 66),
    (60, 110, 60),
    (40, 190, 220),
    (30, 110, 220),
    (190, 160, 60),
    (110, 120, 140),
    (90, 40, 60),
    (200, 205, 212),
)
CLOTHES: tuple[Colour, ...] = (
    (60, 50, 150),
    (150, 90, 40),
    (60, 60, 60),
    (200, 200, 200),
    (60, 160, 60),
    (40, 160, 220),
    (110, 60, 110),
    (90, 90, 70),
)
SKIN = (150, 175, 210)
# length, width, height, sill height, share of the bonnet, share of the boot, lean of the rear window
BODIES = {
    'hatchback': (3.9, 1.74, 1.48, 0.92, 0.26, 0.04, 0.10),
    'saloon': (4.7, 1.82, 1.43, 0.90, 0.27, 0.17, 0.13),
    'estate': (4.6, 1.82, 1.50, 0.92, 0.26, 0.02, 0.08),
    'suv': (4.6, 1.92, 1.74, 1.05, 0.25, 0.03, 0.07),
    'sports': (4.3, 1.86, 1.27, 0.84, 0.33, 0.14, 0.16),
    'pickup': (5.3, 1.95, 1.82, 1.08, 0.25, 0.35, 0.04),
}


def _wheels(builder: ShapeBuilder, length: float, half: float, radius: float) -> None:
    for x in (-length * 0.31, length * 0.31):
        for side in (-1, 1):
            builder.frustum(
                (x - radius * 0.3, x + radius * 0.3, 0.11, 0.0),
                (x - radius * 0.8, x + radius * 0.8, 0.11, radius),
                RUBBER,
                aside_m=side * (half - 0.13),
            )


def _rims(
    builder: ShapeBuilder, length: float, half: float, radius: float, rim_bgr: Colour
) -> None:
    for side in (LEFT, RIGHT):
        for x in (-length * 0.31, length * 0.31):
            centre = (x, side[1] * half, radius)
            builder.disc(centre, radius * 1.12, (18, 18, 18), side, detail=True)
            builder.disc(centre, radius, RUBBER, side)
            builder.disc(centre, radius * 0.62, rim_bgr, side, detail=True)


def _lamps(
    builder: ShapeBuilder, faces: dict[str, np.ndarray], level: float, *, braking: bool
) -> None:
    tail = (50, 40, 255) if braking else (40, 30, 165)
    low, high = level, level + 0.2
    builder.patches(
        faces['rear'],
        [(0.03, 0.22, low, high), (0.78, 0.97, low, high)],
        tail,
        REAR,
        lit=not braking,
        detail=False,
    )
    builder.patches(
        faces['rear'],
        [(0.38, 0.62, max(low - 0.22, 0.02), max(low - 0.04, 0.1))],
        (215, 220, 215),
        REAR,
    )
    builder.patches(faces['rear'], [(0.0, 1.0, 0.0, 0.16)], (45, 45, 47), REAR)
    builder.patches(
        faces['front'],
        [(0.03, 0.22, low, high), (0.78, 0.97, low, high)],
        (235, 245, 250),
        FRONT,
        lit=False,
        detail=False,
    )
    builder.patches(
        faces['front'], [(0.28, 0.72, max(low - 0.3, 0.02), low + 0.12)], (35, 35, 36), FRONT
    )
    builder.patches(faces['front'], [(0.0, 1.0, 0.0, 0.14)], (45, 45, 47), FRONT)


@lru_cache(maxsize=256)
def car(body: str, paint: Colour, *, braking: bool = False) -> Shape:
    length, width, height, sill, bonnet, boot, lean = BODIES[body]
    rear, front, half = -length / 2, length / 2, width / 2
    builder = ShapeBuilder()
    _wheels(builder, length, half, 0.33)
    faces = builder.frustum(
        (rear, front, half * 0.97, 0.26), (rear, front, half, sill * 0.62), paint
    )
    upper = builder.frustum(
        (rear, front, half, sill * 0.6), (rear + 0.06, front - 0.25, half * 0.93, sill), paint
    )
    _rims(builder, length, half * 0.985, 0.33, METAL)
    _lamps(builder, upper, 0.25, braking=braking)
    builder.patches(faces['rear'], [(0.0, 1.0, 0.0, 0.3)], (45, 45, 47), REAR)
    builder.patches(faces['front'], [(0.2, 0.8, 0.1, 0.7)], (35, 35, 36), FRONT)
    for side, normal in (('left', LEFT), ('right', RIGHT)):
        builder.patches(
            upper[side], [(0.36, 0.365, 0.0, 1.0), (0.6, 0.605, 0.0, 1.0)], (30, 30, 30), normal
        )
    cabin_rear, cabin_front = rear + length * boot, front - length * bonnet
    cabin = builder.frustum(
        (cabin_rear, cabin_front, half * 0.92, sill),
        (cabin_rear + length * lean, cabin_front - length * 0.13, half * 0.74, height),
        paint,
    )
    builder.patches(cabin['rear'], [(0.07, 0.93, 0.1, 0.86)], GLASS, REAR, detail=False)
    builder.patches(cabin['front'], [(0.05, 0.95, 0.05, 0.92)], GLASS, FRONT, detail=False)
    builder.patches(
        cabin['left'],
        [(0.08, 0.5, 0.12, 0.86), (0.54, 0.92, 0.12, 0.86)],
        GLASS,
        LEFT,
        detail=False,
    )
    builder.patches(
        cabin['right'],
        [(0.08, 0.46, 0.12, 0.86), (0.5, 0.92, 0.12, 0.86)],
        GLASS,
        RIGHT,
        detail=False,
    )
    builder.patches(cabin['rear'], [(0.1, 0.5, 0.5, 0.84)], (96, 86, 76), REAR)
    builder.patches(cabin['front'], [(0.08, 0.6, 0.5, 0.9)], (110, 100, 90), FRONT)
    return builder.build()


def van(
    paint: Colour, length: float, height: float, *, windows: bool, braking: bool = False
) -> Shape:
    """A van, or with windows along its sides a minibus or bus."""
    half = 0.98 if length < 7 else 1.25
    rear, front = -length / 2, length / 2
    builder = ShapeBuilder()
    _wheels(builder, length, half, 0.4)
    body = builder.frustum(
        (rear, front, half, 0.32), (rear + 0.03, front - 0.1 * height, half * 0.94, height), paint
    )
    _rims(builder, length, half * 0.99, 0.4, METAL)
    _lamps(builder, body, 0.24 if length < 7 else 0.12, braking=braking)
    builder.patches(body['rear'], [(0.1, 0.9, 0.55, 0.88)], GLASS, REAR, detail=False)
    builder.patches(body['front'], [(0.05, 0.95, 0.45, 0.86)], GLASS, FRONT, detail=False)
    panes = max(3, int(length / 1.3))
    for side, normal in (('left', LEFT), ('right', RIGHT)):
        if windows:
            spans = [((i + 0.06) / panes, (i + 0.94) / panes, 0.48, 0.85) for i in range(panes)]
        else:
            spans = [(0.04, 0.2, 0.5, 0.85)] if side == 'left' else [(0.8, 0.96, 0.5, 0.85)]
        builder.patches(body[side], spans, GLASS, normal, detail=False)
        builder.patches(body[side], [(0.0, 1.0, 0.3, 0.33)], tuple(c * 0.7 for c in paint), normal)
    return builder.build()


def lorry(
    paint: Colour, box_bgr: Colour, length: float, height: float, *, braking: bool = False
) -> Shape:
    """A cab with a closed box behind it."""
    rear, front, half = -length / 2, length / 2, 1.22
    builder = ShapeBuilder()
    _wheels(builder, length, half, 0.48)
    chassis = builder.frustum((rear, front, half, 0.42), (rear, front, half, 1.05), (52, 52, 54))
    _rims(builder, length, half, 0.48, METAL)
    cab = builder.frustum(
        (front - 2.0, front, half, 1.0), (front - 2.0, front - 0.35, half * 0.95, 2.7), paint
    )
    builder.patches(cab['front'], [(0.06, 0.94, 0.45, 0.9)], GLASS, FRONT, detail=False)
    builder.patches(cab['left'], [(0.08, 0.55, 0.5, 0.88)], GLASS, LEFT, detail=False)
    builder.patches(cab['right'], [(0.45, 0.92, 0.5, 0.88)], GLASS, RIGHT, detail=False)
    box = builder.frustum(
        (rear, front - 2.15, half * 1.02, 1.0), (rear, front - 2.15, half * 1.02, height), box_bgr
    )
    builder.patches(
        box['rear'],
        [(0.495, 0.505, 0.02, 0.98), (0.2, 0.22, 0.1, 0.9), (0.78, 0.8, 0.1, 0.9)],
        tuple(c * 0.6 for c in box_bgr),
        REAR,
    )
    _lamps(builder, chassis, 0.45, braking=braking)
    return builder.build()


def two_wheeler(
    paint: Colour, clothes: Colour, helmet: Colour, *, motor: bool, rider: bool = True
) -> Shape:
    builder = ShapeBuilder()
    base, radius, thick = (0.72, 0.31, 0.065) if motor else (0.53, 0.34, 0.022)
    saddle, bars = (0.82, 1.05) if motor else (0.95, 1.08)
    axle_rear, axle_front = (-base, 0.0, radius), (base, 0.0, radius)
    for axle in (axle_rear, axle_front):
        builder.ring(axle, radius - thick, thick, RUBBER)
        # seen along its plane a hoop is a line, yet a tyre has a width
        builder.rod((axle[0], 0.0, thick), (axle[0], 0.0, 2 * radius - thick), thick, RUBBER)
        builder.disc(
            axle, radius * (0.6 if motor else 0.1), METAL, LEFT, one_sided=False, detail=True
        )
    crank = (-0.05, 0.0, radius if motor else 0.3)
    frame = 0.05 if motor else 0.022
    for start, end in (
        (axle_rear, (-0.2, 0, saddle)),
        (crank, (-0.2, 0, saddle)),
        (crank, axle_rear),
        (crank, (0.42, 0, bars - 0.15)),
        ((-0.2, 0, saddle - 0.08), (0.42, 0, bars - 0.12)),
        (axle_front, (0.42, 0, bars)),
    ):
        builder.rod(start, end, frame, paint)
    builder.rod((0.4, -0.3, bars), (0.4, 0.3, bars), 0.022, (40, 40, 40))
    if motor:
        builder.frustum((-0.4, 0.35, 0.15, radius + 0.02), (-0.3, 0.3, 0.17, 0.72), (60, 60, 62))
        builder.frustum(
            (-0.75, -0.1, 0.13, 0.66), (-0.85, -0.1, 0.11, saddle), tuple(c * 0.8 for c in paint)
        )
        builder.frustum((-0.1, 0.42, 0.16, 0.7), (-0.05, 0.38, 0.12, 0.98), paint)
        builder.ball((0.62, 0, 0.88), 0.09, (225, 235, 240), lit=False, detail=True)
        builder.ball((-0.85, 0, 0.74), 0.05, (40, 30, 200), lit=False, detail=True)
    else:
        builder.rod((-0.32, 0, saddle + 0.02), (-0.08, 0, saddle + 0.02), 0.05, (30, 30, 30))
        builder.ball((-0.5, 0, 0.62), 0.04, (40, 30, 190), detail=True)
    if not rider:
        return builder.build()
    hip, shoulder = saddle + 0.06, saddle + 0.55
    legs = tuple(c * 0.55 for c in (clothes[1], clothes[2], clothes[0]))
    for side, knee_x, foot in (
        (-1, 0.22, (0.0, 0.22)),
        (1, 0.12, (-0.1, 0.45 if not motor else 0.25)),
    ):
        knee = (knee_x, side * 0.14, (hip + foot[1]) / 2 + 0.08)
        builder.rod((-0.18, side * 0.1, hip), knee, 0.085, legs)
        builder.rod(knee, (foot[0], side * 0.13, foot[1]), 0.065, legs)
    chest = 0.1 if motor else 0.14
    builder.frustum(
        (-0.32, -0.02, 0.16, hip - 0.05), (chest - 0.2, chest + 0.08, 0.21, shoulder), clothes
    )
    for side in (-1, 1):
        elbow = (0.2, side * 0.28, (shoulder + bars) / 2)
        builder.rod((chest - 0.06, side * 0.2, shoulder - 0.04), elbow, 0.055, clothes)
        builder.rod(elbow, (0.4, side * 0.26, bars), 0.045, clothes)
    builder.ball((chest, 0, shoulder + 0.2), 0.13, SKIN)
    builder.ball((chest - 0.01, 0, shoulder + 0.23), 0.15 if motor else 0.125, helmet)
    return builder.build()


@lru_cache(maxsize=4096)
def pedestrian(
    clothes: Colour, trousers: Colour, hair: Colour, height: float, stride: float
) -> Shape:
    """A person on foot; `stride` in [-1, 1] puts the left foot ahead, or behind, and swings the arms against it."""
    builder = ShapeBuilder()
    size = height / 1.75
    hip, shoulder, stance = 0.92 * size, 1.44 * size, 0.32 * size * stride
    shoes, sleeve = (35, 35, 40), tuple(0.9 * c for c in clothes)
    for side in (-1, 1):
        foot, lift = side * stance, 0.1 * size * max(0.0, -side * stride)
        knee = (foot * 0.45 + 0.05 * size + 0.5 * lift, side * 0.08, hip * 0.52 + 0.3 * lift)
        ankle = (foot - 0.02, side * 0.08, 0.09 * size + lift)
        builder.rod((0, side * 0.07, hip), knee, 0.078 * size, trousers)
        builder.rod(knee, ankle, 0.058 * size, trousers)
        builder.rod(
            (ankle[0] - 0.03, ankle[1], ankle[2] - 0.03),
            (ankle[0] + 0.15, ankle[1], ankle[2] - 0.04),
            0.045 * size,
            shoes,
        )
    builder.frustum(
        (-0.1, 0.1, 0.145 * size, hip - 0.08),
        (-0.105, 0.115, 0.165 * size, hip + 0.22 * size),
        clothes,
    )
    builder.frustum(
        (-0.105, 0.115, 0.165 * size, hip + 0.22 * size), (-0.1, 0.1, 0.2 * size, shoulder), clothes
    )
    builder.rod((0, 0, shoulder - 0.02), (0.02, 0, shoulder + 0.1 * size), 0.05 * size, SKIN)
    for side in (-1, 1):
        hand = -side * stance * 0.8
        elbow = (hand * 0.35 - 0.03, side * 0.245 * size, hip + 0.22 * size)
        builder.rod((0, side * 0.205 * size, shoulder - 0.05), elbow, 0.05 * size, sleeve)
        builder.rod(
            elbow,
            (hand + 0.05, side * 0.225 * size, hip - 0.02 + 0.25 * abs(hand)),
            0.04 * size,
            sleeve,
        )
        builder.ball(
            (hand + 0.07, side * 0.225 * size, hip - 0.06 + 0.25 * abs(hand)),
            0.045 * size,
            SKIN,
            detail=True,
        )
    builder.ball((0.03, 0, height - 0.115), 0.105, SKIN)
    builder.ball((-0.005, 0, height - 0.105), 0.105, hair)
    return builder.build()
