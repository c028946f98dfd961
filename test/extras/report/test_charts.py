"""The charts are well-formed SVG in the page's colours, for usual and for odd runs."""

from deadline_perception.extras.report import scales
from deadline_perception.extras.report.scales import drawn_frames


def test_draws_the_worst_frame_of_each_stretch_of_a_long_run(drive, monkeypatch):
    monkeypatch.setattr(scales, 'MOST_FRAMES', 10)
    frames = drawn_frames(drive)
    worst = max(drive.frames, key=lambda frame: frame.total_ms / frame.budget_ms)
    assert len(frames) == 10 and any(frame is worst for frame in frames)
