"""Pictures belong to their frames, are spread over the run and show misses."""

from dataclasses import replace

import numpy as np
from made_up_labels import known
from recorded_run import NAMES, SECOND_NS, START_NS, RunWriter

from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.report.gallery import images_of
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
