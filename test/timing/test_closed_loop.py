"""How fast bounds become right, how tight they are, and what they promise: whole drives in simulated worlds.

The constants of the time model were chosen on seeds 0 to 2 of a world with 6 % noise and on recorded traces; here are
other seeds, noises, stalls and loads.
"""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import pytest
from closed_loop import ALPHA, STEP, WIDTH, Course, World, drive, quick_profile

from deadline_perception.timing.recent_times import StartRatio

EARLY = slice(50, 400)
FACTOR_5 = StartRatio(math.log(5.0) - 0.1, 0.1 / 2.8)  # one that a profile far off would give
PLAIN = World(noise=0.05, stall_share=0.003, stall_ms=(10.0, 50.0))
SLOW_PROFILE = World(noise=0.05, stall_share=0.003, profiled=3.0)
FAST_PROFILE = World(noise=0.05, stall_share=0.003, profiled=0.5)
ALTERNATING = World(
    noise=0.05, stall_share=0.003, factor=lambda number: 1.0 + 0.4 * (number // 350 % 2)
)
PERIODIC = World(
    noise=0.05,
    extra_ms=lambda number, rng: rng.uniform(6.0, 10.0) if number % 20 == 11 else 0.0,
)
BURSTS = World(
    noise=0.05,
    extra_ms=lambda number, rng: (
        rng.uniform(4.0, 16.0) if number % 250 < 15 and rng.random() < 0.5 else 0.0
    ),
)
WORLDS = {
    'plain': PLAIN,
    'slow profile': SLOW_PROFILE,
    'fast profile': FAST_PROFILE,
    'alternating': ALTERNATING,
    'periodic': PERIODIC,
    'bursts': BURSTS,
}


@cache
def course(name: str, seed: int = 101, frames: int = 5000) -> Course:
    return drive(WORLDS[name], frames, seed, FACTOR_5)


def of_profiles(frames_per_path: int, stalls: int) -> list[Course]:
    """The first frames on a dozen quick profiles."""
    found = []
    for seed in range(200, 212):
        forecast = quick_profile(PLAIN, seed, frames_per_path, stalls)
        start = forecast.start_ratio()
        found.append(drive(PLAIN, EARLY.stop, seed + 1000, start, forecast=forecast))
    return found


@pytest.mark.slow
@pytest.mark.parametrize('frames_per_path, stalls', [(6, 1), (6, 3), (2, 1)])
def test_stalls_while_a_quick_profile_was_measured_loosen_no_bounds(frames_per_path, stalls):
    """A stall of 120 ms once made bounds 7.4 times the latency, for as long as a demo lasts."""
    courses = of_profiles(frames_per_path, stalls)
    ratios = [float(np.median(one.bound_over_time[EARLY])) for one in courses]
    assert max(ratios) <= 1.3
    assert np.mean([one.exceeded[EARLY] for one in courses]) <= 0.02


@pytest.mark.parametrize('name', ['plain', 'slow profile', 'fast profile', 'alternating'])
def test_a_start_five_times_too_long_is_forgotten_within_fifty_frames(name):
    assert course(name).frames_until(1.3) <= 50
    assert np.median(course(name).bound_over_time[50:]) <= 1.3


def test_stalls_of_every_twentieth_frame_are_bound_in_ms():
    assert np.median(course('periodic').bound_over_time) <= 2.0
    without_stall = np.arange(5000) % 20 != 11
    assert np.median(np.array(course('periodic').bound_over_time)[without_stall]) <= 2.0


def test_bursts_cost_the_frames_between_them_little():
    between = np.arange(5000) % 250 > 50
    assert np.median(np.array(course('bursts').bound_over_time)[between]) <= 1.3


@pytest.mark.parametrize('name', WORLDS)
def test_the_target_is_held(name):
    """Late frames at most the target; bounds exceeded at most twice that, of whole frames and of rests."""
    one = course(name)
    assert one.late_share() <= ALPHA
    slack = (WIDTH + STEP) / STEP / len(one.exceeded)
    for exceeded in (one.exceeded, one.rest_exceeded):
        assert np.mean(exceeded) <= 2.0 * ALPHA + 0.1 * slack


def test_late_frames_do_not_come_in_rows():
    for name in WORLDS:
        late = np.array(course(name).late)
        rows = ''.join('x' if one else ' ' for one in late).split()
        assert max(map(len, rows), default=0) <= 3


@pytest.mark.parametrize('name', WORLDS)
def test_chances_are_as_often_right_as_they_say(name):
    one = course(name)
    chances, in_time = np.array(one.chances[42:]), np.array(one.in_time[50:])
    assert np.mean(chances) == pytest.approx(np.mean(in_time), abs=0.02)


@pytest.mark.parametrize('seed', [301, 302])
def test_whatever_frames_take_the_promise_holds(seed):
    """Times of no distribution at all: jumps of the machine by factors, and stalls of any length."""
    rng = random.Random(seed)
    paces = [math.exp(rng.uniform(-0.6, 0.9)) for _ in range(40)]
    world = World(
        noise=0.15,
        stall_share=0.03,
        stall_ms=(1.0, 60.0),
        factor=lambda number: paces[number // 75 % len(paces)],
    )
    one = drive(world, 3000, seed, FACTOR_5)
    limit = ALPHA * 3000 + (WIDTH + STEP) / STEP
    assert sum(one.late) <= limit and sum(one.exceeded) <= 2.0 * limit
