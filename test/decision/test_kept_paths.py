from __future__ import annotations

import random

import pytest

from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.kept_paths import kept_paths
from deadline_perception.detector.declaration import multi_path_space

SPACE = multi_path_space(skips_per_stage=(1, 1), widths=(1.0, 0.5), pyramid_widths=(1.0, 0.5), proposals=(10, 25, 100),
                         heads=2)


@pytest.fixture
def times(make_forecast):
    rng, segment_ms = random.Random(3), {}
    return make_forecast(SPACE, lambda name: segment_ms.setdefault(name, rng.uniform(1.0, 12.0)))


@pytest.fixture
def qualities(make_quality):
    rng = random.Random(4)
    return make_quality({path: rng.uniform(0.1, 0.6) for path in SPACE})


def test_the_cheapest_and_the_best_path_stay(times, qualities):
    kept = kept_paths(SPACE, times, qualities, 5)
    assert min(SPACE, key=times.forecast_ms) in kept and max(SPACE, key=qualities.quality) in kept
    assert len(kept) < len(SPACE) / 2 and len(set(kept)) == len(kept)


@pytest.mark.parametrize('number', [1, 3, 8])
def test_a_frame_on_a_kept_path_can_still_change_to_what_is_cheapest_among_all(times, qualities, number):
    kept = kept_paths(SPACE, times, qualities, number)
    pruned, whole = (FrontierPolicy(SPACE, times, qualities, paths=paths) for paths in (kept, None))
    started = pruned.plan(1e6, 1.0).path
    for segment in range(1, len(SPACE.segments)):
        cheapest = [policy.redecide(started, segment, 0.0, 1.0) for policy in (pruned, whole)]
        assert times.forecast_ms(cheapest[0].path) == pytest.approx(times.forecast_ms(cheapest[1].path))


def test_more_levels_than_paths_keep_all(times, qualities):
    assert kept_paths(SPACE, times, qualities, len(SPACE)) == tuple(SPACE)
