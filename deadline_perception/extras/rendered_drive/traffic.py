"""Motion along a rendered street: the ego vehicle, the vehicles around it, and the traffic lights they obey."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

STEP_S = 0.05
MAX_SPEED_MPS = 20.0
MAX_ACCELERATION_MPS2 = 2.5
MAX_BRAKING_MPS2 = 3.0
# Intelligent Driver Model (Treiber, Hennecke, Helbing 2000, eq. 2 and 3; parameters of a brisk city driver)
COMFORTABLE_ACCELERATION_MPS2 = 2.4
COMFORTABLE_BRAKING_MPS2 = 2.0
TIME_GAP_S = 1.1
STANDING_GAP_M = 2.2
STOP_LINE_M = 8.5
CYCLE_S = 19.0


@dataclass(frozen=True, eq=False)
class Lane:
    """Vehicles that follow each other, foremost last.

    Attributes:
        direction: 1 with the ego vehicle, -1 towards it.
        offset_m: of the lane from the middle of the road, to the right positive.
        start_m: `[V]` ascending in the lane's own direction, position of the middles.
        speed_mps: `[V]` at the start.
        wanted_mps: `[V]` speed on a free road.
        length_m: `[V]`.
    """

    direction: int
    offset_m: float
    start_m: np.ndarray
    speed_mps: np.ndarray
    wanted_mps: np.ndarray
    length_m: np.ndarray


@dataclass(frozen=True)
class Junction:
    """A crossing with traffic lights.

    Attributes:
        at_m: middle of the crossing along the street.
        holds_ego: red until the ego vehicle has stood in front of it for `hold_s`.
        release_m: distance of the ego vehicle at which any other light becomes green for good.
        phase_s: shifts the cycle that the lights show to those far away.
    """

    at_m: float
    holds_ego: bool
    hold_s: float
    release_m: float
    phase_s: float


@dataclass(frozen=True, eq=False)
class Motion:
    """Where everything was at every `STEP_S`.

    Attributes:
        positions_m: per lane `[T, V]`, along the street (not along the lane).
        speeds_mps: per lane `[T, V]`, never negative.
        accelerations_mps2: per lane `[T, V]`.
        lights: `[T, J]`, 0 green, 1 yellow, 2 red, seen by the ego vehicle.
        red_until_s: `[J]`, when a light turned green for the ego vehicle, infinity where it never did.
    """

    positions_m: tuple[np.ndarray, ...]
    speeds_mps: tuple[np.ndarray, ...]
    accelerations_mps2: tuple[np.ndarray, ...]
    lights: np.ndarray
    red_until_s: np.ndarray


def follow(
    gap_m: np.ndarray, speed_mps: np.ndarray, approach_mps: np.ndarray, wanted_mps: np.ndarray
) -> np.ndarray:
    """Acceleration of a driver behind a vehicle, in [-MAX_BRAKING_MPS2, MAX_ACCELERATION_MPS2].

    The gap is from bumper to bumper, infinite on a free road; `approach_mps` is the own speed less that of the vehicle
    ahead.
    """
    braking = 2 * math.sqrt(COMFORTABLE_ACCELERATION_MPS2 * COMFORTABLE_BRAKING_MPS2)
    wanted_gap = STANDING_GAP_M + np.maximum(
        0, speed_mps * TIME_GAP_S + speed_mps * approach_mps / braking
    )
    pull = 1 - (speed_mps / wanted_mps) ** 4 - (wanted_gap / np.maximum(gap_m, 0.1)) ** 2
    return np.clip(COMFORTABLE_ACCELERATION_MPS2 * pull, -MAX_BRAKING_MPS2, MAX_ACCELERATION_MPS2)


def _light(junction: Junction, time_s: float) -> int:
    share = (time_s + junction.phase_s) % CYCLE_S
    return 0 if share < 9 else 1 if share < 11 else 2


def _stop_gap(
    positions: np.ndarray, speeds: np.ndarray, lengths: np.ndarray, line_m: float
) -> np.ndarray:
    """Gap to a stop line for those who have not passed it and can still stop; infinity for the others."""
    gap = line_m - positions - lengths / 2 + STANDING_GAP_M - 0.8
    braking = speeds**2 / (2 * MAX_BRAKING_MPS2)
    must = (gap > braking) & (gap < 1.7 * braking + 25)
    return np.where(must, gap, np.inf)


def drive_along(lanes: list[Lane], junctions: list[Junction], seconds: float) -> Motion:
    """Simulates all lanes; the ego vehicle is the first of lane 0. The first row is the start."""
    steps = int(math.ceil(seconds / STEP_S)) + 2
    places = [lane.start_m.astype(np.float64).copy() for lane in lanes]
    speeds = [lane.speed_mps.astype(np.float64).copy() for lane in lanes]
    before = [np.zeros_like(speed) for speed in speeds]
    history: list[list[tuple[np.ndarray, ...]]] = [[] for _ in lanes]
    lights = np.zeros((steps, len(junctions)), np.int8)
    red_until = np.full(len(junctions), np.inf)
    stood_s = 0.0
    for step in range(steps):
        ego_m, ego_mps = places[0][0], speeds[0][0]
        stood_s = stood_s + STEP_S if ego_mps < 0.05 else 0.0
        for index, junction in enumerate(junctions):
            ahead_m = junction.at_m - STOP_LINE_M - ego_m
            if junction.holds_ego:
                if red_until[index] == np.inf and stood_s >= junction.hold_s and ahead_m < 60:
                    red_until[index] = step * STEP_S
                lights[step, index] = 0 if step * STEP_S >= red_until[index] else 2
            elif ahead_m < junction.release_m:
                red_until[index] = min(red_until[index], step * STEP_S)
            else:
                lights[step, index] = _light(junction, step * STEP_S)
        for lane, place, speed, last, kept in zip(lanes, places, speeds, before, history):
            gap = np.append(np.diff(place) - (lane.length_m[1:] + lane.length_m[:-1]) / 2, np.inf)
            approach = np.append(speed[:-1] - speed[1:], 0.0)
            acceleration = follow(gap, speed, approach, lane.wanted_mps)
            for index, junction in enumerate(junctions):
                if lights[step, index]:
                    line = lane.direction * junction.at_m - STOP_LINE_M
                    stop = _stop_gap(place, speed, lane.length_m, line)
                    acceleration = np.minimum(
                        acceleration, follow(stop, speed, speed, lane.wanted_mps)
                    )
            # the model creeps up to its gap for seconds; drivers brake to a stand and stay until it is worth going
            acceleration = np.where(
                (speed < 0.7) & (last <= 0) & (acceleration < 0.9), -1.0, acceleration
            )
            last[:] = acceleration
            after = np.clip(speed + acceleration * STEP_S, 0, MAX_SPEED_MPS)
            kept.append((lane.direction * place, speed.copy(), (after - speed) / STEP_S))
            place += (speed + after) / 2 * STEP_S
            speed[:] = after
    columns = [[np.array(column) for column in zip(*kept)] for kept in history]
    return Motion(*zip(*columns), lights, red_until)
