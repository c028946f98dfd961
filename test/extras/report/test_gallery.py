"""Pictures belong to their frames, are spread over the run and show misses."""

import base64
from dataclasses import replace

import cv2
import numpy as np
from made_up_labels import known
from plain_images import grey
from recorded_run import NAMES, SECOND_NS, START_NS, RunWriter

from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.report import gallery as gallery_module
from deadline_perception.extras.report.gallery import (
    PICTURES,
    chosen_frames,
    frame_pictures,
    gallery,
    images_of,
)
from deadline_perception.extras.report.recorded_bag import read_recording


def test_images_are_matched_by_stamp_order_or_rhythm(drive, images):
    sent = drive.sent_stamps_ns
    shifted = images(90, START_NS - 3 * SECOND_NS)  # same stamps, from its 31st frame on
    assert images_of(drive, shifted)[sent[0]].name == '30'
    assert images_of(drive, images(60))[sent[5]].name == '5'  # moved in time, all of them sent
    # an even rhythm fits anywhere
    assert images_of(drive, images(80, step_ns=SECOND_NS // 20)) == {}


def test_a_stretch_is_found_by_its_rhythm(recorded, images):
    gaps = np.random.default_rng(0).integers(20, 400, 40) * (SECOND_NS // 1000)
    stamps = np.cumsum(gaps).tolist()
    frames = [
        replace(frame, stamp_ns=stamp_ns) for frame, stamp_ns in zip(images(40).frames, stamps)
    ]
    source = Sequence('uneven', NAMES, tuple(frames))
    # at half the rate
    played = recorded(*({'stamp_ns': START_NS + 2 * stamp_ns} for stamp_ns in stamps[3:30]))
    names = [frame.name for frame in images_of(played, source).values()]
    assert names == [str(index) for index in range(3, 30)]


def test_known_objects_tell_where_an_even_rhythm_begins(tmp_path, images):
    boxes = [[10 * index, 5, 10 * index + 40, 60] for index in range(40)]
    frames = [
        replace(frame, ground_truth=known([*box, 0, 0]))
        for frame, box in zip(images(40).frames, boxes)
    ]
    source = Sequence('even', NAMES, tuple(frames))
    with RunWriter(tmp_path / 'run') as run:
        for index in range(3, 30):
            stamp_ns = START_NS + index * SECOND_NS // 10
            run.latency(stamp_ns)
            run.boxes('/ground_truth', stamp_ns, [(boxes[index], 'vehicle', 1.0)])
    found = images_of(read_recording(tmp_path / 'run'), source)
    assert [frame.name for frame in found.values()] == [str(index) for index in range(3, 30)]


def test_pictures_are_spread_and_show_misses(drive):
    missed = [frame for frame in drive.frames if not frame.in_time]
    chosen = chosen_frames(list(drive.frames))
    stamps = [frame.stamp_ns for frame in chosen]
    assert len(chosen) == PICTURES and stamps == sorted(set(stamps))
    assert sum(not frame.in_time for frame in chosen) == min(3, len(missed)) > 0
    assert len(chosen_frames(list(drive.frames)[:2])) == 2


def test_pictures_are_jpegs_of_their_frames(drive, images):
    pictures = gallery(drive, images(60))
    assert len(pictures) == PICTURES
    for picture in pictures:
        jpeg = base64.b64decode(picture.data_uri.removeprefix('data:image/jpeg;base64,'))
        image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
        assert image.shape[1] == 640 and image.shape[0] > 380  # the image and the strip below it


def test_clicks_have_pictures_up_to_a_limit_with_misses(drive, images, monkeypatch):
    assert set(frame_pictures(drive, images(60))) == {frame.stamp_ns for frame in drive.frames}
    monkeypatch.setattr(gallery_module, 'CLICKED', 10)
    kept = frame_pictures(drive, images(60))
    missed = [frame.stamp_ns for frame in drive.frames if not frame.in_time]
    assert len(kept) == 10 and sum(stamp in kept for stamp in missed) >= min(5, len(missed))


def test_known_objects_are_dashed():
    picture = grey(380, 640, 100)
    gallery_module.dash(picture, np.array([(100, 100, 300, 200)], np.float32))
    edge = (picture[100:200, 100] == 255).all(axis=1)
    assert edge.any() and not edge.all()
    assert (picture[:, 350:] == 100).all()
