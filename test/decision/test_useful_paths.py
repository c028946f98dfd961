import math

import numpy as np
import pytest
from path_spaces import SPACE

from deadline_perception.decision import useful_paths as module
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.useful_paths import paths_of, useful_paths
from deadline_perception.timing.path_bound import SegmentForecast


@pytest.fixture(params=range(4))
def parts(request, make_quality):
    """Times by the work of a segment, and qualities that rise with them but for some noise."""
    rng = np.random.default_rng(request.param)
    times = {key: rng.uniform(0.5, 5.0) for key in SPACE.carriers()}
    forecast = SegmentForecast(SPACE, times)
    times_ms = forecast.table(list(SPACE))
    values = 0.8 * times_ms / times_ms.max() + rng.normal(0.0, 0.05, len(SPACE))
    return forecast, make_quality(dict(zip(SPACE, np.clip(values, 0.0, 1.0).tolist())))


def keys_of(paths):
    return {key for path in paths for key in SPACE.keys(path)}


def test_fewer_segments_plan_nearly_as_well_whatever_time_there_is(parts):
    useful = useful_paths(SPACE, *parts)
    by_time = sorted(SPACE, key=parts[0].forecast_ms)
    assert {by_time[0], by_time[-1]} <= set(useful) and len(useful) <= len(SPACE)
    assert useful == paths_of(SPACE, keys_of(useful))  # all that their segments allow
    every, few = FrontierPolicy(SPACE, *parts), FrontierPolicy(SPACE, *parts, paths=useful)
    times_ms = np.geomspace(every.starts()[0][1], every.starts()[-1][1], 300)
    plans = [[policy.plan(time_ms, 1.0) for policy in (every, few)] for time_ms in times_ms]
    lost = [with_all.quality - with_few.quality for with_all, with_few in plans]
    assert np.mean(lost) < 0.0035
    assert few.plan(math.inf, 1.0).quality == every.plan(math.inf, 1.0).quality


def test_what_may_be_lost_decides_how_many_segments_are_kept(parts, monkeypatch):
    counts = []
    for loss in (0.1, 0.01, -1.0):
        for most in ('_MOST_LOSS', '_MOST_AT_ONCE'):
            monkeypatch.setattr(module, most, loss)
        counts.append(len(keys_of(useful_paths(SPACE, *parts))))
    assert counts == sorted(counts) and counts[0] < counts[-1] == len(SPACE.carriers())
