import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deadline_perception.extras.elastic.activation import UnitGroup, activate

GROUPS = (UnitGroup(100), UnitGroup(6), UnitGroup(32, 'it is a first layer'))


@given(st.floats(0.001, 1.0))
@example(0.29)  # rounding does not cost a neuron
def test_activates_the_most_important_share_of_every_layer(utilisation):
    kept = [max(1, math.floor(utilisation * units + 1e-9)) for units in (100, 6)]
    assert activate(GROUPS, utilisation).kept == (*kept, 32)


@pytest.mark.parametrize(
    'utilisation, row, key',
    [(0.1, 0, None), (0.25, 0, 0), (0.26, 1, None), (0.3, 1, None), (0.5, 1, 1), (0.9, 2, None),
     (1.0, 2, 2)],
)  # fmt: skip
def test_row_is_that_of_the_next_larger_setting(utilisation, row, key):
    found = activate(GROUPS, utilisation, (0.25, 0.5, 1.0))
    assert (found.row, found.key, found.is_setting) == (row, key, key is not None)
