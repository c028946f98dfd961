"""Solid shapes of a rendered street: lists of shaded polygons, rods and balls in painter's order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

GLASS = (62, 52, 44)
RUBBER = (28, 28, 30)
METAL = (130, 130, 132)
Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Element:
    """What is drawn by one call: `points[first:last]` of the shape.

    Attributes:
        kind: 'polygon' (convex), 'quads' (four points each), 'ring' (closed line), 'rod' (two points) or 'ball' (one).
        radius_m: of rods, balls and the line of rings.
        detail: omitted when the shape is small in the image.
    """

    kind: str
    first: int
    last: int
    radius_m: float
    detail: bool


@dataclass(frozen=True, eq=False)
class Shape:
    """A solid in its own frame: x ahead, y to the left, z up from the ground, in m.

    Attributes:
        points: `[P, 3]`, of all elements.
        elements: in painter's order.
        centres: `[E, 3]`, a point of each element's plane.
        normals: `[E, 3]`, outward; zero for what is seen from both sides.
        bgr: `[E, 3]`, in [0, 255].
        lit: bool `[E]`, False for what shines by itself.
        outline: `[Q, 3]`, points whose convex hull in the image is the silhouette.
    """

    points: np.ndarray
    elements: tuple[Element, ...]
    centres: np.ndarray
    normals: np.ndarray
    bgr: np.ndarray
    lit: np.ndarray
    outline: np.ndarray


class ShapeBuilder:
    """Collects elements; later ones are painted over earlier ones."""

    def __init__(self) -> None:
        self._points: list[np.ndarray] = []
        self._elements: list[Element] = []
        self._facts: list[tuple[np.ndarray, np.ndarray, Colour, bool]] = []
        self._outline: list[np.ndarray] = []
        self._count = 0

    def _add(
        self,
        kind: str,
        points: np.ndarray,
        bgr: Colour,
        normal: np.ndarray | None,
        *,
        lit: bool = True,
        radius_m: float = 0.0,
        detail: bool = False,
    ) -> None:
        points = np.asarray(points, dtype=np.float64)
        self._elements.append(
            Element(kind, self._count, self._count + len(points), radius_m, detail)
        )
        self._count += len(points)
        self._points.append(points)
        self._facts.append((points.mean(0), np.zeros(3) if normal is None else normal, bgr, lit))
        if not detail:
            if radius_m:
                offsets = np.concatenate([np.eye(3), -np.eye(3)]) * radius_m
                self._outline.append((points[:, None] + offsets).reshape(-1, 3))
            else:
                self._outline.append(points)

    def polygon(
        self,
        points: np.ndarray,
        bgr: Colour,
        outward: np.ndarray | None = None,
        *,
        lit: bool = True,
        detail: bool = False,
    ) -> np.ndarray:
        """A convex polygon `[K, 3]`; seen from one side only when `outward` hints that side. Returns the points."""
        points = np.asarray(points, dtype=np.float64)
        normal = None if outward is None else _normal(points, outward)
        self._add('polygon', points, bgr, normal, lit=lit, detail=detail)
        return points

    def patches(
        self,
        face: np.ndarray,
        spans: list[tuple[float, float, float, float]],
        bgr: Colour,
        outward: np.ndarray,
        *,
        lit: bool = True,
        detail: bool = True,
    ) -> None:
        """Quads on a four-cornered face, each span (left, right, bottom, top) as shares of the face."""
        lower, upper = (face[0], face[1]), (face[3], face[2])
        quads = []
        for left, right, bottom, top in spans:
            for across, along in ((left, bottom), (right, bottom), (right, top), (left, top)):
                low = lower[0] + (lower[1] - lower[0]) * across
                high = upper[0] + (upper[1] - upper[0]) * across
                quads.append(low + (high - low) * along)
        self._add('quads', np.array(quads), bgr, _normal(face, outward), lit=lit, detail=detail)

    def frustum(
        self,
        bottom: tuple[float, float, float, float],
        top: tuple[float, float, float, float],
        bgr: Colour,
        *,
        aside_m: float = 0.0,
    ) -> dict[str, np.ndarray]:
        """A box with (rear x, front x, half width, z) below and above, `aside_m` to the left; returns faces by side.

        The faces' corners start at the bottom left as seen from outside.
        """

        def corners(
            rear: float, front: float, half: float, z: float
        ) -> dict[str, tuple[float, float, float]]:
            left, right = aside_m + half, aside_m - half
            return {
                'rl': (rear, left, z),
                'rr': (rear, right, z),
                'fl': (front, left, z),
                'fr': (front, right, z),
            }

        low, high = corners(*bottom), corners(*top)
        faces = {
            'rear': ('rl', 'rr', (-1, 0, 0)),
            'front': ('fr', 'fl', (1, 0, 0)),
            'left': ('fl', 'rl', (0, 1, 0)),
            'right': ('rr', 'fr', (0, -1, 0)),
        }
        made = {}
        for name, (start, end, outward) in faces.items():
            made[name] = self.polygon(
                np.array([low[start], low[end], high[end], high[start]]), bgr, np.array(outward)
            )
        made['top'] = self.polygon(
            np.array([high['rl'], high['rr'], high['fr'], high['fl']]), bgr, np.array((0, 0, 1))
        )
        return made

    def disc(
        self,
        centre: Colour,
        radius_m: float,
        bgr: Colour,
        axis: np.ndarray,
        *,
        one_sided: bool = True,
        lit: bool = True,
        detail: bool = False,
    ) -> None:
        """A flat disc whose axis lies in the ground plane."""
        across = np.array([-axis[1], axis[0], 0.0])
        angles = np.arange(12) * (2 * math.pi / 12)
        points = np.asarray(centre) + radius_m * (
            np.cos(angles)[:, None] * across + np.sin(angles)[:, None] * np.array([0, 0, 1.0])
        )
        self.polygon(points, bgr, axis if one_sided else None, lit=lit, detail=detail)

    def rod(self, start: Colour, end: Colour, radius_m: float, bgr: Colour) -> None:
        """A round bar between two points."""
        self._add('rod', np.array([start, end]), bgr, None, radius_m=radius_m)

    def ring(self, centre: Colour, radius_m: float, thickness_m: float, bgr: Colour) -> None:
        """A hoop that rolls along x; `thickness_m` is the radius of its tube."""
        angles = np.arange(16) * (2 * math.pi / 16)
        points = np.asarray(centre) + radius_m * np.stack(
            [np.cos(angles), np.zeros(16), np.sin(angles)], 1
        )
        self._add('ring', points, bgr, None, radius_m=thickness_m)

    def ball(
        self,
        centre: Colour,
        radius_m: float,
        bgr: Colour,
        *,
        lit: bool = True,
        detail: bool = False,
    ) -> None:
        self._add('ball', np.array([centre]), bgr, None, lit=lit, radius_m=radius_m, detail=detail)

    def build(self) -> Shape:
        centres, normals, bgr, lit = zip(*self._facts)
        return Shape(
            np.concatenate(self._points),
            tuple(self._elements),
            np.array(centres),
            np.array(normals),
            np.array(bgr, dtype=np.float64),
            np.array(lit),
            np.concatenate(self._outline),
        )


def _normal(points: np.ndarray, outward: np.ndarray) -> np.ndarray:
    """Unit normal of a face's first corner, on the side that `outward` hints; numpy's cross is slow on one vector."""
    (x0, y0, z0), (x1, y1, z1), (x2, y2, z2) = points[:3].tolist()
    ax, ay, az, bx, by, bz = x1 - x0, y1 - y0, z1 - z0, x2 - x1, y2 - y1, z2 - z1
    x, y, z = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    length = math.sqrt(x * x + y * y + z * z) or 1.0
    if x * outward[0] + y * outward[1] + z * outward[2] < 0:
        length = -length
    return np.array((x / length, y / length, z / length))
