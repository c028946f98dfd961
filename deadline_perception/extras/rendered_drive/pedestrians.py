"""People on foot: they walk the pavements between two junctions, and cross the street while the ego vehicle has red."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deadline_perception.extras.rendered_drive.road_users import CLOTHES, pedestrian
from deadline_perception.extras.rendered_drive.shapes import Colour, Shape
from deadline_perception.extras.rendered_drive.street import Layout
from deadline_perception.extras.rendered_drive.traffic import Junction

HAIR: tuple[Colour, ...] = ((25, 30, 38), (40, 60, 90), (70, 110, 150), (120, 120, 125))
CYCLE_M = 1.5  # two steps
POSES = 12
JUNCTION_M = 9.5
CROSSINGS_M = (-6.2, 6.2)  # middles of the zebra crossings, from that of the junction


@dataclass(frozen=True)
class Pedestrian:
    """One person; a position follows from the time alone.

    Attributes:
        along_m: middle of the stretch, or place of the crossing, along the street.
        aside_m: from the middle line, to the right positive; of a crossing where it begins, on the other side it ends.
        reach_m: half the length of the stretch that is walked; 0 for one who crosses.
        speed_mps: above 0.
        phase_s: shifts the pacing, or the time at which a crossing begins.
        look: clothes, trousers, hair and height.
    """

    along_m: float
    aside_m: float
    reach_m: float
    speed_mps: float
    phase_s: float
    look: tuple[Colour, Colour, Colour, float]

    def pose(self, time_s: float) -> tuple[float, float, float, Shape]:
        """Place along and aside in m, direction counter-clockwise from the street's in rad, and shape at a time."""
        if self.reach_m:
            walked = self.speed_mps * (time_s + self.phase_s)
            lap = walked % (4 * self.reach_m)
            ahead = lap < 2 * self.reach_m
            place = lap - self.reach_m if ahead else 3 * self.reach_m - lap
            return (
                self.along_m + place,
                self.aside_m,
                0.0 if ahead else math.pi,
                self._shape(walked),
            )
        walked = min(max(0.0, self.speed_mps * (time_s - self.phase_s)), 2 * abs(self.aside_m))
        side = math.copysign(1.0, self.aside_m)
        moves = 0 < walked < 2 * abs(self.aside_m)
        return (
            self.along_m,
            self.aside_m - side * walked,
            side * math.pi / 2,
            self._shape(walked) if moves else pedestrian(*self.look, 0.0),
        )

    def _shape(self, walked_m: float) -> Shape:
        step = int(walked_m / CYCLE_M * POSES) % POSES
        return pedestrian(*self.look, round(math.sin(2 * math.pi * step / POSES), 3))


def place(
    rng: np.random.Generator,
    layout: Layout,
    junctions: list[Junction],
    red_until_s: np.ndarray,
    length_m: float,
) -> list[Pedestrian]:
    """Everybody on foot along a street; `red_until_s` is that of its `Motion`."""
    people = []
    kerb = layout.half_m
    spacing = {'town': 14.0, 'suburb': 30.0, 'country': 90.0}[layout.style]
    edges = [-30.0, *(junction.at_m for junction in junctions), length_m]
    for low, high in zip(edges, edges[1:]):
        low, high = low + JUNCTION_M, high - JUNCTION_M
        for side in (1, -1):
            at = low
            while at + 6.0 < high:
                at += rng.exponential(spacing)
                reach = float(rng.uniform(3.0, 25.0))
                middle = min(max(at, low + reach), high - reach)
                aside = side * (kerb + float(rng.uniform(1.5, max(1.6, layout.walk_m - 0.2))))
                look, speed, phase = (
                    _look(rng),
                    float(rng.uniform(0.9, 1.7)),
                    float(rng.uniform(0, 100)),
                )
                if low <= middle - reach and middle + reach <= high:
                    people.append(Pedestrian(middle, aside, reach, speed, phase, look))
    for junction, green_s in zip(junctions, red_until_s):
        for crossing_m in CROSSINGS_M if junction.holds_ego else ():
            for _ in range(int(rng.integers(2, 5))):
                side, speed = float(rng.choice([-1, 1])), float(rng.uniform(1.4, 2.2))
                width = 2 * (kerb + 0.9)
                latest = float(green_s if math.isfinite(green_s) else 60.0) - width / speed - 0.5
                begin = latest - float(rng.uniform(0, 5.0))
                look = _look(rng)
                if begin > 0:  # vehicles that had passed the stop line are gone by then
                    people.append(
                        Pedestrian(
                            junction.at_m + crossing_m + float(rng.uniform(-0.8, 0.8)),
                            side * (kerb + 0.9),
                            0.0,
                            speed,
                            begin,
                            look,
                        )
                    )
    return people


def _look(rng: np.random.Generator) -> tuple[Colour, Colour, Colour, float]:
    return *pedestrian_colours(rng), round(min(max(float(rng.normal(1.72, 0.09)), 1.5), 1.95), 2)


def pedestrian_colours(rng: np.random.Generator) -> tuple[Colour, Colour, Colour]:
    clothes, trousers = (CLOTHES[rng.integers(len(CLOTHES))] for _ in range(2))
    return clothes, tuple(0.55 * c for c in trousers), HAIR[rng.integers(len(HAIR))]
