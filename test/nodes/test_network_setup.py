from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from deadline_perception.latency.calibration import BoundCalibrator
from deadline_perception.latency.calibration_file import CalibrationFile
from deadline_perception.nodes.network_setup import (
    NetworkOptions,
    SetupError,
    find_weights,
    make_calibrator,
    share_folder,
)


def test_weights_are_a_file_or_the_name_of_a_shipped_one(tmp_path):
    (tmp_path / 'compact.safetensors').touch()
    assert find_weights('compact', tmp_path) == tmp_path / 'compact.safetensors'
    assert find_weights('/elsewhere/own.safetensors', tmp_path) == Path('/elsewhere/own.safetensors')


def test_an_unknown_name_is_refused_with_those_that_exist(tmp_path):
    with pytest.raises(SetupError, match=r"'large', expected .* \(none\)"):
        find_weights('large', tmp_path)
    (tmp_path / 'compact.safetensors').touch()
    with pytest.raises(SetupError, match=r'\(compact\)'):
        find_weights('large', tmp_path)


def test_the_share_folder_of_a_source_tree_is_its_root(repository):
    assert share_folder() == repository


class Forecast:
    def residual_quantile(self, probability):
        return 0.25


def test_a_kept_calibration_goes_on_only_where_it_was_learnt(tmp_path):
    options = NetworkOptions('compact', target_miss_probability=0.02, calibration_step=0.1)
    learnt = BoundCalibrator(0.02, 0.1, math.log(8.0), 0.25)
    learnt.observe(10.0, None)
    here = CalibrationFile(tmp_path / 'margin.json', 'abc', 'a processor (cpu)', 1)
    assert make_calibrator(options, Forecast(), here)[1] == []
    here.save(learnt.state())
    calibrator, begun_anew = make_calibrator(options, Forecast(), here)
    assert (calibrator.state(), begun_anew) == (learnt.state(), [])
    calibrator, begun_anew = make_calibrator(options, Forecast(), replace(here, threads=2))
    assert (calibrator.frames, calibrator.log_margin) == (0, 0.25)
    assert 'threads is 1 in the file and 2 here; the calibration begins anew' in begun_anew[0]
    here.file.write_text('{"alpha"')
    assert 'cannot be read' in make_calibrator(options, Forecast(), here)[1][0]
