"""The README's picture can be drawn of what a demo leaves."""
from __future__ import annotations

import cv2
import numpy as np
from recorded_run import NAMES, SECOND_NS, write_drive

from deadline_perception.datasets.records import Frame, Sequence
from deadline_perception.evaluation.recorded_bag import read_recording


def test_picture_of_a_demo_is_small_and_not_empty(tmp_path, load_benchmark):
    write_drive(tmp_path / 'run', frames=60)
    source = Sequence('plain', NAMES, tuple(
        Frame(str(index), index * SECOND_NS // 10, lambda: np.full((380, 640, 3), 90, np.uint8)) for index in range(60)))
    picture = tmp_path / 'demo.png'
    load_benchmark('demo_picture').draw(read_recording(tmp_path / 'run'), source, picture)
    assert picture.stat().st_size < 200_000
    assert cv2.imread(str(picture))[:330, 60:].std() > 40  # frames on top, on white
