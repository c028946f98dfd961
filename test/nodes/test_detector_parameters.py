from __future__ import annotations

import pytest

from deadline_perception.nodes.detector_parameters import (
    PARAMETERS,
    check,
    make_conditions,
    make_image_age,
    network_options,
)
from deadline_perception.nodes.parameters import validate


def values(**given):
    return validate(PARAMETERS, given)


def test_the_defaults_fit_each_other_and_make_every_part():
    check(values())
    assert network_options(values()).model == 'compact'
    assert make_conditions(values()).now().budget_ms == 100.0
    assert make_image_age(values(max_age_ms=5.0)).read(1_000_000, 7_000_000).reason != ''


@pytest.mark.parametrize('given, reason', [
    ({'fixed_path': 's0-w1.00-p10-h0'}, "expected none with policy 'frontier'"),
    ({'min_quality': 0.3, 'policy': 'reactive_1'}, "min_quality is 0.3, expected 0 with policy 'reactive_1'"),
    ({'miss_cost': 0.3}, "miss_cost is 0.3, expected 1.0 with policy 'frontier'")])
def test_refuses_values_that_do_not_fit_each_other(given, reason):
    with pytest.raises(ValueError, match=reason):
        check(values(**given))
