import json
import resource
import signal

import cv2
import numpy as np
import pytest
from made_up_labels import NAMES, PERSON, SIGN, VEHICLE, found, job, known, log_of

from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.training.label_file import write_labels
from deadline_perception.extras.training.label_log import SeenImage
from deadline_perception.extras.training.labelling import Judgement, LabellingError
from deadline_perception.extras.training.score_thresholds import ScoreThreshold

HALF = ScoreThreshold(0.5)


def image_file(folder, name):
    cv2.imwrite(str(folder / name), np.full((60, 90, 3), 90, np.uint8))
    return name


ONE = np.ones((1, 3))


def test_the_file_has_known_boxes_as_they_are_and_new_ones_with_their_scores(tmp_path):
    jobs = [
        job(
            0,
            known([1, 2, 11, 22, VEHICLE, 0], [30, 2, 40, 22, VEHICLE, 1]),
            [VEHICLE],
            image_file(tmp_path, 'a.png'),
        ),
        job(1, known(), [VEHICLE], image_file(tmp_path, 'b.png')),
    ]
    log = log_of(
        tmp_path,
        SeenImage(
            (90, 60),
            (
                found(
                    [50, 10, 60, 30, 0.9, PERSON],
                    [1, 2, 11, 22, 0.9, VEHICLE],
                    [70, 10, 80, 30, 0.3, PERSON],
                ),
            ),
        ),
        SeenImage((90, 60), (found(),)),
    )
    counts = write_labels(
        log, jobs, Judgement(ONE, {PERSON: HALF, VEHICLE: HALF}), NAMES, tmp_path / 'labels.json'
    )
    assert (counts.images, counts.empty, counts.unreadable) == (2, 1, {})
    assert (counts.kept['vehicle'], counts.added['person'], counts.unsure['person']) == (2, 1, 1)
    content = json.loads((tmp_path / 'labels.json').read_text())
    # nobody knows of signs
    assert [row['name'] for row in content['categories']] == ['vehicle', 'person']
    assert [row.get('score') for row in content['annotations']] == [None, None, 0.9, 0.3]
    sequence = read_coco(tmp_path / 'labels.json')
    first, second = (frame.ground_truth for frame in sequence.frames)
    np.testing.assert_allclose(
        first.boxes_xyxy_px, [[1, 2, 11, 22], [30, 2, 40, 22], [50, 10, 60, 30], [70, 10, 80, 30]]
    )
    assert first.labels.tolist() == [0, 0, 1, 1]
    assert first.crowd.tolist() == [False, True, False, True]
    assert len(second) == 0
    expected = ['a.png', 'b.png', 'labels.json', 'labels.json.partial']
    assert sorted(file.name for file in tmp_path.iterdir()) == expected


def test_a_class_that_only_some_images_mark_and_no_teacher_knows_is_left_out_and_counted(tmp_path):
    jobs = [
        job(0, known([1, 2, 11, 22, SIGN, 0]), [SIGN], image_file(tmp_path, 'a.png')),
        job(1, None, [], image_file(tmp_path, 'b.png')),
    ]
    log = log_of(tmp_path, *[SeenImage((90, 60), (found([50, 10, 60, 30, 0.9, PERSON]),))] * 2)
    counts = write_labels(
        log, jobs, Judgement(ONE, {PERSON: HALF}), NAMES, tmp_path / 'labels.json'
    )
    assert counts.dropped == {'sign': 1}
    assert read_coco(tmp_path / 'labels.json').class_names == ('person',)


def test_no_readable_image_and_no_class_are_refused_and_leave_the_file_before(tmp_path):
    out = tmp_path / 'labels.json'
    out.write_text('before')
    log = log_of(tmp_path, SeenImage((0, 0), (), 'b.png cannot be decoded'))
    with pytest.raises(LabellingError, match='none of 1 images can be read, the first is frame1'):
        write_labels(log, [job(1, name='b.png')], Judgement(ONE, {PERSON: HALF}), NAMES, out)
    with pytest.raises(LabellingError, match='none of vehicle, person, sign is marked or can be'):
        write_labels(
            log, [job(1, name='b.png')], Judgement(ONE, {PERSON: ScoreThreshold(None)}), NAMES, out
        )
    assert out.read_text() == 'before' and len(list(tmp_path.iterdir())) == 2


def test_a_full_disk_is_named_and_the_log_goes_on(tmp_path):
    jobs, seen = (
        [job(0, name='a.png')],
        SeenImage((90, 60), (found(*[[50, 10, 60, 30, 0.9, PERSON]] * 9),)),
    )
    log = log_of(tmp_path, seen)
    limits, handler = (
        resource.getrlimit(resource.RLIMIT_FSIZE),
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        for write, file in (
            (lambda: log.add(seen), log.file),
            (
                lambda: write_labels(
                    log, jobs, Judgement(ONE, {PERSON: HALF}), NAMES, tmp_path / 'labels.json'
                ),
                tmp_path / 'labels.json',
            ),
        ):
            with pytest.raises(OSError, match='File too large') as told:
                write()
            assert told.value.filename == str(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    log.close()
    assert log_of(tmp_path).count >= 1 and not (tmp_path / 'labels.json').exists()
