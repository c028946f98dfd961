"""Pictures belong to their frames, are spread over the run and show misses."""
from __future__ import annotations

import base64

import cv2
import numpy as np
from recorded_run import NAMES, SECOND_NS

from deadline_perception.datasets.records import Frame, Sequence
from deadline_perception.evaluation.gallery import PICTURES, chosen_frames, gallery, images_of

START_NS = 1_700_000_000 * SECOND_NS


def test_images_are_matched_by_stamp_order_or_rhythm(drive, images):
    sent = drive.sent_stamps_ns
    shifted = images(90, START_NS - 3 * SECOND_NS)  # same stamps, from its 31st frame on
    assert images_of(drive, shifted)[sent[0]].name == '30'
    assert images_of(drive, images(60))[sent[5]].name == '5'  # moved in time, all of them sent
    assert images_of(drive, images(80, step_ns=SECOND_NS // 20))[sent[59]].name == '59'  # played at half the rate


def test_images_of_another_rhythm_are_not_matched(drive, images):
    frames = list(images(100).frames)
    source = Sequence('gap', NAMES, tuple(frames[:20] + frames[60:] + [
        Frame(f'x{index}', 20 * SECOND_NS + index, frames[0].load_bgr) for index in range(20)]))
    assert images_of(drive, source) == {}


def test_pictures_are_spread_and_show_misses(drive):
    missed = [frame for frame in drive.frames if not frame.in_time]
    chosen = chosen_frames(list(drive.frames))
    stamps = [frame.stamp_ns for frame in chosen]
    assert len(chosen) == PICTURES and stamps == sorted(set(stamps))
    assert sum(not frame.in_time for frame in chosen) == min(3, len(missed)) > 0
    assert len(chosen_frames(list(drive.frames)[:2])) == 2


def test_pictures_are_jpegs_of_their_frames(drive, images):
    pictures = gallery(drive, images(60), count=2)
    for picture in pictures:
        jpeg = base64.b64decode(picture.data_uri.removeprefix('data:image/jpeg;base64,'))
        image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
        assert image.shape[1] == 640 and image.shape[0] > 380  # the image and the strip below it
    assert len(pictures) == 2
