from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from deadline_perception.latency.calibration import BoundCalibrator
from deadline_perception.latency.calibration_file import CalibrationFile, CalibrationMismatch
from deadline_perception.latency.json_file import JsonFileError


@pytest.fixture
def place(tmp_path):
    return CalibrationFile(tmp_path / 'state' / 'margin.json', 'abc', 'Orin (cuda)', 2)


def test_state_survives_a_restart(place):
    calibrator = BoundCalibrator(alpha=0.02, eta=0.07, score_width=2.0, initial_log_margin=0.3)
    for latency_ms in np.random.default_rng(0).uniform(5.0, 30.0, 200):
        calibrator.observe(np.float64(10.0), latency_ms)
    place.save(calibrator.state())
    restarted = place.load(alpha=0.02, eta=0.07)
    assert restarted.state() == calibrator.state()
    assert restarted.certificate() == calibrator.certificate()
    assert restarted.bound_ms(12.0) == calibrator.bound_ms(12.0)


@pytest.mark.parametrize(('change', 'message'), [
    ({'network_hash': 'def'}, "network_hash is 'abc' in the file and 'def' here"),
    ({'device': 'Orin (cpu)'}, "device is 'Orin [(]cuda[)]' in the file"),
    ({'threads': 1}, 'threads is 2 in the file')])
def test_what_another_network_device_or_number_of_threads_learnt_is_refused(place, change, message):
    place.save(BoundCalibrator(alpha=0.1, eta=0.1, score_width=1.0).state())
    with pytest.raises(CalibrationMismatch, match=message):
        replace(place, **change).load(alpha=0.1, eta=0.1)


@pytest.mark.parametrize(('wanted', 'message'), [
    ({'alpha': 0.2, 'eta': 0.1}, 'alpha is 0.1 in the file and 0.2 here'), ({'alpha': 0.1, 'eta': 0.2}, 'eta is 0.1')])
def test_another_target_or_step_begins_anew(place, wanted, message):
    place.save(BoundCalibrator(alpha=0.1, eta=0.1, score_width=1.0).state())
    with pytest.raises(CalibrationMismatch, match=message):
        place.load(**wanted)


@pytest.mark.parametrize(('change', 'message'), [
    ({'score_width': -2.0}, 'score_width is -2.0'), ({'frames': -1}, 'misses is 0 of -1'),
    ({'misses': 9}, 'misses is 9 of 0'), ({'score_width': 'wide'}, 'score_width'), ({'frames': 1.5}, 'frames'),
    ({'misses': True}, 'misses'), ({'initial_log_margin': None}, 'initial_log_margin')])
def test_a_damaged_state_is_refused_by_name(place, change, message):
    place.save(BoundCalibrator(alpha=0.1, eta=0.1, score_width=1.0).state())
    place.file.write_text(json.dumps({**json.loads(place.file.read_text()), **change}))
    with pytest.raises(JsonFileError, match=f'cannot be used: .*{message}'):
        place.load(alpha=0.1, eta=0.1)
