from __future__ import annotations

import math

import pytest

from deadline_perception.decision.policy import Choice, check_choice


@pytest.mark.parametrize(
    'forecast_ms, bound_ms', [(-1.0, 1.0), (math.nan, 1.0), (1.0, math.inf), (1.0, -0.1)]
)
def test_impossible_times_are_refused(foreign_path, forecast_ms, bound_ms):
    with pytest.raises(ValueError, match=f'forecast is {forecast_ms} ms and bound {bound_ms} ms'):
        check_choice(Choice(foreign_path, forecast_ms, bound_ms, True, 0.5))


@pytest.mark.parametrize('quality', [-0.1, 1.1, math.nan])
def test_an_impossible_quality_is_refused(foreign_path, quality):
    with pytest.raises(ValueError, match=f'is {quality}, expected'):
        check_choice(Choice(foreign_path, 1.0, 1.0, True, quality))
