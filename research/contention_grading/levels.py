"""Which levels of contention a machine has: graded from the delays of a sample network, and matched with units.

Source: contention paper, sections 4.1.1, 4.1.2 and 5.2.1: a moving average takes the noise off the delays, the peaks of
their Gaussian kernel density are the levels, and a level is reproduced by the units under which the same network has
the same delay. Changed: the bandwidth is found from the delays (Botev, Grotowski and Kroese 2010, improved
Sheather-Jones), since a rule for one peak blurs several; nothing is averaged over neighbours that are no more alike
than any two delays; and a peak counts only if enough delays lie under it and a valley divides it from the next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq

_AVERAGED = 9  # frames of the moving average
_LEAST_SHARE = 0.03  # of the delays, that a level has
_RESOLUTION = 0.03  # levels whose delays differ by a smaller part are one
_GRID = 1024  # points of the density; a power of 2 for the cosine transform
_ALIKE = 0.3  # autocorrelation of neighbours from which averaging them is worth it
_FAR_CALMER = 0.5  # standard deviation of a window, as a part of another's
_VALLEY = 0.8  # of the lower of two peaks: a valley that is less deep divides nothing
_CERTAIN = 3.0  # standard deviations by which counts in a peak and in a valley must differ
_WIDER = 1.5  # than what fits the density best, so that noise makes no peaks
_NARROWEST = 0.004  # bandwidth of a delay's logarithm: times are no more exact
_ROUNDING = 1e-4  # of the highest density: below it, peaks are those of the transform
_ROUNDS = 7  # of the bandwidth's fixed point, as its source advises


@dataclass(frozen=True)
class ContentionLevel:
    """One level of contention.

    Attributes:
        delay_ms: delay of the sample network at this level, the peak of the density.
        share: part of all delays that belong to it, in (0, 1].
        slowdown: `delay_ms` over the delay on the idle machine, at least 1; NaN when that is not known.
        units: counts of contention units by kind that reproduce it; None when it was matched with none, empty where
            none are needed.
        units_delay_ms: delay of the sample network under those units; NaN without.
    """

    delay_ms: float
    share: float = 1.0
    slowdown: float = math.nan
    units: Mapping[str, int] | None = None
    units_delay_ms: float = math.nan


@dataclass(frozen=True)
class UnitDelay:
    """Median delay of the sample network, > 0, beside some units, by kind; beside none on the idle machine."""

    units: Mapping[str, int]
    delay_ms: float


def grade_levels(delays_ms: Sequence[float]) -> tuple[ContentionLevel, ...]:
    """The levels of contention that delays of one network show, ascending.

    Args:
        delays_ms: of consecutive frames on one path, in their order; at least 20 that differ.
    """
    delays = np.asarray(delays_ms, dtype=np.float64)
    smooth = smoothed(delays, _AVERAGED)
    independent = 1.0 if smooth is delays else _AVERAGED**-0.5
    peaks_ms, shares = _peaks(*delay_density(smooth), smooth, independent)
    return tuple(
        ContentionLevel(float(peak), float(share)) for peak, share in zip(peaks_ms, shares)
    )


def match_units(
    levels: Sequence[ContentionLevel], unit_delays: Sequence[UnitDelay]
) -> tuple[ContentionLevel, ...]:
    """Gives each level the units whose delay is the nearest, of equally near ones the fewest; and its slowdown, where
    one of the delays, of at least one, is of no units."""
    ordered = sorted(unit_delays, key=lambda delay: sum(delay.units.values()))
    idle_ms = next((delay.delay_ms for delay in ordered if not delay.units), math.nan)
    matched = []
    for level in levels:
        found = min(ordered, key=lambda delay: abs(math.log(delay.delay_ms / level.delay_ms)))
        slowdown = math.nan if math.isnan(idle_ms) else max(1.0, level.delay_ms / idle_ms)
        matched.append(
            replace(level, units=found.units, units_delay_ms=found.delay_ms, slowdown=slowdown)
        )
    return tuple(matched)


def smoothed(delays_ms: np.ndarray, window: int) -> np.ndarray:
    """Moving average of float64 `[N]`; the delays themselves where neighbours are not alike.

    Where the window around a frame holds a step, so that the one before or after the frame is far calmer, that one is
    averaged: a step between two levels leaves no delays between them.
    """
    centred = delays_ms - delays_ms.mean()
    alike = float(centred[1:] @ centred[:-1] / (centred @ centred))
    if window == 1 or alike < _ALIKE:
        return delays_ms
    width = min(window, len(delays_ms))
    parts = np.lib.stride_tricks.sliding_window_view(delays_ms, width)
    means = parts.mean(axis=1)
    deviations = parts.std(axis=1)
    last = len(parts) - 1
    ends = np.arange(len(delays_ms))
    begins = np.clip(np.stack([ends - width // 2, ends - width + 1, ends]), 0, last)
    found = deviations[begins] * np.array([[_FAR_CALMER], [1.0], [1.0]])
    return means[begins[np.argmin(found, axis=0), ends]]


def delay_density(delays_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian kernel density of the logarithm of delays, since what disturbs a delay disturbs a longer one by more.

    Args:
        delays_ms: float64 `[N]`, not all the same.

    Returns:
        `[G]` ascending delays in ms whose logarithms are evenly spaced, and the density per logarithm at each.
    """
    logs = np.log(delays_ms)
    low = float(logs.min())
    high = float(logs.max())
    margin = 0.2 * (high - low)
    low -= margin
    high += margin
    edges = np.linspace(low, high, _GRID + 1)
    counts = np.histogram(logs, edges)[0] / len(logs)
    transformed = dct(counts, norm=None) / 2.0
    transformed[0] = counts.sum()
    narrowest = (_NARROWEST / (high - low)) ** 2
    time = max(_WIDER**2 * _bandwidth(transformed, len(logs)), narrowest)
    frequencies = np.arange(_GRID) * math.pi
    damped = transformed * np.exp(-0.5 * frequencies**2 * time)
    density = np.maximum(idct(damped), 0.0)
    density /= density.sum() * (edges[1] - edges[0])
    return np.exp(0.5 * (edges[:-1] + edges[1:])), density


def _bandwidth(transformed: np.ndarray, count: int) -> float:
    """Squared bandwidth, on a scale on which the grid has length 1 (Botev, Grotowski and Kroese 2010, algorithm 1)."""
    squares = np.arange(1, _GRID, dtype=np.float64) ** 2
    powers = {
        order: 2.0 * (squares * math.pi**2) ** order * transformed[1:] ** 2
        for order in range(2, _ROUNDS + 1)
    }
    rates = -squares * math.pi**2

    def functional(order: int, time: float) -> float:
        return float(powers[order] @ np.exp(rates * time))

    def gap(time: float) -> float:
        value = functional(_ROUNDS, time)
        for order in range(_ROUNDS - 1, 1, -1):
            constant = (1.0 + 0.5 ** (order + 0.5)) / 3.0 * np.prod(np.arange(1, 2 * order, 2))
            constant /= math.sqrt(math.pi / 2.0)
            base = 2.0 * constant / (count * max(value, 1e-300))
            value = functional(order, base ** (2.0 / (3.0 + 2.0 * order)))
        if not value > 0.0:
            return -math.inf
        return time - (2.0 * count * math.sqrt(math.pi) * value) ** -0.4

    times = np.geomspace(1e-9, 0.1, 40)
    with np.errstate(all='ignore'):
        gaps = np.array([gap(time) for time in times])
        rises = (gaps[:-1] < 0.0) & (gaps[1:] >= 0.0)
        crossings = np.flatnonzero(rises)
        if len(crossings):
            return brentq(gap, times[crossings[0]], times[crossings[0] + 1])
    return 0.01**2  # few delays, far apart: a part of their range


def _peaks(
    grid_ms: np.ndarray, density: np.ndarray, delays_ms: np.ndarray, independent: float
) -> tuple[list[float], list[float]]:
    """Delay and share of each peak that counts; those that do not are taken away, the least divided one first.
    `independent` is the share of the delays that are independent of each other."""
    ordered = np.sort(delays_ms)

    def roots(at: int, width: float) -> float:
        """Square root of the independent delays around a place; its standard deviation is always a half."""
        ends = np.searchsorted(ordered, grid_ms[at] * np.array([math.exp(-width), math.exp(width)]))
        return math.sqrt(independent * float(ends[1] - ends[0]))

    floor = _ROUNDING * density.max()
    tops = [
        at
        for at in range(1, _GRID - 1)
        if density[at - 1] < density[at] >= density[at + 1] and density[at] > floor
    ]
    if not tops:  # few delays, so far apart that the density has no peak within the grid
        return [float(np.median(delays_ms))], [1.0]
    while True:
        pairs = list(zip(tops, tops[1:]))
        valleys = [_valley(density, left, right) for left, right in pairs]
        borders_ms = [-math.inf, *(grid_ms[valley] for valley in valleys), math.inf]
        shares = [
            float(np.mean((delays_ms >= low) & (delays_ms < high)))
            for low, high in zip(borders_ms, borders_ms[1:])
        ]
        weakest = None
        least = _CERTAIN
        for at, ((left, right), valley) in enumerate(zip(pairs, valleys)):
            ratio = grid_ms[right] / grid_ms[left]
            width = math.log(ratio) / 8.0  # around either peak and between them, and nothing twice
            lower = min(roots(left, width), roots(right, width))
            apart = 2.0 * (lower - roots(valley, width)) / math.sqrt(2.0)
            depth = density[valley] / min(density[left], density[right])
            if ratio - 1.0 < _RESOLUTION or depth > _VALLEY:
                apart = 0.0
            if apart < least:
                weakest = at
                least = apart
        if weakest is not None:
            left, right = pairs[weakest]
            tops.remove(left if density[left] < density[right] else right)
        elif len(tops) > 1 and min(shares) < _LEAST_SHARE:
            tops.pop(int(np.argmin(shares)))
        else:
            return [grid_ms[top] for top in tops], shares


def _valley(density: np.ndarray, left: int, right: int) -> int:
    """The lowest place between two peaks, the middle one of a plain."""
    between = density[left : right + 1]
    tolerance = 1e-3 * min(between[0], between[-1])
    lowest = np.flatnonzero(between <= between.min() + tolerance)
    return left + int(lowest[len(lowest) // 2])
