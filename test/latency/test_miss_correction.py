from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.latency.miss_correction import MissCorrection


@settings(max_examples=150, deadline=None)
@given(alpha=st.floats(0.001, 0.5), eta=st.floats(0.001, 0.3), late=st.lists(st.booleans(), min_size=1, max_size=200))
def test_correction_counts_late_frames_whatever_the_sequence_until_it_is_at_its_most(alpha, eta, late):
    correction, at_most = MissCorrection(alpha, eta), False
    for number, is_late in enumerate(late, 1):
        correction.observe(is_late)
        at_most = at_most or correction.factor == pytest.approx(2.0)
        assert 1.0 <= correction.factor <= 2.0 + 1e-9
        assert at_most or correction.late <= alpha * number + math.log(correction.factor) / eta + 1e-9
    assert (correction.frames, correction.late) == (len(late), sum(late))


def test_correction_goes_as_frames_are_in_time():
    correction = MissCorrection(0.01, 0.05)
    correction.observe(False)
    assert correction.factor == 1.0
    for _ in range(20):
        correction.observe(True)
    assert correction.factor == pytest.approx(2.0)
    for _ in range(1400):
        correction.observe(False)
    assert correction.factor == 1.0
