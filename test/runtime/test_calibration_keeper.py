from __future__ import annotations

import json
import math

from deadline_perception.latency.calibration import BoundCalibrator, CalibrationFile
from deadline_perception.runtime.calibration_keeper import FRAMES, CalibrationKeeper


def test_the_state_is_kept_after_some_frames_and_when_asked(tmp_path):
    said, calibrator = [], BoundCalibrator(0.01, 0.05, math.log(8.0))
    file = CalibrationFile(tmp_path / 'factor.json', {'threads': 1})
    keeper = CalibrationKeeper(said.append)
    for _ in range(FRAMES - 1):
        keeper.end_frame(file, calibrator)
    assert not file.file.exists() and keeper.is_alive
    keeper.end_frame(file, calibrator)
    calibrator.observe(10.0, 11.0)
    keeper.keep(file, calibrator)
    keeper.stop(20.0)
    assert json.loads(file.file.read_text())['frames'] == 1 and said == [] and not keeper.is_alive


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    said = []
    (tmp_path / 'factor.json').write_text('{"something": "else"}')
    keeper = CalibrationKeeper(said.append)
    keeper.keep(CalibrationFile(tmp_path / 'factor.json', {}), BoundCalibrator(0.01, 0.05, math.log(8.0)))
    keeper.stop(20.0)
    assert len(said) == 1 and 'calibration_file cannot be written' in said[0]
