"""Runs beside each other have one scale; what is not known does not break it."""

import math

import pytest
from recorded_run import START_NS, UNSTAMPED, RunWriter

from deadline_perception.extras.report import charts
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.scales import drawn_frames, scales_of


def run(recording):
    return recording, drawn_frames(recording)


@pytest.fixture
def short(recorded):
    return run(recorded(*[{'total_ms': 40.0, 'budget_ms': 50.0}] * 2))


@pytest.fixture
def long(recorded):
    return run(recorded(*[{'total_ms': 90.0, 'budget_ms': 120.0}] * 4))


def test_scales_of_two_runs_hold_both(short, long):
    alone, both = scales_of([short]), scales_of([short, long])
    assert alone.time_s == (0.0, 1.0) and both.time_s == (0.0, 3.0)
    assert alone.latency_ms == pytest.approx((0.0, 1.08 * 50.0))
    assert both.latency_ms == scales_of([long]).latency_ms == pytest.approx((0.0, 1.08 * 120.0))
    assert both.phases_ms == pytest.approx(1.15 * 90.0, rel=0.05)


def test_charts_of_both_runs_have_the_same_ticks(short, long):
    scales = scales_of([short, long])
    for draw in (charts.timeline, charts.phases):
        assert '>100<' in draw(*short, scales) and '>100<' in draw(*long, scales)
    assert '>100<' not in charts.timeline(*short, scales_of([short]))


def test_bounds_above_what_frames_need_get_half_as_much_again_at_most(recorded):
    drawn = run(recorded({'total_ms': 60.0, 'budget_ms': 100.0, 'bound_ms': 120.0}))
    assert scales_of([drawn]).latency_ms[1] == pytest.approx(1.08 * 130.0)  # with 10 ms of the node
    loose = run(recorded({'total_ms': 60.0, 'budget_ms': 100.0, 'bound_ms': 5000.0}))
    assert scales_of([loose]).latency_ms[1] == pytest.approx(1.08 * 150.0)


def test_unknown_speed_and_no_stamped_frame_give_axes_all_the_same(recorded, tmp_path):
    with RunWriter(tmp_path / 'run') as writer:
        writer.budget(START_NS, 50.0, math.nan)
        writer.latency(START_NS)
    frames = run(read_recording(tmp_path / 'run'))
    assert scales_of([frames]).speed_mps > 0 and charts.timeline(*frames, scales_of([frames]))
    unstamped = run(recorded(UNSTAMPED))
    assert unstamped[1] == [] and scales_of([unstamped]).time_s == (0.0, 1.0)
