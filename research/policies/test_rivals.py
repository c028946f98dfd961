import math
import random

import numpy as np
import pytest
from made_up_decisions import GivenQuality
from rivals import Alert, ConformalPid

from deadline_perception.extras.faster_rcnn.declaration import multi_path_space

SPACE = multi_path_space(
    skips_per_stage=(0,), widths=(1.0,), pyramid_widths=(1.0,), proposals=(1, 2, 3), heads=1
)
PATHS = list(SPACE)
COSTS_MS = dict(zip(PATHS, (10.0, 20.0, 40.0)))
QUALITY = GivenQuality(dict(zip(PATHS, (0.3, 0.5, 0.6))))


class Forecast:
    def forecast_ms(self, path, segment=0):
        return COSTS_MS[path] if segment == 0 else COSTS_MS[path] / 2.0

    def table(self, paths, segment=0):
        return np.array([self.forecast_ms(path, segment) for path in paths])


def test_the_filter_weighs_quality_by_the_chance_to_be_in_time():
    policy = Alert(PATHS, Forecast(), QUALITY)
    for _ in range(200):
        policy.plan(1000.0, 1.0)
        policy.observe(40.0, 1000.0)
    # Its process noise has a floor: 0.1 and more in variance, so 45 ms are too few for 40.
    assert policy.plan(45.0, 1.0).path == PATHS[1]
    assert policy.plan(100.0, 1.0).path == PATHS[2]


def test_the_conformal_quantile_is_exceeded_as_often_as_it_should_be():
    policy = ConformalPid(PATHS, Forecast(), QUALITY, alpha=0.05)
    rng = random.Random(0)
    exceeded = 0
    for _ in range(4000):
        choice = policy.plan(1000.0, 1.0)
        took_ms = choice.forecast_ms * math.exp(rng.gauss(0.0, 0.1))
        exceeded += took_ms > choice.bound_ms
        policy.observe(took_ms, 1000.0)
    assert exceeded / 4000 == pytest.approx(0.05, abs=0.01)
