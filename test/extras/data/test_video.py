from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from deadline_perception.extras.data.video import read_video

HIGHWAY = (
    Path(__file__).resolve().parents[4] / 'shared' / 'data' / 'highway' / 'solid_white_right.mp4'
)


@pytest.fixture
def clip(tmp_path):
    """Fifty frames whose brightness counts up, 20 per second."""
    file = tmp_path / 'clip.avi'
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*'MJPG'), 20.0, (64, 48))
    assert writer.isOpened()
    for index in range(50):
        writer.write(np.full((48, 64, 3), 5 * index, np.uint8))
    writer.release()
    return file


def test_stamps_follow_the_frame_rate(clip):
    sequence = read_video(clip)
    assert len(sequence.frames) == 50
    assert [frame.stamp_ns for frame in sequence.frames[:3]] == [0, 50_000_000, 100_000_000]
    assert sequence.class_names == ()
    assert sequence.frames[0].ground_truth is None and sequence.frames[0].speed_mps is None


def test_frames_load_in_any_order(clip):
    frames = read_video(clip).frames
    for index in (0, 1, 2, 49, 3, 3, 45, 10, 12):
        image = frames[index].load_bgr()
        assert image.shape == (48, 64, 3)
        assert image.mean() == pytest.approx(5 * index, abs=2.5)


def test_refuses_what_is_no_video(tmp_path):
    with pytest.raises(FileNotFoundError, match='expected a video file'):
        read_video(tmp_path / 'none.mp4')
    (tmp_path / 'text.mp4').write_text('no pixels here')
    with pytest.raises(ValueError, match='cannot be opened'):
        read_video(tmp_path / 'text.mp4')


@pytest.mark.skipif(not HIGHWAY.is_file(), reason='the highway video is not here')
def test_reads_the_highway_drive():
    sequence = read_video(HIGHWAY)
    assert len(sequence.frames) == 221
    late, early = sequence.frames[150].load_bgr(), sequence.frames[149].load_bgr()
    assert late.shape == (540, 960, 3)
    assert 0 < np.abs(late.astype(float) - early).mean() < 40
