import numpy as np
import pytest

from deadline_perception.extras.rendered_drive.drive import CLASS_NAMES, render_drive, render_drives


@pytest.mark.slow
def test_all_classes_occur_over_a_few_seeds():
    drives = [render_drive(12.0, 1.0, seed) for seed in range(4)]
    known = [frame.ground_truth for drive in drives for frame in drive.frames]
    seen = {label for one in known for label in one.labels[~one.crowd].tolist()}
    assert seen == set(range(len(CLASS_NAMES)))


@pytest.mark.parametrize(
    'options, message',
    [
        ({'seconds': 0}, 'drive of 0 s'),
        ({'rate_hz': 0}, 'rate is 0 Hz'),
        ({'rate_hz': 1e3}, 'at most 100 Hz'),
        ({'seed': -1}, 'seed is -1'),
        ({'width': 4}, '4x380 px'),
        ({'height': 15}, '640x15 px'),
    ],
)
def test_refuses_what_cannot_be_rendered(options, message):
    with pytest.raises(ValueError, match=message):
        render_drive(**options)


@pytest.mark.slow
def test_processes_render_what_one_renders():
    alone = render_drives([3, 4], seconds=1.0, rate_hz=2.0, processes=1)
    shared = render_drives([3, 4], seconds=1.0, rate_hz=2.0, processes=2)
    assert [drive.name for drive in shared] == [drive.name for drive in alone]
    for mine, theirs in zip(alone, shared):
        assert len(mine.frames) == len(theirs.frames) == 2
        for one, other in zip(mine.frames, theirs.frames):
            assert one.name == other.name and one.load_bgr() is one.load_bgr()
            assert np.array_equal(one.load_bgr(), other.load_bgr())
            assert np.array_equal(one.ground_truth.boxes_xyxy_px, other.ground_truth.boxes_xyxy_px)
    assert render_drives(range(0), seconds=1.0, rate_hz=2.0, processes=4) == []
