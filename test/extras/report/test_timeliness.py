"""Frame accounting, misses and quantiles of runs that can be counted by hand."""

import math

import pytest
from recorded_run import SECOND_NS, START_NS, UNSTAMPED, RunWriter

from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.timeliness import Spread, frame_figures, network_figures

CHEAP = 's1111-w0.25-p10-h0'


def stamp(index: int) -> int:
    return START_NS + index * SECOND_NS // 10


def fates(figures):
    return tuple(figures[f'frames_{fate}'] for fate in ('sent', 'delivered', 'replaced', 'lost'))


def test_every_frame_has_a_fate_and_coasted_and_infeasible_ones_are_told_apart(tmp_path):
    """Ten images: six delivered, three replaced, one lost; one late, one coasted, one infeasible but in time."""
    with RunWriter(tmp_path / 'run') as run:
        for index in range(10):
            run.camera(stamp(index))
        run.latency(stamp(0), total_ms=60.0)
        run.decision(stamp(0), decision_us=10.0)
        run.latency(stamp(2), total_ms=120.0, network_ms=110.0, bound_ms=80.0, replaced_frames=1)
        run.latency(stamp(3), total_ms=99.0, outcome=1, feasible=False)
        run.latency(stamp(4), total_ms=30.0, network_ms=20.0, path=CHEAP, feasible=False)
        run.latency(stamp(7), total_ms=40.0, network_ms=30.0, path=CHEAP, replaced_frames=2)
        run.latency(stamp(9), total_ms=70.0, rejected_frames_total=1)
    recording = read_recording(tmp_path / 'run')
    figures = frame_figures(recording)
    assert fates(figures) == (10, 6, 3, 1)
    expected = {'frames_rejected': 1, 'frames_lost_by_middleware': 0, 'bound_exceeded': 1}
    expected |= {'deadline_misses': 2, 'deadline_miss_ratio': 2 / 6, 'infeasible_ratio': 2 / 6}
    expected |= {'feasible_frames': 4, 'feasible_misses': 1, 'feasible_miss_ratio': 1 / 4}
    assert {name: figures[name] for name in expected} == pytest.approx(expected)
    assert network_figures(recording)['outcomes'] == {'detected': 5, 'coasted': 1}


def test_losses_that_only_the_detector_saw_count_as_sent(recorded):
    names = ('rejected_frames_total', 'middleware_lost_total')
    figures = frame_figures(recorded(*(dict.fromkeys(names, total) for total in range(20))))
    assert fates(figures) == (58, 20, 0, 38)
    assert (figures['frames_rejected'], figures['frames_lost_by_middleware']) == (19, 19)


def test_frames_behind_one_that_hung_are_told_apart(recorded):
    waited = {'path': '', 'outcome': 1, 'feasible': False, 'deadline_met': False}
    waited['bound_ms'] = math.nan
    figures = frame_figures(recorded({}, {}, waited, {'feasible': False}))
    found = (figures['held_up_frames'], figures['infeasible_ratio'], figures['feasible_frames'])
    assert found == (1, 0.25, 2)


def test_frames_of_unknown_age_are_neither_missed_nor_met(recorded):
    unknown = UNSTAMPED | {'queue_ms': 1.0, 'overhead_ms': 2.0}
    unstamped = unknown | {'deadline_met': True}, unknown | {'feasible': False}
    figures = frame_figures(recorded({'total_ms': 60.0}, {'total_ms': 120.0}, *unstamped))
    found = (figures['frames_delivered'], figures['frames_age_unknown'], figures['deadline_misses'])
    assert found == (4, 2, 1)
    assert (figures['deadline_miss_ratio'], figures['infeasible_ratio']) == (0.5, 0.0)
    assert (figures['feasible_frames'], figures['feasible_misses']) == (2, 1)
    alone = frame_figures(recorded(unknown))
    assert alone['frames_age_unknown'] == 1
    assert alone['deadline_miss_ratio'] is alone['infeasible_ratio'] is None


def test_frames_that_the_recorder_did_not_see_sent_count_as_sent(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        run.camera(stamp(1))
        run.latency(stamp(0))
        run.latency(stamp(1), replaced_frames=3)
        run.latency(0)
        run.latency(0)
    assert fates(frame_figures(read_recording(tmp_path / 'run'))) == (7, 4, 3, 0)


def test_quantiles_are_values_that_occurred_and_skip_what_was_not_measured():
    spread = Spread.of([*range(1, 101), math.nan, math.inf])
    assert (spread.p50, spread.p95, spread.p99, spread.max) == (51, 96, 100, 100)
    assert Spread.of([]) == Spread(None, None, None, None)
