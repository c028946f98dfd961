import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_sequences import boxes_of, frame_names, speeds_mps, stamps_ns

from deadline_perception.extras.rendered_drive.camera import Camera
from deadline_perception.extras.rendered_drive.drive import (
    CLASS_NAMES,
    Drive,
    render_drive,
    render_drives,
)


@pytest.fixture(scope='module')
def drive():
    return render_drive(seconds=24.0, rate_hz=5.0, seed=0)


def test_frames_come_at_the_rate_with_distinct_names(drive):
    assert len(drive.frames) == 120
    assert stamps_ns(drive)[:3] == [0, 200_000_000, 400_000_000]
    assert len(set(frame_names(drive))) == 120
    expected = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign', 'person')
    assert drive.class_names == expected
    assert drive.camera_matrix[0, 0] == pytest.approx(320)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**31))
def test_speed_stays_in_range_with_a_stop_and_bounded_changes(seed):
    drive = Drive(24.0, seed, Camera(64, 48))
    speeds = np.array([drive.speed_mps(index / 5) for index in range(120)])
    assert speeds.min() == 0.0 and 7 < speeds.max() <= 20.0
    standing = np.flatnonzero(speeds == 0.0)
    assert len(standing) >= 10, 'stands at the light for at least two seconds'
    assert speeds[standing[-1] :].max() > 3, 'goes on afterwards'
    assert np.abs(np.diff(speeds)).max() <= 3.0 / 5 + 1e-6


def test_the_camera_moves_by_its_speed(drive):
    owner = drive.frames[0].load_bgr.func.__self__
    along = np.array([owner.along_m(stamp_ns / 1e9) for stamp_ns in stamps_ns(drive)])
    speeds = np.array(speeds_mps(drive))
    assert np.diff(along) == pytest.approx((speeds[1:] + speeds[:-1]) / 2 * 0.2, abs=0.02)


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**31))
def test_boxes_lie_inside_the_image_and_hold_all_kinds_of_facts(seed):
    frames = render_drive(seconds=3.0, rate_hz=2.0, seed=seed).frames
    for frame in frames:
        boxes = frame.ground_truth.boxes_xyxy_px
        assert (boxes[:, :2] >= 0).all() and (boxes[:, 2:] <= (640, 380)).all()
        assert (boxes[:, 2:] - boxes[:, :2] >= 1).all()
        area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
        assert frame.ground_truth.crowd[area < 64].all()
    assert sum(len(frame.ground_truth) for frame in frames) > 0


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
