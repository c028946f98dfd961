"""Records of a run answer what the report asks them."""

import math

import pytest

from deadline_perception.extras.report.recording import Samples


def test_a_signal_keeps_its_value_until_the_next_sample():
    samples = Samples((10, 20), (1.0, 2.0))
    assert math.isnan(samples.at(9))
    assert [samples.at(stamp_ns) for stamp_ns in (10, 19, 20, 99)] == [1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    'fields, in_time',
    [({}, True), ({'outcome': 1}, False), ({'outcome': 2}, False), ({'total_ms': 101.0}, False)],
)
def test_only_fresh_detections_before_the_deadline_are_in_time(recorded, fields, in_time):
    assert recorded(fields).frames[0].in_time is in_time
