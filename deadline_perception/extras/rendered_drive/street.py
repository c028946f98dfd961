"""The street of a rendered drive: its course, lanes and junctions, and what stands along it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deadline_perception.extras.rendered_drive import road_users, street_furniture
from deadline_perception.extras.rendered_drive.painter import Thing
from deadline_perception.extras.rendered_drive.traffic import Junction

VEHICLE, BIKE, MOTORBIKE, TRAFFIC_LIGHT, TRAFFIC_SIGN, PERSON = range(6)
LANE_M = 3.5
BEFORE_M = 60


class Course:
    """The middle line of a street, tabulated every metre from `-BEFORE_M` to its end."""

    def __init__(self, rng: np.random.Generator, length_m: float) -> None:
        along = np.arange(-BEFORE_M, int(length_m) + 2, dtype=np.float64)
        curvature = np.zeros(len(along))
        for wavelength in (130.0, 210.0, 370.0):
            curvature += rng.uniform(0, 0.0032) * np.sin(
                2 * math.pi * (along / wavelength + rng.uniform())
            )
        heading = np.cumsum(curvature)
        self._along = along
        self._heading = heading - np.interp(0.0, along, heading)
        self._x = np.cumsum(np.cos(self._heading))
        self._y = np.cumsum(np.sin(self._heading))

    def heading_rad(self, along_m: float | np.ndarray) -> np.ndarray:
        """Direction of the street, counter-clockwise from x."""
        return np.interp(along_m, self._along, self._heading)

    def place(self, along_m: float | np.ndarray, aside_m: float | np.ndarray) -> np.ndarray:
        """Ground coordinates `[..., 2]` of a point `aside_m` to the right of the middle line."""
        heading = self.heading_rad(along_m)
        x, y = np.interp(along_m, self._along, self._x), np.interp(along_m, self._along, self._y)
        return np.stack(
            np.broadcast_arrays(x + aside_m * np.sin(heading), y - aside_m * np.cos(heading)), -1
        )

    def thing(
        self,
        along_m: float,
        aside_m: float,
        turn_rad: float = 0.0,
        z_m: float = 0.0,
        **facts: object,
    ) -> Thing:
        """A thing of these facts beside the street; `turn_rad` is counter-clockwise from the street's direction."""
        x, y = self.place(along_m, aside_m)
        return Thing(float(x), float(y), z_m, float(self.heading_rad(along_m)) + turn_rad, **facts)


@dataclass(frozen=True)
class Layout:
    """Cross-section and character of a street.

    Attributes:
        lanes: per direction, 1 or 2.
        parking_m: width of the parking strip on each side, 0 for none.
        density: of traffic, 1 is a vehicle about every 28 m and lane.
        style: 'town', 'suburb' or 'country'.
        yellow: whether the middle line is yellow.
        overhead: whether traffic lights hang over the road.
    """

    lanes: int
    parking_m: float
    walk_m: float
    density: float
    style: str
    yellow: bool
    overhead: bool
    trees: tuple[str, ...]

    @property
    def half_m(self) -> float:
        """From the middle line to the kerb."""
        return self.lanes * LANE_M + self.parking_m + 0.4


def choose_layout(rng: np.random.Generator) -> Layout:
    style = ('town', 'town', 'suburb', 'suburb', 'country')[rng.integers(5)]
    kinds = ('broadleaf', 'conifer', 'poplar', 'autumn')
    return Layout(
        lanes=int(rng.integers(1, 3)),
        parking_m=2.3 if style != 'country' and rng.random() < 0.6 else 0.0,
        walk_m=float(rng.uniform(2.2, 4.5)),
        density=float(rng.uniform(0.55, 1.5)),
        style=style,
        yellow=bool(rng.random() < 0.6),
        overhead=bool(rng.random() < 0.45),
        trees=tuple(kinds[i] for i in rng.permutation(4)[:2]),
    )


def place_junctions(rng: np.random.Generator, first_m: float, length_m: float) -> list[Junction]:
    """Junctions along a street; the first holds the ego vehicle, and about every fourth after it."""
    junctions, at = [], first_m
    while at < length_m:
        holds = not junctions or (rng.random() < 0.25 and at > first_m + 400)
        junctions.append(
            Junction(
                at,
                holds,
                float(rng.uniform(2.5, 4.0)),
                float(rng.uniform(50, 120)),
                float(rng.uniform(0, 19)),
            )
        )
        at += rng.uniform(95, 190)
    return junctions


def vehicle(rng: np.random.Generator) -> tuple[tuple, float, int]:
    """A driving or parked vehicle: its shapes without and with brake lights, its length in m, and its label."""
    paint = road_users.PAINTS[rng.integers(len(road_users.PAINTS))]
    kind = rng.random()
    if kind < 0.11:
        clothes, helmet = (
            road_users.CLOTHES[rng.integers(len(road_users.CLOTHES))] for _ in range(2)
        )
        shape = road_users.two_wheeler(paint, clothes, helmet, motor=True)
        return (shape, shape), 2.2, MOTORBIKE
    if kind < 0.2:
        length, height = float(rng.uniform(4.8, 6.2)), float(rng.uniform(2.0, 2.6))
        windows = bool(rng.random() < 0.4)
        shapes = tuple(
            road_users.van(paint, length, height, windows=windows, braking=b) for b in (False, True)
        )
        return shapes, length, VEHICLE
    if kind < 0.25:
        length = float(rng.uniform(9.0, 12.0))
        shapes = tuple(
            road_users.van(paint, length, 3.05, windows=True, braking=b) for b in (False, True)
        )
        return shapes, length, VEHICLE
    if kind < 0.32:
        length, height = float(rng.uniform(6.5, 10.0)), float(rng.uniform(2.9, 3.7))
        box = road_users.PAINTS[rng.integers(len(road_users.PAINTS))]
        return (
            tuple(road_users.lorry(paint, box, length, height, braking=b) for b in (False, True)),
            length,
            VEHICLE,
        )
    body = tuple(road_users.BODIES)[rng.integers(len(road_users.BODIES))]
    return (
        tuple(road_users.car(body, paint, braking=b) for b in (False, True)),
        road_users.BODIES[body][0],
        VEHICLE,
    )


def bike(rng: np.random.Generator, *, rider: bool = True) -> road_users.Shape:
    paint, clothes, helmet = (
        road_users.PAINTS[rng.integers(len(road_users.PAINTS))] for _ in range(3)
    )
    clothes = road_users.CLOTHES[rng.integers(len(road_users.CLOTHES))]
    return road_users.two_wheeler(paint, clothes, helmet, motor=False, rider=rider)


class Roadside:
    """Fills both sides of a street; `things` is what it has placed, `along_m` where."""

    def __init__(
        self,
        rng: np.random.Generator,
        course: Course,
        layout: Layout,
        junctions: list[Junction],
        length_m: float,
    ) -> None:
        self._rng, self._course, self._layout = rng, course, layout
        self._gaps = [junction.at_m for junction in junctions]
        self._sprites = {
            kind: [street_furniture.tree_sprite(rng, kind) for _ in range(3)]
            for kind in layout.trees
        }
        self.things: list[Thing] = []
        self.along_m: list[float] = []
        for side in (1, -1):
            self._buildings(side, length_m)
            self._greenery(side, length_m)
            self._furniture(side, length_m)
            if layout.parking_m:
                self._parked(side, length_m)
        for junction in junctions:
            self._cross_street(junction)
        self._signs(length_m)

    def _near_junction(self, along_m: float, clearance_m: float) -> bool:
        return any(abs(along_m - gap) < clearance_m for gap in self._gaps)

    def _put(self, along_m: float, aside_m: float, turn_rad: float = 0.0, **facts: object) -> None:
        self.things.append(self._course.thing(along_m, aside_m, turn_rad, **facts))
        self.along_m.append(along_m)

    def _buildings(self, side: int, length_m: float) -> None:
        rng, edge = self._rng, self._layout.half_m + self._layout.walk_m
        chance = {'town': 0.93, 'suburb': 0.6, 'country': 0.12}[self._layout.style]
        at = -30.0
        while at < length_m:
            length = rng.uniform(9, 18)
            middle = at + length / 2
            at += length + (
                rng.uniform(0, 2) if self._layout.style == 'town' else rng.uniform(3, 14)
            )
            if self._near_junction(middle, length / 2 + 9) or rng.random() > chance:
                continue
            setback = rng.uniform(0.3, 1.5) if self._layout.style == 'town' else rng.uniform(4, 12)
            depth = rng.uniform(8, 13)
            if self._layout.style == 'town' or rng.random() < 0.2:
                shape = street_furniture.building(rng, length, depth, int(rng.integers(2, 8)))
            else:
                shape = street_furniture.house(rng, length, depth)
            self._put(
                middle,
                side * (edge + setback),
                0.0 if side > 0 else math.pi,
                shape=shape,
                reach_m=math.hypot(length / 2, depth),
                far_key=True,
                casts_shadow=True,
            )
            if setback > 6 and rng.random() < 0.6:
                self._put(
                    middle,
                    side * (edge + 1.0),
                    0.0 if side > 0 else math.pi,
                    shape=street_furniture.wall(rng, length),
                    reach_m=length / 2,
                )

    def _greenery(self, side: int, length_m: float) -> None:
        rng, edge = self._rng, self._layout.half_m + self._layout.walk_m
        step = {'town': 34.0, 'suburb': 15.0, 'country': 8.0}[self._layout.style]
        at = -20.0
        while at < length_m:
            at += rng.uniform(0.4, 1.6) * step
            if self._near_junction(at, 13):
                continue
            street = self._layout.style != 'country' and rng.random() < 0.5
            deepest = 4 if self._layout.style == 'town' else 22
            aside = self._layout.half_m + 1.1 if street else edge + rng.uniform(1, deepest)
            kind = self._layout.trees[rng.integers(len(self._layout.trees))]
            tall = rng.uniform(5, 8) if street else rng.uniform(6, 14)
            sprite = self._sprites[kind][rng.integers(3)]
            self._put(
                at,
                side * aside,
                sprite=sprite,
                size_m=(tall * rng.uniform(0.6, 0.8), tall),
                reach_m=4,
                casts_shadow=True,
            )

    def _furniture(self, side: int, length_m: float) -> None:
        rng, kerb = self._rng, self._layout.half_m
        at = float(rng.uniform(0, 25))
        shape = street_furniture.lamp_post(float(rng.uniform(6, 9)), 2.0)
        while at < length_m:
            if not self._near_junction(at, 8):
                self._put(
                    at, side * (kerb + 0.6), 0.0 if side > 0 else math.pi, shape=shape, reach_m=9
                )
            at += 32
        at = 0.0
        while at < length_m:
            at += rng.exponential(75)
            if rng.random() < 0.6:
                shape, label = bike(rng, rider=False), BIKE
            else:
                paint = road_users.PAINTS[rng.integers(len(road_users.PAINTS))]
                shape, label = (
                    road_users.two_wheeler(paint, paint, paint, motor=True, rider=False),
                    MOTORBIKE,
                )
            self._put(
                at,
                side * (kerb + rng.uniform(0.5, 1.3)),
                float(rng.uniform(0, 6.28)),
                shape=shape,
                label=label,
                reach_m=1.2,
            )

    def _parked(self, side: int, length_m: float) -> None:
        rng = self._rng
        at = -15.0
        while at < length_m:
            shapes, length, label = vehicle(rng)
            if (
                not self._near_junction(at + length / 2, 14)
                and rng.random() < 0.55 * self._layout.density
                and label == VEHICLE
                and length < 7
            ):
                flip = math.pi if (side < 0) != (rng.random() < 0.1) else 0.0
                self._put(
                    at + length / 2,
                    side * (self._layout.half_m - self._layout.parking_m / 2 - 0.1),
                    flip + rng.normal(0, 0.02),
                    shape=shapes[0],
                    label=label,
                    reach_m=length / 2,
                    casts_shadow=True,
                )
            at += length + rng.uniform(0.8, 3.0)

    def _cross_street(self, junction: Junction) -> None:
        """Vehicles that wait in the side streets, corner furniture, and nothing that blocks the crossing."""
        rng = self._rng
        for side in (1, -1):
            for queue in range(int(rng.integers(0, 4))):
                shapes, length, label = vehicle(rng)
                aside = self._layout.half_m + 4.0 + queue * 7.5 + length / 2
                leaving = rng.random() < 0.3
                lane = (1.75 if side > 0 else -1.75) * (-1 if leaving else 1)
                turn = math.pi / 2 * side * (-1 if leaving else 1)
                self._put(
                    junction.at_m + lane,
                    side * aside,
                    turn,
                    shape=shapes[0],
                    label=label,
                    reach_m=length / 2,
                    casts_shadow=True,
                )

    def _signs(self, length_m: float) -> None:
        rng, kerb = self._rng, self._layout.half_m
        faces = {name: street_furniture.sign_sprite(name) for name in street_furniture.SIGN_NAMES}
        at = 18.0
        while at < length_m:
            at += rng.exponential(30) + 6
            side = 1 if rng.random() < 0.8 else -1
            name = street_furniture.SIGN_NAMES[rng.integers(len(street_furniture.SIGN_NAMES))]
            size, foot = float(rng.uniform(0.6, 0.95)), float(rng.uniform(1.7, 2.4))
            aside = side * (kerb + rng.uniform(0.4, 1.2))
            self._put(
                at + 0.1,
                aside,
                shape=street_furniture.pole(foot + size * 0.8, radius=0.04),
                reach_m=1,
            )
            self._put(
                at,
                aside,
                sprite=faces[name],
                size_m=(size, size),
                z_m=foot,
                label=TRAFFIC_SIGN,
                reach_m=1,
            )
