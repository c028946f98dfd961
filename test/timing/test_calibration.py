import json
import math
import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.core.json_file import JsonFileError
from deadline_perception.timing.calibration import (
    BoundCalibrator,
    CalibrationFile,
    CalibrationMismatch,
    Certificate,
    ForeignFile,
)

WIDE = {'score_width': 1e9}


def fresh() -> BoundCalibrator:
    return BoundCalibrator(alpha=0.1, eta=0.1, score_width=1.0)


def test_update_rule_by_hand():
    calibrator = BoundCalibrator(alpha=0.1, eta=0.5, score_width=3.0, initial_log_factor=0.2)
    assert 10.0 * calibrator.factor == pytest.approx(10.0 * math.exp(0.2))
    calibrator.observe(10.0, 100.0)
    assert calibrator.log_factor == pytest.approx(0.2 + 0.5 * 0.9)
    calibrator.observe(10.0, 5.0)
    assert calibrator.log_factor == pytest.approx(0.2 + 0.5 * 0.9 - 0.5 * 0.1)
    calibrator.observe(10.0, None)
    assert calibrator.log_factor == pytest.approx(0.2 + 0.5 * (2 - 0.3))
    assert calibrator.factor == pytest.approx(math.exp(calibrator.log_factor))
    assert calibrator.certificate().misses == 2
    calibrator.observe(10.0, 10.0 * calibrator.factor)  # exactly the bound does not exceed it
    assert calibrator.certificate().misses == 2
    assert fresh().certificate() == Certificate(0, 0, 0, 1.0)  # nothing is promised


def test_factor_returns_after_scores_left_the_interval_and_the_certificate_admits_it():
    calibrator = BoundCalibrator(alpha=0.1, eta=0.1, score_width=0.5)
    for _ in range(100):  # a hang: every frame takes a hundred times its forecast
        calibrator.observe(10.0, 1000.0)
    certificate = calibrator.certificate()
    allowed = 0.1 + (0.5 + 0.1) / (0.1 * 100)  # by the interval
    assert certificate.guaranteed_miss_ratio + 1e-9 >= certificate.misses / 100 > allowed
    for _ in range(2000):
        calibrator.observe(10.0, 10.0)
    assert calibrator.misses / 2100 <= 0.1 and calibrator.factor < 1.1


@pytest.mark.parametrize('wrong_ms', [math.nan, 0.0, -1.0, math.inf])
def test_impossible_frames_are_refused_and_leave_no_trace(wrong_ms):
    calibrator = fresh()
    before = calibrator.state()
    for forecast_ms, latency_ms in ((wrong_ms, 1.0), (1.0, wrong_ms)):
        with pytest.raises(ValueError, match='expected positive, finite numbers'):
            calibrator.observe(forecast_ms, latency_ms)
    assert calibrator.state() == before


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'alpha': 2.0}, 'alpha is 2.0'),
        ({'frames': -1}, r"calibrator\['frames'\] is -1, expected int >= 0"),
        ({'misses': 9}, 'misses is 9 and exceeded_in_time 0 of 0'),
        ({'frames': 10**400}, 'at most 9007199254740992'),
        (WIDE | {'initial_log_factor': math.log(65.0)}, 'factor is 65, expected 0.125 to 64'),
        (WIDE | {'initial_log_factor': -1e9}, 'factor is 0,'),
        ({'frames': 50, 'misses': 50}, 'calibration factor is 90'),
    ],
)
def test_an_impossible_state_is_refused_by_name(change, message):
    state = {**fresh().state(), **change}
    with pytest.raises(ValueError, match=message):
        BoundCalibrator.from_state(state)


def test_a_bound_exceeded_counts_half_where_the_frame_was_in_time():
    for latency_ms, in_time, weight in (
        (5.0, False, 0.0),
        (5.0, True, 0.0),
        (20.0, True, 0.5),
        (20.0, False, 1.0),
        (None, False, 1.0),
        (None, True, 1.0),
    ):
        calibrator = BoundCalibrator(alpha=0.1, eta=0.5, score_width=3.0)
        calibrator.observe(10.0, latency_ms, in_time=in_time)
        assert calibrator.log_factor == pytest.approx(0.5 * (weight - 0.1))
        assert (calibrator.misses, calibrator.exceeded_in_time) == (weight == 1.0, weight == 0.5)


@settings(max_examples=150, deadline=None)
@given(
    alpha=st.floats(0.001, 0.5),
    eta=st.floats(0.001, 0.3),
    frames=st.lists(st.tuples(st.floats(-1.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=200),
)
def test_late_frames_and_bounds_exceeded_are_limited_for_every_sequence(alpha, eta, frames):
    """Of each frame a score, and how much more than its bound it had."""
    calibrator, late, exceeded = BoundCalibrator(alpha, eta, 2.0), 0, 0
    for number, (score, slack) in enumerate(frames, 1):
        is_late = score > calibrator.log_factor + slack
        exceeded += score > calibrator.log_factor
        late += is_late
        calibrator.observe(1.0, None if is_late else math.exp(score), in_time=not is_late)
        limit = alpha * number + (2.0 + eta) / eta + 1e-6
        assert late <= limit and exceeded <= 2.0 * limit
        assert late / number <= calibrator.certificate().guaranteed_miss_ratio + 1e-9
        assert calibrator.certificate().guaranteed_miss_ratio <= limit / number


NUMBERS = st.one_of(
    st.floats(), st.integers(), st.integers(min_value=10**300), st.none(), st.booleans(), st.text()
)


@settings(max_examples=200, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(list(fresh().state())), NUMBERS, min_size=1))
def test_no_state_is_taken_over_that_could_not_have_been_kept(changes):
    state = {**fresh().state(), **changes}
    try:
        calibrator = BoundCalibrator.from_state(state)
    except ValueError:
        return
    assert 2.5 <= 20.0 * calibrator.factor <= 1280.0
    assert 0.0 <= calibrator.certificate().guaranteed_miss_ratio <= 1.0


@pytest.fixture
def place(tmp_path):
    origin = {'profile': 'abc', 'PyTorch version': '2.9', 'threads': 2}
    return CalibrationFile(tmp_path / 'state' / 'factor.json', origin)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'format': 1}, 'cannot be used: its format is 1, expected 2'),
        ({'format': None}, 'its format is None, expected 2'),
        ({'origin': [3]}, 'profile is None in the file'),
    ],
)
def test_a_damaged_state_is_refused_by_name_and_may_be_replaced(place, change, message):
    state = fresh().state()
    place.save(state)
    place.file.write_text(json.dumps({**json.loads(place.file.read_text()), **change}))
    with pytest.raises((JsonFileError, CalibrationMismatch), match=message):
        place.load(alpha=0.1, eta=0.1)
    place.save(state)
    assert state.items() <= place.load(alpha=0.1, eta=0.1).items()


@pytest.mark.parametrize(
    'content', ['export PATH=/opt/bin:$PATH\n', '{"frames": 3}', '[]', '{"alpha"', '[' * 50_000]
)
def test_a_file_that_is_none_of_ours_is_left_as_it_is(place, content):
    place.file.parent.mkdir()
    place.file.write_text(content)
    message = 'calibration_file is .*factor.json, which .* is left as it is'
    with pytest.raises(ForeignFile, match=message):
        place.save(fresh().state())
    assert place.file.read_text() == content


def test_neither_pipe_nor_folder_is_a_place_but_an_empty_file_is(place):
    os.makedirs(place.file.parent)
    os.mkfifo(place.file)
    for wrong in (place.file, place.file.parent):
        with pytest.raises(ForeignFile, match='no ordinary file'):
            replace(place, file=wrong).check_place()
    place.file.unlink()
    place.file.touch()
    place.save(fresh().state())
    assert place.load(alpha=0.1, eta=0.1)['frames'] == 0
