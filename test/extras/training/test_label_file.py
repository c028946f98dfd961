import json

import cv2
import numpy as np
import pytest
from full_disk import full_disk
from made_up_labels import NAMES, PERSON, SIGN, VEHICLE, found, job, known, log_of
from read_sequences import boxes_of, classes_of, crowd_of, object_counts

from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.training.label_file import write_labels
from deadline_perception.extras.training.label_log import SeenImage
from deadline_perception.extras.training.labelling import Judgement, LabellingError
from deadline_perception.extras.training.score_thresholds import ScoreThreshold

HALF = ScoreThreshold(0.5)


def a_job(folder, number, *given):
    """Of an image file."""
    name = f'{"ab"[number]}.png'
    cv2.imwrite(str(folder / name), np.full((60, 90, 3), 90, np.uint8))
    return job(number, *given, name)


def seen(*boxes):
    return SeenImage((90, 60), (found(*boxes),))


def written(folder, log, jobs, **thresholds):
    """Counts of the labels of these thresholds by class, written into the folder."""
    known_to = {NAMES.index(name): threshold for name, threshold in thresholds.items()}
    judgement = Judgement(np.ones((1, 3)), known_to)
    return write_labels(log, jobs, judgement, NAMES, folder / 'labels.json')


def test_the_file_has_known_boxes_as_they_are_and_new_ones_with_their_scores(tmp_path):
    objects = known([1, 2, 11, 22, VEHICLE, 0], [30, 2, 40, 22, VEHICLE, 1])
    jobs = [a_job(tmp_path, 0, objects, [VEHICLE]), a_job(tmp_path, 1, known(), [VEHICLE])]
    new = [50, 10, 60, 30, 0.9, PERSON]
    old = [1, 2, 11, 22, 0.9, VEHICLE]
    log = log_of(tmp_path, seen(new, old, [70, 10, 80, 30, 0.3, PERSON]), seen())
    counts = written(tmp_path, log, jobs, person=HALF, vehicle=HALF)
    assert (counts.images, counts.empty, counts.unreadable) == (2, 1, {})
    assert (counts.kept['vehicle'], counts.added['person'], counts.unsure['person']) == (2, 1, 1)
    content = json.loads((tmp_path / 'labels.json').read_text())
    # nobody knows of signs
    assert [row['name'] for row in content['categories']] == ['vehicle', 'person']
    assert [row.get('score') for row in content['annotations']] == [None, None, 0.9, 0.3]
    sequence = read_coco(tmp_path / 'labels.json')
    expected = [[1, 2, 11, 22], [30, 2, 40, 22], [50, 10, 60, 30], [70, 10, 80, 30]]
    np.testing.assert_allclose(boxes_of(sequence), expected)
    assert classes_of(sequence) == ['vehicle', 'vehicle', 'person', 'person']
    assert crowd_of(sequence) == [False, True, False, True]
    assert object_counts(sequence) == [4, 0]
    expected = ['a.png', 'b.png', 'labels.json', 'labels.json.partial']
    assert sorted(file.name for file in tmp_path.iterdir()) == expected


def test_a_class_that_only_some_images_mark_and_no_teacher_knows_is_left_out_and_counted(tmp_path):
    objects = known([1, 2, 11, 22, SIGN, 0])
    jobs = [a_job(tmp_path, 0, objects, [SIGN]), a_job(tmp_path, 1, None, [])]
    log = log_of(tmp_path, *[seen([50, 10, 60, 30, 0.9, PERSON])] * 2)
    assert written(tmp_path, log, jobs, person=HALF).dropped == {'sign': 1}
    assert read_coco(tmp_path / 'labels.json').class_names == ('person',)


@pytest.mark.parametrize(
    'threshold, words',
    [
        (HALF, 'none of 1 images can be read, the first is frame1'),
        (ScoreThreshold(None), 'none of vehicle, person, sign is marked or can be'),
    ],
)
def test_no_readable_image_and_no_class_leave_the_file_before(tmp_path, threshold, words):
    out = tmp_path / 'labels.json'
    out.write_text('before')
    log = log_of(tmp_path, SeenImage((0, 0), (), 'b.png cannot be decoded'))
    with pytest.raises(LabellingError, match=words):
        written(tmp_path, log, [job(1, name='b.png')], person=threshold)
    assert out.read_text() == 'before' and len(list(tmp_path.iterdir())) == 2


def test_a_full_disk_is_named_and_the_log_goes_on(tmp_path):
    image = seen(*[[50, 10, 60, 30, 0.9, PERSON]] * 9)
    log = log_of(tmp_path, image)
    out = tmp_path / 'labels.json'
    for write, file in (
        (lambda: log.add(image), log.file),
        (lambda: written(tmp_path, log, [job(0, name='a.png')], person=HALF), out),
    ):
        with full_disk(100), pytest.raises(OSError, match='File too large') as told:
            write()
        assert told.value.filename == str(file)
    log.close()
    assert log_of(tmp_path).count >= 1 and not out.exists()
