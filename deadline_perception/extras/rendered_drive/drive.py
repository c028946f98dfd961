"""Renders a drive through a street with traffic: the embedded default input, with known boxes and speed."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Sequence as Many
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.rendered_drive import pedestrians, street, street_furniture
from deadline_perception.extras.rendered_drive.camera import Camera, View
from deadline_perception.extras.rendered_drive.ground import FARTHEST_M, Ground, cloud_panorama
from deadline_perception.extras.rendered_drive.painter import (
    Light,
    Thing,
    in_sight,
    paint,
    visible_objects,
)
from deadline_perception.extras.rendered_drive.street import LANE_M, Course, Roadside
from deadline_perception.extras.rendered_drive.traffic import (
    MAX_SPEED_MPS,
    STEP_S,
    Lane,
    drive_along,
)

CLASS_NAMES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign', 'person')
SIGHT_M = 125.0
LIGHT_NAMES = ('green', 'yellow', 'red')


def render_drive(
    seconds: float = 40.0, rate_hz: float = 10.0, seed: int = 0, width: int = 640, height: int = 380
) -> Sequence:
    """A drive through a street that the seed decides: course, houses, traffic, people on foot, weather and light.

    The ego vehicle approaches a red light, stands, goes on, and may reach 20 m/s; drives shorter than about 20 s
    can end before it stops. Boxes are tight around what is visible; see `painter.visible_objects` for crowd. The
    same arguments always give the same pixels, boxes and speeds. Images are rendered when a frame is loaded;
    boxes and speeds are computed here.

    Args:
        seconds: duration, in (0, 3600].
        rate_hz: frames per second, in (0, 100].
        seed: decides everything that varies, >= 0.
        width: of the images in px; the horizontal field of view is 90 degrees.
        height: of the images in px.

    Raises:
        ValueError: an argument is out of its range.
    """
    if not 0 < seconds <= 3600:
        raise ValueError(f'drive of {seconds} s, expected more than 0 and at most 3600 s')
    if not 0 < rate_hz <= 100:
        raise ValueError(f'rate is {rate_hz} Hz, expected more than 0 and at most 100 Hz')
    if seed < 0:
        raise ValueError(f'seed is {seed}, expected at least 0')
    drive = Drive(seconds, seed, Camera(width, height))
    frames = []
    for index in range(max(1, int(round(seconds * rate_hz)))):
        time_s = index / rate_hz
        frames.append(
            Frame(
                f'drive{seed:04d}_{index:06d}',
                int(round(time_s * 1e9)),
                partial(drive.image, time_s),
                drive.speed_mps(time_s),
                drive.ground_truth(time_s),
            )
        )
    return Sequence(f'drive-seed{seed}', CLASS_NAMES, tuple(frames), drive.camera.matrix)


class Drive:
    """One drive; images and boxes of any instant. Not changed after construction."""

    def __init__(self, seconds: float, seed: int, camera: Camera) -> None:
        rng = np.random.default_rng([seed, 20])
        self.camera = camera
        self._layout = street.choose_layout(rng)
        length = MAX_SPEED_MPS * seconds * 0.8 + FARTHEST_M + 60
        self._course = Course(rng, length)
        first_stop = float(np.clip(15 + 3.2 * seconds, 38, 150) + rng.uniform(-4, 12))
        self._junctions = street.place_junctions(rng, first_stop, length)
        self._lane_shapes: list[list[tuple[tuple, float, int]]] = []
        self._lanes = self._fill_lanes(rng, length)
        self._motion = drive_along(self._lanes, self._junctions, seconds)
        roadside = Roadside(rng, self._course, self._layout, self._junctions, length)
        order = np.argsort(roadside.along_m, kind='stable')
        self._roadside = [roadside.things[i] for i in order]
        self._roadside_m = np.array(roadside.along_m)[order]
        self._people = pedestrians.place(
            np.random.default_rng([seed, 21]),
            self._layout,
            self._junctions,
            self._motion.red_until_s,
            length,
        )
        self._light_shapes = self._make_lights(rng)
        self._crossing = self._make_crossing(rng)
        self._pitch_seed = rng.uniform(0, 6.28, 3)
        self._choose_weather(rng)

    def _fill_lanes(self, rng: np.random.Generator, length: float) -> list[Lane]:
        """Lane 0 is the ego vehicle's; then the others with it, those towards it, and a bike lane on each side."""
        layout, lanes = self._layout, []
        count = layout.lanes
        ego_lane = int(rng.integers(count))
        cruise = float(rng.uniform(9, 13))
        order = (
            [(1, ego_lane)]
            + [(1, k) for k in range(count) if k != ego_lane]
            + [(-1, k) for k in range(count)]
        )
        for number, (direction, lane) in enumerate(order):
            kinds, starts = [], []
            at = rng.uniform(11, 40) if number == 0 else rng.uniform(-40, 0)
            if direction < 0:
                at = -length
            while at < (length * 0.8 if direction > 0 else 30):
                kind = street.vehicle(rng)
                starts.append(at + kind[1] / 2)
                kinds.append(kind)
                at += kind[1] + 6 + rng.exponential(26 / layout.density)
            if number == 0:
                kinds.insert(0, ((None, None), 4.5, -1))
                starts.insert(0, 0.0)
            self._lane_shapes.append(kinds)
            # ahead of the ego vehicle nobody dawdles: its speed is to reach the top
            wanted = (
                rng.uniform(12, 21, len(starts)) if number else rng.uniform(21, 24, len(starts))
            )
            lanes.append(
                Lane(
                    direction,
                    direction * (lane + 0.5) * LANE_M,
                    np.array(starts),
                    np.full(len(starts), cruise),
                    wanted,
                    np.array([k[1] for k in kinds]),
                )
            )
        for direction in (1, -1):
            kinds, starts, at = [], [], (8.0 if direction > 0 else -length)
            while at < (length * 0.8 if direction > 0 else 0):
                at += 4 + rng.exponential(48)
                starts.append(at)
                shape = street.bike(rng)
                kinds.append(((shape, shape), 1.9, street.BIKE))
            self._lane_shapes.append(kinds)
            edge = layout.lanes * LANE_M - 0.1
            lanes.append(
                Lane(
                    direction,
                    direction * edge,
                    np.array(starts),
                    np.full(len(starts), 4.5),
                    rng.uniform(3.5, 7.0, len(starts)),
                    np.full(len(starts), 1.9),
                )
            )
        return lanes

    def _make_lights(self, rng: np.random.Generator) -> dict[str, object]:
        housing = street_furniture.HOUSINGS[rng.integers(4)]
        backplate = bool(rng.random() < 0.3)
        return {
            name: street_furniture.traffic_light(name, housing, backplate=backplate)
            for name in LIGHT_NAMES
        }

    def _make_crossing(
        self, rng: np.random.Generator
    ) -> list[tuple[float, float, float, int, tuple]]:
        """Vehicles that cross a junction while the ego vehicle has red: junction, time, speed, side, vehicle."""
        crossing = []
        for junction, green_s in zip(self._junctions, self._motion.red_until_s):
            if not junction.holds_ego:
                continue
            until = green_s if np.isfinite(green_s) else self._motion.lights.shape[0] * STEP_S
            at = 0.0
            while at < until - 2.5:
                at += 2.0 + rng.exponential(2.2)
                if at < until - 2.5:
                    crossing.append(
                        (
                            junction.at_m,
                            at,
                            float(rng.uniform(7, 11)),
                            int(rng.choice([-1, 1])),
                            street.vehicle(rng),
                        )
                    )
        return crossing

    def _choose_weather(self, rng: np.random.Generator) -> None:
        kind = ('sun', 'sun', 'overcast', 'overcast', 'dusk', 'fog')[rng.integers(6)]
        azimuth, elevation = rng.uniform(0, 6.28), rng.uniform(0.35, 1.0)
        ambient, direct, shade, sight = 0.62, 0.5, 0.45, 420.0
        zenith, horizon = np.array([190, 140, 90.0]), np.array([225, 205, 185.0])
        tint = np.ones(3)
        cover = rng.uniform(0.2, 0.5)
        if kind == 'overcast':
            ambient, direct, shade, sight, cover = 0.82, 0.14, 0.28, 300.0, 0.75
            zenith, horizon = np.array([150, 142, 135.0]), np.array([190, 182, 178.0])
        elif kind == 'dusk':
            ambient, direct, shade, sight = 0.42, 0.28, 0.25, 300.0
            zenith, horizon, tint = (
                np.array([110, 75, 60.0]),
                np.array([140, 150, 190.0]),
                np.array([1.1, 0.97, 0.95]),
            )
            elevation = 0.22
        elif kind == 'fog':
            ambient, direct, shade, sight, cover = 0.85, 0.08, 0.22, 110.0, 0.9
            zenith, horizon = np.array([185, 182, 180.0]), np.array([200, 198, 196.0])
        level = rng.uniform(0.8, 1.12)
        sun = (
            math.cos(elevation) * math.cos(azimuth),
            math.cos(elevation) * math.sin(azimuth),
            math.sin(elevation),
        )
        self._light = Light(
            sun,
            tuple(ambient * tint * level),
            tuple(direct * level * np.array([0.9, 1.0, 1.06])),
            tuple(np.minimum(horizon * min(level, 1.05), 250)),
            sight,
        )
        sky = cloud_panorama(rng, zenith * level, np.minimum(horizon * level, 250), cover)
        self._ground = Ground(
            rng, self._course, self._layout, self._junctions, self._light, sky, shade
        )
        self._noise = rng.normal(0, 1, (self.camera.height + 64, self.camera.width + 64, 1)).astype(
            np.float32
        ) * rng.uniform(0.8, 5.0)
        self._blur = float(rng.choice([0.0, 0.4, 0.6, 0.9]))
        contrast, brightness, gamma = (
            rng.uniform(0.85, 1.15),
            rng.uniform(-10, 8),
            rng.uniform(0.88, 1.12),
        )
        cast = rng.normal(1, 0.025, 3)
        ramp = 255 * (np.arange(256) / 255) ** gamma
        curve = (ramp[:, None] - 118) * contrast * cast + 118 + brightness
        self._curve = np.clip(curve, 0, 255).astype(np.uint8)[None]

    def _at(self, rows: np.ndarray, time_s: float) -> np.ndarray:
        step = time_s / STEP_S
        low = min(int(step), len(rows) - 2)
        return rows[low] + (rows[low + 1] - rows[low]) * (step - low)

    def speed_mps(self, time_s: float) -> float:
        return float(self._at(self._motion.speeds_mps[0], time_s)[0])

    def along_m(self, time_s: float) -> float:
        """Position of the camera along the street."""
        return float(self._at(self._motion.positions_m[0], time_s)[0])

    def view(self, time_s: float) -> View:
        along = self.along_m(time_s)
        x, y = self._course.place(along, self._lanes[0].offset_m)
        speed = self.speed_mps(time_s)
        acceleration = float(self._at(self._motion.accelerations_mps2[0], time_s)[0])
        shake = (
            sum(math.sin(time_s * w + p) for w, p in zip((7.3, 11.9, 17.1), self._pitch_seed))
            * 0.0011
            * speed
            / 20
        )
        heading = float(self._course.heading_rad(along + 2.0))
        return View(self.camera, float(x), float(y), heading, -acceleration * 0.004 + shake)

    def _things(self, time_s: float) -> list[Thing]:
        along = self.along_m(time_s)
        first, last = np.searchsorted(self._roadside_m, (along - 15, along + SIGHT_M + 20))
        things = list(self._roadside[first:last])
        for lane, kinds, places, changes in zip(
            self._lanes,
            self._lane_shapes,
            self._motion.positions_m,
            self._motion.accelerations_mps2,
        ):
            place, change = self._at(places, time_s), self._at(changes, time_s)
            for index in np.flatnonzero((place > along - 12) & (place < along + SIGHT_M)):
                shapes, length, label = kinds[index]
                if label < 0:
                    continue
                turn = 0.0 if lane.direction > 0 else math.pi
                things.append(
                    self._thing(
                        place[index],
                        lane.offset_m,
                        turn,
                        shapes[int(change[index] < -0.6)],
                        label,
                        length / 2,
                    )
                )
        for at_m, when_s, speed, side, (shapes, length, label) in self._crossing:
            aside = side * ((time_s - when_s) * speed - 45)
            if abs(aside) < 45 and -15 < at_m - along < SIGHT_M:
                things.append(
                    self._thing(
                        at_m - side * 1.75, aside, -side * math.pi / 2, shapes[0], label, length / 2
                    )
                )
        for person in self._people:
            if -15 < person.along_m - along < SIGHT_M + 60:
                at, aside, turn, shape = person.pose(time_s)
                things.append(self._thing(at, aside, turn, shape, street.PERSON, 1.0))
        return things + self._traffic_lights(time_s, along)

    def _thing(
        self,
        along_m: float,
        aside_m: float,
        turn_rad: float,
        shape: object,
        label: int,
        reach_m: float,
    ) -> Thing:
        return self._course.thing(
            along_m,
            aside_m,
            turn_rad,
            shape=shape,
            label=label,
            reach_m=reach_m,
            casts_shadow=label >= 0,
        )

    def _traffic_lights(self, time_s: float, along: float) -> list[Thing]:
        things: list[Thing] = []
        step = min(int(time_s / STEP_S), len(self._motion.lights) - 1)
        half, lanes = self._layout.half_m, self._layout.lanes
        for index, junction in enumerate(self._junctions):
            if not -8 < junction.at_m - along < SIGHT_M:
                continue
            shape = self._light_shapes[LIGHT_NAMES[self._motion.lights[step, index]]]
            spots = [
                (junction.at_m - 6.8, half + 0.6, 2.3),
                (junction.at_m + 7.2, -half - 0.6, 2.4),
            ]
            if self._layout.overhead:
                spots += [
                    (junction.at_m + 8.0, (lane + 0.5) * LANE_M, 5.3) for lane in range(lanes)
                ]
                things.append(
                    self._thing(
                        junction.at_m + 8.2,
                        half + 0.6,
                        0.0,
                        street_furniture.pole(6.5, half - 1.0, 0.09),
                        -1,
                        9,
                    )
                )
            else:
                spots.append((junction.at_m + 7.2, half + 0.6, 2.4))
            for at, aside, foot in spots:
                if foot < 5:
                    things.append(
                        self._thing(at + 0.2, aside, 0.0, street_furniture.pole(foot + 0.9), -1, 1)
                    )
                things.append(
                    self._course.thing(
                        at, aside, z_m=foot, shape=shape, label=street.TRAFFIC_LIGHT, reach_m=1
                    )
                )
        return things

    def ground_truth(self, time_s: float) -> GroundTruth:
        """Boxes of what is visible."""
        view = self.view(time_s)
        return GroundTruth(*visible_objects(in_sight(self._things(time_s), view, SIGHT_M), view))

    def image(self, time_s: float) -> np.ndarray:
        """The camera's image, uint8 `[height, width, 3]` BGR."""
        view = self.view(time_s)
        things = self._things(time_s)
        image = np.zeros((self.camera.height, self.camera.width, 3), np.uint8)
        horizon = self._ground.draw_far(image, view)
        shadows = [thing for thing in things if thing.casts_shadow and thing.reach_m > 0]
        self._ground.draw_road(
            image, view, self.along_m(time_s), horizon, in_sight(shadows, view, 70.0)
        )
        paint(image, in_sight(things, view, SIGHT_M), view, self._light)
        if self._blur:
            image = cv2.GaussianBlur(image, (0, 0), self._blur)
        image = cv2.LUT(image, self._curve)
        shift = np.random.default_rng(int(round(time_s * 1e6))).integers(0, 64, 2)
        noise = self._noise[
            shift[0] : shift[0] + self.camera.height, shift[1] : shift[1] + self.camera.width
        ]
        return np.clip(image + noise, 0, 255).astype(np.uint8)


def render_drives(
    seeds: Many[int], seconds: float, rate_hz: float, processes: int
) -> list[Sequence]:
    """A drive per seed, its images rendered already, by so many processes, and held in memory."""
    render = partial(_held_drive, seconds, rate_hz)
    processes = min(processes, len(seeds))
    if processes < 2:
        return [render(seed) for seed in seeds]
    # Spawned, because a fork would copy locks that other threads of this process hold.
    with ProcessPoolExecutor(processes, multiprocessing.get_context('spawn')) as pool:
        return list(pool.map(render, seeds))


def _held_drive(seconds: float, rate_hz: float, seed: int) -> Sequence:
    drive = render_drive(seconds=seconds, rate_hz=rate_hz, seed=seed)
    return replace(
        drive,
        frames=tuple(
            replace(frame, load_bgr=partial(np.asarray, frame.load_bgr())) for frame in drive.frames
        ),
    )
