"""The charts are well-formed SVG in the page's colours, for usual and for odd runs."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from deadline_perception.extras.report import charts, scales
from deadline_perception.extras.report.scales import drawn_frames, scales_of


def drawn(draw, recording):
    """The chart of a run by itself."""
    frames = drawn_frames(recording)
    return draw(recording, frames, scales_of([(recording, frames)]))


@pytest.mark.parametrize('draw', [charts.timeline, charts.lanes, charts.phases])
def test_is_well_formed_and_leaves_no_colour_outside_the_theme(drive, draw):
    svg = drawn(draw, drive)
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith('svg') and 'viewBox' in root.attrib and 'width' not in root.attrib
    assert '#0102' not in svg and 'var(--muted)' in svg
    assert 'DejaVu' not in svg  # the page's font


def test_misses_coasted_and_infeasible_frames_are_marked(drive):
    frames = drawn_frames(drive)
    assert any(not frame.feasible for frame in frames)
    assert any(not frame.in_time for frame in frames)
    svg = drawn(charts.timeline, drive)
    assert 'var(--infeasible)' in svg and 'var(--miss)' in svg


def test_draws_the_worst_frame_of_each_stretch_of_a_long_run(drive, monkeypatch):
    monkeypatch.setattr(scales, 'MOST_FRAMES', 10)
    frames = drawn_frames(drive)
    worst = max(drive.frames, key=lambda frame: frame.total_ms / frame.budget_ms)
    assert len(frames) == 10 and any(frame is worst for frame in frames)


def test_a_single_frame_without_speed_contention_or_known_path_can_be_drawn(recorded):
    recording = recorded({'path': ''})
    for draw in (charts.timeline, charts.phases):
        ElementTree.fromstring(drawn(draw, recording))
    assert drawn(charts.lanes, recording) == ''


def test_budgets_far_above_the_latency_get_a_logarithmic_axis(recorded):
    recording = recorded(*[{'budget_ms': 2000.0}] * 3)
    assert '>2000<' in drawn(charts.timeline, recording).replace(' ', '')


def seconds_at(svg):
    """Figures of the time axis, and where they stand."""
    parts = ElementTree.fromstring(svg).iter()
    ticks = [part for part in parts if part.get('id', '').startswith('xtick_')]
    texts = [part for tick in ticks for part in tick.iter() if part.tag.endswith('text')]
    return [(text.text, text.get('x')) for text in texts]


def test_operator_lanes_share_the_time_axis_although_frames_without_a_path_are_not_drawn(recorded):
    recording = recorded({'outcome': 1}, *[{'decision': {}}] * 6, {'outcome': 1})
    seconds = seconds_at(drawn(charts.lanes, recording))
    assert len(seconds) > 3 and seconds == seconds_at(drawn(charts.phases, recording))


def test_a_budget_above_the_stacked_phases_leaves_no_stray_line(recorded):
    path = re.compile(r'<path d="([^"]+)"[^>]*stroke: var\(--budget\)')
    inside = path.search(drawn(charts.phases, recorded(*[{'budget_ms': 62.0}] * 3)))
    above = path.search(drawn(charts.phases, recorded(*[{'budget_ms': 500.0}] * 3)))
    assert inside[1].strip() and (above is None or not above[1].strip())
