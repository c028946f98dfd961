"""The program where rounding and rows matter; that it equals brute force is tested in `test_allocation`."""

import numpy as np
import pytest

from deadline_perception.extras.several_networks.scheduling.choices import Choices, Option
from deadline_perception.extras.several_networks.scheduling.exact_allocation import improve


def choices(*tasks):
    return Choices(
        [[Option(0, *values) for values in options] for options in tasks],
        [str(at) for at in range(len(tasks))],
    )


def test_a_nanosecond_too_much_is_not_let_through():
    # Together 10 ms and 1 ns within 10 ms: within the solver's tolerance, and still too much.
    found = choices([(10.0, 1.0, 0.0), (10.0, 5.000001, 1.0)], [(10.0, 1.0, 0.0), (10.0, 5.0, 0.9)])
    selection, gap = improve(found, np.array([0, 2]), 60.0)
    assert selection.tolist() == [1, 2] and gap == pytest.approx(0.0, abs=1e-6)
