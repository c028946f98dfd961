from functools import partial

import cv2
import numpy as np
import pytest
from invented_networks import InventedRun, make_single
from made_up_labels import PERSON, SIGN, VEHICLE, found, known, log_of
from plain_images import grey

from deadline_perception.core.images.image_file import load_image
from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.training.labelling import (
    LabelJob,
    LabellingError,
    Teacher,
    new_boxes,
    see_all,
)
from deadline_perception.extras.training.score_thresholds import ScoreThreshold

HALF = ScoreThreshold(0.5)


LEFT, NEXT, MORE = [0, 0, 9, 9], [20, 0, 29, 9], [40, 0, 49, 9]
LARGE, HIGH = [0, 0, 100, 98], [0, 0, 100, 40]
BOTH = [[*LARGE, 0.9, 1], [*HIGH, 0.9, 1]]


@pytest.mark.parametrize(
    'boxes, marked, classes, added',
    [
        # Sure, sure, unsure (True), and too unsure, at a threshold of 0.5.
        (
            [[*LEFT, 0.8, 1], [*NEXT, 0.5, 1], [*MORE, 0.3, 1], [60, 0, 69, 9, 0.15, 1]],
            None,
            (),
            [(LEFT, False), (NEXT, False), (MORE, True)],
        ),
        # A class that is marked, one with a threshold, and one without.
        ([[*LEFT, 0.9, VEHICLE], [*NEXT, 0.9, PERSON], [*MORE, 0.9, 3]], [], (0,), [(NEXT, False)]),
        # On a known object of another class lies that object, on a crowd of it anything may.
        (BOTH, [[0, 0, 100, 100, 0, 0]], (0,), [(HIGH, False)]),
        (BOTH, [[0, 0, 100, 100, 0, 1]], (0,), [(LARGE, False), (HIGH, False)]),
        # Less than a pixel is no object; one object seen as two classes is the likelier.
        ([[90, 0, 90, 50, 0.9, 1], [*LEFT, 0.8, 1]], None, (), [(LEFT, False)]),
        ([[*LARGE, 0.9, PERSON], [0, 0, 100, 95, 0.7, SIGN]], None, (), [(LARGE, False)]),
    ],
)
def test_what_is_added_to_the_known_objects_of_an_image(boxes, marked, classes, added):
    thresholds = {VEHICLE: HALF, PERSON: HALF, SIGN: HALF}
    objects = None if marked is None else known(*marked)
    new, unsure = new_boxes(found(*boxes), objects, frozenset(classes), thresholds)
    assert list(zip(new.boxes_xyxy_px.tolist(), unsure.tolist())) == added
    nothing, _ = new_boxes(found(*boxes), None, frozenset(), {PERSON: ScoreThreshold(None)})
    assert len(nothing) == 0


def test_data_that_vanish_end_the_run_and_it_goes_on_once_they_are_back(tmp_path, monkeypatch):
    """Otherwise the labels of all images would be overwritten by those of the few that were still there."""
    monkeypatch.setattr(InventedRun, 'result', lambda run: found())
    folder = tmp_path / 'images'
    folder.mkdir()
    files = [folder / f'{number:02d}.png' for number in range(16)]
    for file in files:
        cv2.imwrite(str(file), grey(60, 90))
    jobs = [
        LabelJob(Frame(file.name, number, partial(load_image, file)), frozenset(), file.name)
        for number, file in enumerate(files)
    ]
    files[1].rename(tmp_path / '01.png')  # one that is missed alone
    teachers, log = [Teacher('one', make_single(), np.array([-1, PERSON]))], log_of(tmp_path)

    def vanish(done, *_):
        if done == 3:
            folder.rename(tmp_path / 'away')

    with pytest.raises(LabellingError, match='11 images in a row cannot be opened, .*13.png'):
        see_all(log, jobs, teachers, report=vanish)
    assert log.count == 3
    (tmp_path / 'away').rename(folder)
    assert see_all(log, jobs, teachers, report=lambda *_: None)
    assert ['No such file' in seen.unreadable for seen in log] == [False, True, *[False] * 14]
    folder.rename(tmp_path / 'away')
    log.file.unlink()
    with pytest.raises(LabellingError, match='1 images in a row cannot be opened'):
        see_all(log_of(tmp_path), jobs[:1], teachers, report=lambda *_: None)
