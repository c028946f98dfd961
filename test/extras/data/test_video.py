import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from timed_videos import matroska

from deadline_perception.extras.data import video
from deadline_perception.extras.data.video import read_video


def test_the_name_may_have_a_colon(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matroska(Path('2026-01-01T12:30:00.mkv'), [0, 100, 200])
    assert len(read_video(Path('2026-01-01T12:30:00.mkv')).frames) == 3


def test_refuses_what_is_no_video_or_has_too_many_pixels(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match='expected a video file'):
        read_video(tmp_path / 'none.mp4')
    (tmp_path / 'text.mp4').write_text('no pixels here')
    with pytest.raises(ValueError, match='cannot be opened'):
        read_video(tmp_path / 'text.mp4')
    monkeypatch.setattr(video, 'MOST_PX', 1000)
    with pytest.raises(ValueError, match='is 96 x 64 px, expected at most 1000 px'):
        read_video(matroska(tmp_path / 'a.mkv', [0, 33]))


def uncompressed_avi(file, images, upside_down, cut=0):
    """24 bits a pixel, rows filled up to four bytes; by code, as OpenCV's writer makes no such file."""

    def part(kind, content):
        return kind + struct.pack('<I', len(content)) + content + bytes(len(content) % 2)

    height, width = images[0].shape[:2]
    filled = -(-3 * width // 4) * 4
    rows = [
        np.pad(image.reshape(height, -1), ((0, 0), (0, filled - 3 * width))) for image in images
    ]
    frames = [part(b'00db', (one[::-1] if upside_down else one).tobytes()) for one in rows]
    main = struct.pack('<14I', 100_000, 0, 0, 0, len(images), 0, 1, 0, width, height, *[0] * 4)
    facts = 0, 0, 0, 0, 1, 10, 0, len(images), 0, -1, 0, 0, 0, width, height
    stream = b'vids' + bytes(4) + struct.pack('<IHHIIIIIIiIHHHH', *facts)
    of_image = 40, width, height if upside_down else -height, 1, 24, *[0] * 6
    listed = part(b'strh', stream) + part(b'strf', struct.pack('<IiiHHIIiiII', *of_image))
    head = part(b'avih', main) + part(b'LIST', b'strl' + listed)
    body = part(b'LIST', b'hdrl' + head) + part(b'LIST', b'movi' + b''.join(frames))
    file.write_bytes(part(b'RIFF', b'AVI ' + body)[: -cut or None])
    return file


@pytest.mark.parametrize('upside_down', [True, False])
@pytest.mark.parametrize('width', [64, 63])
def test_uncompressed_frames_are_read_whichever_row_comes_first(tmp_path, upside_down, width):
    # In a process of its own: OpenCV writes beyond its memory where rows lie upside down.
    images = np.random.default_rng(0).integers(0, 256, (40, 48, width, 3), np.uint8)
    file = uncompressed_avi(tmp_path / 'a.avi', images, upside_down)
    code = (
        'import sys, numpy as np; from deadline_perception.extras.data.video import read_video;'
        'frames = read_video(sys.argv[1]).frames;'
        'np.save(sys.argv[2], [frame.load_bgr() for frame in (*frames, frames[3], frames[38])])'
    )
    subprocess.run([sys.executable, '-c', code, file, tmp_path / 'read.npy'], check=True)
    assert (np.load(tmp_path / 'read.npy') == images[[*range(40), 3, 38]]).all()


def test_an_uncompressed_video_that_was_cut_lacks_its_last_frame(tmp_path):
    images = np.zeros((5, 48, 64, 3), np.uint8)
    file = uncompressed_avi(tmp_path / 'a.avi', images, upside_down=True, cut=5000)
    with pytest.warns(UserWarning, match='is cut off: 4 of its 5 frames are read'):
        assert len(read_video(file).frames) == 4
    file = uncompressed_avi(tmp_path / 'b.avi', images[:1], upside_down=True, cut=5000)
    with pytest.raises(ValueError, match='holds no frame that can be decoded'):
        read_video(file)


CHANCE = np.random.default_rng(0)
RATES = {
    'constant': [round(n * 1000 / 30) for n in range(100)],
    'jitter': [0] + [round(n * 1000 / 30) + int(CHANCE.integers(-8, 8)) for n in range(1, 100)],
    'phone': [0] + np.cumsum(CHANCE.choice([33, 34, 50, 100], 99)).tolist(),
    'slower in the dark': [n * 33 for n in range(50)] + [1650 + n * 200 for n in range(50)],
    'a pause': [n * 33 for n in range(50)] + [60_000 + n * 33 for n in range(50)],
    'one frame': [0],
}


@pytest.mark.parametrize('times_ms', RATES.values(), ids=RATES)
def test_stamps_are_those_of_the_container_and_frames_are_found_by_them(tmp_path, times_ms):
    sequence = read_video(matroska(tmp_path / 'a.mkv', times_ms))
    assert [round(frame.stamp_ns / 1e6) for frame in sequence.frames] == times_ms
    for index in CHANCE.permutation(len(times_ms))[:30].tolist() + [0, len(times_ms) - 1]:
        shade = sequence.frames[index].load_bgr().mean()
        assert shade == pytest.approx(2 * index + 1, abs=0.6), index


def test_frames_whose_time_is_not_later_are_left_out(tmp_path):
    times_ms = [n * 33 for n in range(60)]
    times_ms[20] = times_ms[19]
    sequence = read_video(matroska(tmp_path / 'a.mkv', times_ms))
    assert len(sequence.frames) == 59
    assert [int(sequence.frames[n].load_bgr().mean()) for n in (45, 19, 20)] == [93, 39, 43]
