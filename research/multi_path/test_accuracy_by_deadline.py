"""What accuracy over deadlines makes of its measurements, with scores made up by hand."""

from __future__ import annotations

import numpy as np
import pytest


def test_goal_is_judged_at_half_of_the_median_time_unless_nothing_fits_that(load_benchmark):
    accuracy_by_deadline = load_benchmark('accuracy_by_deadline')
    assert accuracy_by_deadline.judged_deadline_ms(100.0, 20.0) == 50.0
    assert accuracy_by_deadline.judged_deadline_ms(100.0, 60.0) == 60.0


def test_loss_is_told_against_any_path_with_its_upper_end(load_benchmark):
    scored = load_benchmark('accuracy_by_deadline').Scored
    full, best = (
        scored(ap, ap + 20.0, ap + 5.0, np.full(101, ap), np.full(101, ap + 5.0))
        for ap in (30.0, 32.0)
    )
    ours = scored(29.0, 50.0, 34.0, np.linspace(27.0, 31.0, 101), np.linspace(33.0, 35.0, 101))
    assert ours.loss_against(full)['ap'] == 1.0 and ours.loss_against(best)['ap'] == 3.0
    assert ours.loss_against(full)['pooled'] == 1.0
    assert ours.loss_against(full)['ap_interval'] == [pytest.approx(-0.9), pytest.approx(2.9)]
    assert ours.loss_against(full)['pooled_interval'] == [pytest.approx(0.05), pytest.approx(1.95)]
