"""Videos of images, whose frames come at an even rate or at any times."""

import struct
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np


def write_video(file: Path, images: Sequence[np.ndarray], rate_hz=20.0, code='MJPG') -> Path:
    """Images uint8 `[H, W, 3]` at an even rate."""
    height, width = images[0].shape[:2]
    kind = cv2.VideoWriter_fourcc(*code)
    writer = cv2.VideoWriter(str(file), kind, rate_hz, (width, height))
    for image in images:
        writer.write(image)
    writer.release()
    return file


def matroska(file: Path, times_ms: Sequence[int]) -> Path:
    """MJPEG images at any times, without a stated frame rate, as browsers and phones write it."""

    def part(number, content):
        return bytes.fromhex(number) + (1 << 56 | len(content)).to_bytes(8, 'big') + content

    def whole(value):
        return value.to_bytes(max(1, (value.bit_length() + 7) // 8), 'big')

    head = part(
        '1A45DFA3',
        part('4286', whole(1)) + part('42F7', whole(1)) + part('42F2', whole(4))
        + part('42F3', whole(8)) + part('4282', b'matroska') + part('4287', whole(2))
        + part('4285', whole(2)),
    )  # fmt: skip
    length = struct.pack('>d', times_ms[-1] + 33.0)
    facts = part('1549A966', part('2AD7B1', whole(10**6)) + part('4489', length)
                 + part('4D80', b'x') + part('5741', b'x'))  # fmt: skip
    size = part('E0', part('B0', whole(96)) + part('BA', whole(64)))
    track = part('1654AE6B', part('AE', part('D7', whole(1)) + part('73C5', whole(1))
                                  + part('83', whole(1)) + part('86', b'V_MJPEG') + size))  # fmt: skip
    clusters = b''
    for number, time_ms in enumerate(times_ms):
        image = cv2.imencode('.jpg', np.full((64, 96, 3), 2 * number + 1, np.uint8))[1].tobytes()
        block = part('A3', b'\x81\0\0\x80' + image)
        clusters += part('1F43B675', part('E7', whole(time_ms)) + block)
    file.write_bytes(head + part('18538067', facts + track + clusters))
    return file
