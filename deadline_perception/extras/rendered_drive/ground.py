"""Sky, skyline, road surface and markings of a rendered street."""

from __future__ import annotations

import math

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.extras.rendered_drive.camera import MOUNTING_HEIGHT_M, View
from deadline_perception.extras.rendered_drive.painter import Light, Thing, fixed
from deadline_perception.extras.rendered_drive.street import LANE_M, Course, Layout
from deadline_perception.extras.rendered_drive.traffic import STOP_LINE_M, Junction

PANORAMA = 2880
SKY_ROWS = 420
FARTHEST_M = 190.0
TEXTURE_PX_PER_M = 24.0


def cloud_panorama(
    rng: np.random.Generator, zenith_bgr: np.ndarray, horizon_bgr: np.ndarray, cover: float
) -> np.ndarray:
    """A sky all around: uint8 `[SKY_ROWS, PANORAMA, 3]`, the horizon in the last row."""
    height = np.linspace(1, 0, SKY_ROWS)[:, None, None] ** 0.8
    sky = horizon_bgr + (zenith_bgr - horizon_bgr) * height
    clouds = np.zeros((SKY_ROWS, PANORAMA), np.float32)
    for octave in range(5):
        rows, columns = 5 * 2**octave, 14 * 2**octave
        noise = rng.random((rows, columns)).astype(np.float32)
        noise = np.concatenate([noise, noise[:, :1]], 1)
        clouds += cv2.resize(noise, (PANORAMA, SKY_ROWS), interpolation=cv2.INTER_CUBIC) / 2**octave
    clouds = (clouds - clouds.min()) / (clouds.max() - clouds.min())
    alpha = np.clip((clouds - (1 - cover)) * 3.0, 0, 1)[..., None] * 0.8
    white = np.clip(horizon_bgr * 0.5 + 120, 0, 255)
    return np.clip(sky * (1 - alpha) + white * alpha, 0, 255).astype(np.uint8)


class Ground:
    """Everything behind the things on the street; built once per drive, drawn per frame."""

    def __init__(
        self,
        rng: np.random.Generator,
        course: Course,
        layout: Layout,
        junctions: list[Junction],
        light: Light,
        sky: np.ndarray,
        shade: float,
    ) -> None:
        self._course, self._layout, self._junctions, self._light = course, layout, junctions, light
        self._sky, self._shade = sky, shade
        azimuth = np.arange(PANORAMA) * (2 * math.pi / PANORAMA)
        self._hills = [
            sum(
                rng.uniform(0.2, 1.0) * np.sin(azimuth * k + rng.uniform(0, 6.3)) / math.sqrt(k)
                for k in range(2, 26)
            )
            * scale
            + base
            for scale, base in ((0.018, 0.045), (0.012, 0.02))
        ]
        self._hill_bgr = [np.array(c) * rng.uniform(0.7, 1.2) for c in ((95, 88, 80), (62, 84, 66))]
        gain = np.array(light.ambient_bgr) + 0.8 * np.array(light.direct_bgr) * light.sun[2]
        asphalt = rng.uniform(85, 150) + np.array([2.0, 0, -2])
        walk = rng.uniform(110, 165) + np.array([-6.0, 0, 6])
        soil = {
            'town': np.array([110, 118, 124.0]),
            'suburb': np.array([50, 112, 92.0]),
            'country': np.array([46, 104, 88.0]),
        }[layout.style] * rng.uniform(0.8, 1.15)
        self._paint = {
            name: np.clip(colour * gain, 0, 255).tolist()
            for name, colour in (
                ('asphalt', asphalt),
                ('walk', walk),
                ('soil', soil),
                ('kerb', walk * 1.12),
                ('gutter', asphalt * 0.62),
                ('parking', asphalt * 1.08),
                ('white', np.array([205, 205, 205.0])),
                ('yellow', np.array([60, 170, 205.0])),
            )
        }
        noise = rng.normal(0, 1, (512, 512)).astype(np.float32)
        noise = (
            cv2.GaussianBlur(noise, (0, 0), 0.8) * 0.05 + cv2.GaussianBlur(noise, (0, 0), 9) * 0.9
        )
        for _ in range(10):
            start = rng.integers(0, 512, 2)
            steps = np.cumsum(rng.normal(0, 14, (14, 2)), 0) + start
            cv2.polylines(noise, [np.rint(steps).astype(np.int32)], False, -0.14, 1, cv2.LINE_AA)
        self._texture = noise

    def draw_far(self, image: np.ndarray, view: View) -> int:
        """Sky and hills; returns the row of the horizon."""
        height, width = image.shape[:2]
        focal = view.camera.focal_px
        horizon = int(round((height - 1) / 2 - focal * math.tan(view.pitch_rad)))
        columns = np.arange(width)
        azimuth = np.arctan((columns - (width - 1) / 2) / focal) - view.heading_rad
        index = np.rint(azimuth / (2 * math.pi) * PANORAMA).astype(int) % PANORAMA
        above = ((np.arange(horizon + 1) - horizon) * (432 / focal)).astype(int)
        rows = np.clip(SKY_ROWS - 1 + above, 0, SKY_ROWS - 1)
        image[: horizon + 1] = self._sky[rows[:, None], index[None, :]]
        for table, colour, haze in zip(self._hills, self._hill_bgr, (0.72, 0.5)):
            line = horizon - focal * np.maximum(table[index[::4]], 0.004)
            edge = np.stack([columns[::4], line], 1)
            outline = np.concatenate(
                [[(0, horizon + 2)], edge, [(width, line[-1]), (width, horizon + 2)]]
            )
            gain = np.array(self._light.ambient_bgr) + 0.5 * np.array(self._light.direct_bgr)
            mixed = colour * gain * (1 - haze) + np.array(self._light.haze_bgr) * haze
            cv2.fillPoly(image, [fixed(outline)], mixed.tolist(), cv2.LINE_AA, 4)
        return horizon

    def _strip(
        self,
        image: np.ndarray,
        view: View,
        edges: np.ndarray,
        sides: list[tuple[float, float]],
        colour: list[float],
    ) -> None:
        """Fills bands along the street, each from one offset to another, between the positions `edges`."""
        for left, right in sides:
            outline = np.concatenate(
                [self._course.place(edges, left), self._course.place(edges[::-1], right)]
            )
            self._fill(image, view, [outline], colour)

    @staticmethod
    def _fill(
        image: np.ndarray, view: View, outlines: list[np.ndarray], colour: list[float] | float
    ) -> None:
        """Fills areas of the ground, each `[K, 2]` in m."""
        flat = np.concatenate(outlines)
        points = np.zeros((len(flat), 3))
        points[:, :2] = flat
        corners = fixed(view.to_pixels(points))
        polygons = np.split(corners, np.cumsum([len(outline) for outline in outlines])[:-1])
        cv2.fillPoly(image, polygons, colour, cv2.LINE_AA, 4)

    def draw_road(
        self, image: np.ndarray, view: View, along_m: float, horizon: int, shadows: list[Thing]
    ) -> None:
        """Surface, markings and shadows below the horizon, for a camera at `along_m` of the street."""
        half, walk, paint = self._layout.half_m, self._layout.walk_m, self._paint
        image[horizon:] = paint['soil']
        edges = along_m + np.concatenate(
            [np.arange(0.8, 12, 1.6), np.arange(12, 40, 4.0), np.geomspace(40, FARTHEST_M, 12)]
        )
        self._strip(image, view, edges, [(-half - walk, -half), (half, half + walk)], paint['walk'])
        near = [j for j in self._junctions if -20 < j.at_m - along_m < FARTHEST_M - 10]
        for junction in near:
            for width, name in ((13.0, 'walk'), (8.4, 'asphalt')):
                span = (junction.at_m - width / 2, junction.at_m + width / 2, -60.0, 60.0)
                self._fill(image, view, self._bars([span]), paint[name])
        self._strip(image, view, edges, [(-half, half)], paint['asphalt'])
        if self._layout.parking_m:
            strip = half - self._layout.parking_m
            self._strip(image, view, edges, [(-half, -strip), (strip, half)], paint['parking'])
        for low, high in self._between(near, along_m):
            part = np.concatenate([[low], edges[(edges > low) & (edges < high)], [high]])
            self._strip(
                image, view, part, [(-half - 0.25, -half), (half, half + 0.25)], paint['kerb']
            )
            self._strip(
                image, view, part, [(-half, -half + 0.2), (half - 0.2, half)], paint['gutter']
            )
        self._markings(image, view, along_m, edges, near)
        self._finish(image, view, horizon, shadows)

    def _between(self, near: list[Junction], along_m: float) -> list[tuple[float, float]]:
        """Stretches of street without a junction."""
        stretches, start = [], along_m + 0.8
        for junction in near:
            if junction.at_m - 5.5 > start:
                stretches.append((start, junction.at_m - 5.5))
            start = max(start, junction.at_m + 5.5)
        return (
            [*stretches, (start, along_m + FARTHEST_M)]
            if start < along_m + FARTHEST_M
            else stretches
        )

    def _bars(self, spans: list[tuple[float, float, float, float]]) -> list[np.ndarray]:
        """Outlines `[4, 2]` of rectangles, each from and to along the street, left and right of its middle."""
        low, high, left, right = np.array(spans).T[..., None]
        along, aside = (
            np.concatenate([low, high, high, low], 1),
            np.concatenate([left, left, right, right], 1),
        )
        return list(self._course.place(along, aside))

    def _markings(
        self, image: np.ndarray, view: View, along_m: float, edges: np.ndarray, near: list[Junction]
    ) -> None:
        lanes, white = self._layout.lanes, []
        middle = self._paint['yellow' if self._layout.yellow else 'white']
        stretches = [
            (low, high - 3.2) for low, high in self._between(near, along_m) if high - low > 5
        ]
        solid = lanes == 2
        for low, high in stretches:
            part = np.concatenate([[low], edges[(edges > low) & (edges < high)], [high]])
            if solid:
                self._strip(image, view, part, [(-0.24, -0.1), (0.1, 0.24)], middle)
            dashes = []
            for dash in np.arange(math.ceil(low / 9) * 9.0, min(high, along_m + 95), 9.0):
                if dash + 3 > high:
                    continue
                if not solid:
                    dashes.append((dash, dash + 3, -0.08, 0.08))
                for lane in range(1, lanes):
                    white += [
                        (dash, dash + 3, s * lane * LANE_M - 0.07, s * lane * LANE_M + 0.07)
                        for s in (1, -1)
                    ]
            if dashes:
                self._fill(image, view, self._bars(dashes), middle)
            edge = lanes * LANE_M
            self._strip(
                image,
                view,
                part,
                [(-edge - 0.12, -edge), (edge, edge + 0.12)],
                self._paint['white'],
            )
        for junction in near:
            line, half = STOP_LINE_M, lanes * LANE_M
            white.append((junction.at_m - line, junction.at_m - line + 0.4, 0.2, half))
            white.append((junction.at_m + line - 0.4, junction.at_m + line, -half, -0.2))
            if junction.at_m - along_m < 70:
                for stripe in np.arange(-half + 0.3, half - 0.5, 1.1):
                    white += [
                        (junction.at_m + at, junction.at_m + at + 2.4, stripe, stripe + 0.55)
                        for at in (-7.4, 5.0)
                    ]
        if white:
            self._fill(image, view, self._bars(white), self._paint['white'])

    def _finish(self, image: np.ndarray, view: View, horizon: int, shadows: list[Thing]) -> None:
        """Surface texture, shadows and haze in one pass over the rows below the horizon."""
        height, width = image.shape[:2]
        camera, top = view.camera, min(max(horizon + 1, 0), height - 1)
        rows = np.arange(top, height)
        depth = camera.focal_px * MOUNTING_HEIGHT_M / np.maximum(rows - horizon, 0.5)
        scale = depth / camera.focal_px * TEXTURE_PX_PER_M
        cos, sin = math.cos(view.heading_rad), math.sin(view.heading_rad)
        across = (np.arange(width) - (width - 1) / 2)[None, :] * scale[:, None]
        ahead = (depth * TEXTURE_PX_PER_M)[:, None]
        x = (view.x_m * TEXTURE_PX_PER_M) % 512 + ahead * cos + across * sin
        y = (view.y_m * TEXTURE_PX_PER_M) % 512 + ahead * sin - across * cos
        # fixed-point coordinates make the look-up a gather of bytes and not of floats
        texture = self._texture[y.astype(np.int32) & 511, x.astype(np.int32) & 511]
        texture *= np.minimum(1.0, 9.0 / depth).astype(np.float32)[:, None]
        mask = np.zeros((height, width), np.uint8)
        for thing in shadows:
            outline = self._shadow(thing)
            if outline is not None:
                self._fill(mask, view, [outline], 255)
        mask = cv2.blur(mask[top:], (3, 3))
        fade = np.exp(-depth / self._light.visibility_m).astype(np.float32)[:, None]
        gain = ((1 + texture) * (1 - mask * np.float32(self._shade / 255)) * fade)[..., None]
        haze = np.array(self._light.haze_bgr, np.float32) * (1 - fade)[..., None]
        image[top:] = np.clip(image[top:] * gain + haze, 0, 255)

    def _shadow(self, thing: Thing) -> np.ndarray | None:
        """Outline on the ground of what a thing keeps from the sun."""
        sun = self._light.sun
        reach = min(math.hypot(sun[0], sun[1]) / max(sun[2], 0.2), 2.5)
        length = math.hypot(sun[0], sun[1]) or 1.0
        along = np.array([-sun[0] / length, -sun[1] / length]) * reach
        if thing.shape is None:
            angles = np.arange(14) * (2 * math.pi / 14)
            crown = np.stack([np.cos(angles), np.sin(angles)], 1) * thing.size_m[0] * 0.42
            return np.array([thing.x_m, thing.y_m]) + along * thing.size_m[1] * 0.62 + crown
        cos, sin = math.cos(thing.heading_rad), math.sin(thing.heading_rad)
        points = thing.shape.outline
        flat = points[:, :2] @ np.array([[cos, sin], [-sin, cos]]) + (thing.x_m, thing.y_m)
        cast = flat + points[:, 2:] * along * (1.0 if self._shade > 0.3 else 0.08)
        return cv2.convexHull(cast.astype(np.float32))[:, 0].astype(np.float64)
