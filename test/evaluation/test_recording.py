"""Records of a run answer what the report asks them."""
from __future__ import annotations

import math

import pytest
from recorded_run import SECOND_NS, RunWriter

from deadline_perception.evaluation.recorded_bag import read_recording
from deadline_perception.evaluation.recording import Samples


def test_a_signal_keeps_its_value_until_the_next_sample():
    samples = Samples((10, 20), (1.0, 2.0))
    assert math.isnan(samples.at(9))
    assert [samples.at(stamp_ns) for stamp_ns in (10, 19, 20, 99)] == [1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize(('fields', 'in_time'), [({}, True), ({'outcome': 1}, False), ({'outcome': 2}, False),
                                                 ({'total_ms': 101.0}, False)])
def test_only_fresh_detections_before_the_deadline_are_in_time(tmp_path, fields, in_time):
    with RunWriter(tmp_path / 'run') as run:
        run.latency(SECOND_NS, **fields)
    assert read_recording(tmp_path / 'run').frames[0].in_time is in_time
