import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadline_perception.extras.elastic.activation import UnitGroup, activate, check_settings

GROUPS = (UnitGroup(100), UnitGroup(6), UnitGroup(32, 'it is a first layer'))


@given(st.floats(0.001, 1.0))
def test_activates_the_most_important_share_of_every_layer(utilisation):
    activation = activate(GROUPS, utilisation)
    assert activation.kept == (
        max(1, math.floor(utilisation * 100 + 1e-9)),
        max(1, math.floor(utilisation * 6 + 1e-9)),
        32,
    )


def test_rounding_does_not_cost_a_neuron():
    assert activate(GROUPS, 0.29).kept[0] == 29


def test_row_is_that_of_the_next_larger_setting():
    rows = [
        activate(GROUPS, utilisation, (0.25, 0.5, 1.0)).row
        for utilisation in (0.1, 0.25, 0.26, 0.5, 0.9, 1.0)
    ]
    assert rows == [0, 0, 1, 1, 2, 2]
    assert [activate(GROUPS, u, (0.25, 0.5, 1.0)).is_setting for u in (0.25, 0.3)] == [True, False]
    assert [activate(GROUPS, u, (0.25, 0.5, 1.0)).key for u in (0.5, 0.3)] == [1, None]


@pytest.mark.parametrize(
    'settings', [(), (0.5,), (1.0, 0.5), (0.5, 0.5, 1.0), (0.0, 1.0), (0.5, 1.5)]
)
def test_refuses_settings_out_of_order_or_range(settings):
    with pytest.raises(ValueError, match=r'expected .*in \(0, 1\]'):
        check_settings(settings)


def test_refuses_a_group_without_units():
    with pytest.raises(ValueError, match='at least 1'):
        UnitGroup(0)
