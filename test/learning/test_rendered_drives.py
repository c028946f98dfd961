import numpy as np

from deadline_perception.learning.rendered_drives import render_drives


def test_processes_render_what_one_renders():
    alone = render_drives([3, 4], seconds=1.0, rate_hz=2.0, processes=1)
    shared = render_drives([3, 4], seconds=1.0, rate_hz=2.0, processes=2)
    assert [drive.name for drive in shared] == [drive.name for drive in alone]
    for mine, theirs in zip(alone, shared):
        assert len(mine.frames) == len(theirs.frames) == 2
        for one, other in zip(mine.frames, theirs.frames):
            assert one.name == other.name and one.load_bgr() is one.load_bgr()
            assert np.array_equal(one.load_bgr(), other.load_bgr())
            assert np.array_equal(one.truth.boxes_xyxy_px, other.truth.boxes_xyxy_px)


def test_no_seeds_are_no_drives():
    assert render_drives(range(0), seconds=1.0, rate_hz=2.0, processes=4) == []
