import math

import pytest
from baselines import Reactive

from deadline_perception.extras.faster_rcnn.declaration import multi_path_space

SPACE = multi_path_space(
    skips_per_stage=(1, 1), widths=(1.0, 0.5), pyramid_widths=(1.0,), proposals=(10, 100), heads=2
)


def cost_ms(key: str) -> float:
    if key.startswith('skip'):
        return 10.0
    return {'head@h0': 2.0, 'head@h1': 6.0}.get(key.split('-')[0], 1.0)


@pytest.fixture(scope='module')
def models(make_forecast, make_quality):
    """Skippable blocks cost 10 ms, heads 2 and 6, all else 1; what costs more is better."""
    forecast = make_forecast(SPACE, cost_ms)
    return forecast, make_quality({path: forecast.forecast_ms(path) / 100.0 for path in SPACE})


@pytest.mark.parametrize('to_the_lowest', [False, True])
def test_reactive_climbs_after_a_frame_in_time_and_descends_after_a_late_one(models, to_the_lowest):
    policy = Reactive(SPACE, *models, to_the_lowest=to_the_lowest)
    ladder = [str(path) for path in policy.ladder]
    assert policy.name == ('reactive_n' if to_the_lowest else 'reactive_1')
    # two heads with no, one and two groups of blocks; only these differ in time
    assert len(ladder) == 6
    taken = []
    for latency_ms in (10.0, 20.0, 19.9, 5.0, 20.1, 20.0, math.inf):
        taken.append(ladder.index(str(policy.plan(20.0, 1.0).path)))
        policy.observe(latency_ms, 20.0)
    assert taken == ([0, 1, 2, 3, 4, 0, 1] if to_the_lowest else [0, 1, 2, 3, 4, 3, 4])
    assert ladder.index(str(policy.plan(20.0, 1.0).path)) == (0 if to_the_lowest else 3)
