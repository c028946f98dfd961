import numpy as np
import pytest
from read_sequences import boxes_of

from deadline_perception.extras.rendered_drive.drive import (
    CLASS_NAMES,
    render_drive,
    render_drives,
)


@pytest.fixture(scope='module')
def drive():
    return render_drive(seconds=24.0, rate_hz=5.0, seed=0)


@pytest.mark.slow
def test_all_classes_occur_over_a_few_seeds():
    drives = [render_drive(12.0, 1.0, seed) for seed in range(4)]
    known = [frame.ground_truth for drive in drives for frame in drive.frames]
    seen = {label for one in known for label in one.labels[~one.crowd].tolist()}
    assert seen == set(range(len(CLASS_NAMES)))


def test_the_same_seed_gives_the_same_drive_in_any_order(drive):
    again = render_drive(seconds=24.0, rate_hz=5.0, seed=0)
    for index in (70, 3):
        image = again.frames[index].load_bgr()
        assert image.dtype == np.uint8 and image.shape == (380, 640, 3)
        assert np.array_equal(image, drive.frames[index].load_bgr())
        assert boxes_of(again, index) == boxes_of(drive, index)
    other = render_drive(seconds=1.0, rate_hz=5.0, seed=1).frames[3].load_bgr()
    assert not np.array_equal(other, drive.frames[3].load_bgr())


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
