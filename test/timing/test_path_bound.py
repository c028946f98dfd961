import gc
import math
import random
import weakref
from dataclasses import replace

import numpy as np
import pytest
from latency_profiles import profile_of
from path_spaces import MATRICES as SPACE

from deadline_perception.core.execution_path import (
    SKIP,
    WIDTH,
    ExecutionPath,
    Operator,
    PathSpace,
    Segment,
)
from deadline_perception.core.measurement_plan import distinct_paths
from deadline_perception.timing.interference import Interference, WcetTable
from deadline_perception.timing.path_bound import PathForecast, SegmentForecast, WcetForecast
from deadline_perception.timing.profile import LatencyProfile, ProfileMismatch
from deadline_perception.timing.quantiles import Quantiles

# In whole frames, kinds of segments take this much longer or shorter than their medians.
TRUE_FACTORS = {'stage': 1.1, 'skip': 1.3, 'pyramid': 0.9, 'rpn': 1.2, 'regions': 1.1, 'head': 1.05}


def constant(duration_ms: float) -> Quantiles:
    return Quantiles.from_samples([duration_ms])


def median_ms(name: str) -> float:
    """A made-up time of a segment, different for each."""
    return 1.0 + sum(map(ord, name)) % 17


def true_ms(path: ExecutionPath) -> float:
    return sum(
        median_ms(key) * TRUE_FACTORS.get(key.partition('@')[0].rstrip('0123456789'), 1.0)
        for key in SPACE.keys(path)
    )


def made_profile(paths=()) -> LatencyProfile:
    """A profile whose whole paths take their true time."""
    return profile_of(
        {name: constant(median_ms(name)) for name in SPACE.carriers()},
        {str(path): constant(true_ms(path)) for path in paths},
    )


def test_forecast_without_whole_paths_is_the_sum_of_medians(foreign_path):
    forecast = PathForecast(made_profile(), SPACE)
    path = SPACE.parse('s010-w0.50-f0.50-p10-h1')
    assert forecast.forecast_ms(path) == pytest.approx(sum(map(median_ms, SPACE.keys(path))))
    assert set(forecast.corrections.values()) == {1.0}
    with pytest.raises(ValueError, match='expected one of the'):
        forecast.forecast_ms(foreign_path)
    with pytest.raises(ValueError, match='no whole path'):
        forecast.residual_quantile(0.5)


def test_in_place_factors_bring_forecasts_near_paths_never_measured():
    measured = distinct_paths(SPACE, 40, random.Random(0))
    others = [path for path in SPACE if path not in measured]
    true = np.array([true_ms(path) for path in others])
    error, plain_error = (
        np.abs(PathForecast(made_profile(paths), SPACE).table(others) / true - 1.0)
        for paths in (measured, ())
    )
    assert error.max() < 0.03 and error.mean() < plain_error.mean() / 4
    scaled = PathForecast(replace(made_profile(measured), scaled_from='another'), SPACE)
    for of in (scaled.residual_quantile(0.5), scaled.start_ratio().median):
        assert math.exp(of) == pytest.approx(1.2, rel=0.02)


def test_a_table_equals_single_forecasts_and_a_part_that_does_not_run_takes_no_time():
    forecast = PathForecast(made_profile(distinct_paths(SPACE, 10, random.Random(0))), SPACE)
    single = [forecast.forecast_ms(path) for path in SPACE]
    np.testing.assert_allclose(forecast.table(list(SPACE)), single, rtol=1e-12)
    assert forecast.table([]).shape == (0,)
    space = PathSpace(
        (Operator('model', 'model', ('one', 'other'), 'm'),),
        (Segment('choose', 'pre', 'model'), Segment('one', 'conv', only_on=('model', 'one'))),
    )
    forecast = SegmentForecast(space, {'choose': 1.0, 'one': 2.0})
    assert forecast.table(list(space)).tolist() == [3.0, 1.0]
    assert [forecast.forecast_ms(path) for path in space] == [3.0, 1.0]


def test_a_forecast_that_nobody_uses_goes_without_the_garbage_collector():
    """A node that answers images never runs it: each configuration would leave a whole forecast behind."""
    forecast = PathForecast(made_profile(), SPACE)
    forecast.forecast_ms(SPACE.largest)
    gone = weakref.ref(forecast)
    gc.disable()
    try:
        del forecast
        assert gone() is None
    finally:
        gc.enable()


def test_each_path_is_forecast_without_itself():
    profile = made_profile(distinct_paths(SPACE, 6, random.Random(0)))
    name, times = next(iter(profile.paths.items()))
    odd = replace(profile, paths={**profile.paths, name: constant(3.0 * times.p50)})
    assert PathForecast(profile, SPACE).residual_quantile(1.0) < 0.1
    assert PathForecast(odd, SPACE).residual_quantile(1.0) > 0.9 * math.log(3.0)
    with pytest.raises(ValueError, match=r'probability is 1\.5'):
        PathForecast(profile, SPACE).residual_quantile(1.5)


def test_a_profile_without_some_segments_is_refused_with_what_to_run():
    profile = made_profile()
    segments = {key: times for key, times in profile.segments.items() if 'head@h1' not in key}
    message = r"lacks 4 of \d+ segments, 'head@h1.*deadline-perception profile"
    with pytest.raises(ProfileMismatch, match=message):
        PathForecast(replace(profile, segments=segments), SPACE)
    one_of_nothing = profile.segments | {next(iter(segments)): constant(0.0)}
    forecast = PathForecast(replace(profile, segments=one_of_nothing), SPACE)
    assert forecast.forecast_ms(SPACE.largest) > 0.0


@pytest.mark.parametrize(
    ('name', 'took_ms', 'message'),
    [
        ('s000000-w1.00-p10-h0', 1.0, "path 's000000-w1.00-p10-h0'"),
        ('no path', 1.0, "path 'no path'"),
        (str(SPACE.largest), 0.0, 'takes 0 ms'),
    ],
)
def test_a_profile_with_foreign_paths_or_times_of_nothing_is_refused(name, took_ms, message):
    with pytest.raises(ProfileMismatch, match=message):
        PathForecast(replace(made_profile(), paths={name: constant(took_ms)}), SPACE)


WCET_SPACE = PathSpace(
    (Operator('width', WIDTH, (0.5, 1.0), 'w'), Operator('skip', SKIP, ('0', '1'), 's')),
    (
        Segment('first', 'conv', 'width', ('width',)),
        Segment('more', 'conv', 'skip', ('width',)),
        Segment('last', 'post'),
    ),
)
WCET_MS = dict(zip(WCET_SPACE.carriers(), (2.0, 4.0, 1.0, 3.0, 1.0), strict=True))


def test_interruptions_are_added_once_to_what_is_left() -> None:
    worst = WcetForecast(WCET_SPACE, WcetTable(WCET_MS, Interference((1.0, 100.0), (0.5, 0.5))))
    largest = WCET_SPACE.largest
    assert [worst.forecast_ms(largest, segment) for segment in range(4)] == pytest.approx(
        [8.5, 4.5, 1.5, 0.0]
    )
    assert worst.table([largest, WCET_SPACE.smallest]).tolist() == pytest.approx([8.5, 3.5])
    assert worst.segment_ms(1, largest) == 3.0 and worst.forecast_ms(largest) == pytest.approx(8.5)
    without_last = {key: value for key, value in WCET_MS.items() if key != 'last'}
    with pytest.raises(ValueError, match='1 segments have no worst case, such as last'):
        WcetForecast(WCET_SPACE, WcetTable(without_last, Interference()))
