from __future__ import annotations

import numpy as np
import pytest

from deadline_perception.networks.external.coco_names import COCO_NAMES
from deadline_perception.networks.external.conventions import (confidence, implausible, label_lists,
                                                               possible_readings, search)
from deadline_perception.networks.external.head import Objects, Output
from deadline_perception.networks.external.pixels import InputForm

SIZE = (64, 96)
RIGHT = InputForm.of_range(SIZE, 'letterbox-corner', 'bgr', 'Caffe')


def objects(*rows: tuple[float, ...]) -> Objects:
    given = np.array(rows, np.float32).reshape(-1, 5)
    return Objects(given[:, :4], given[:, 4], np.zeros(len(given), np.int64))


def test_labels_of_coco_may_leave_gaps():
    plain, gaps, after_background, *_ = label_lists(COCO_NAMES)
    assert plain == COCO_NAMES and len(gaps) == 90 and len(after_background) == 91
    # Lin et al. 2014: 1 person, 13 stop sign (12 is none), 90 toothbrush.
    assert after_background[1] == 'person' and after_background[12] is None and after_background[13] == 'stop sign'
    assert gaps[89] == after_background[90] == 'toothbrush'
    assert label_lists(('a', 'b')) == [('a', 'b'), (None, 'a', 'b'), ('a', 'b', None)]


def test_the_right_form_and_reading_are_found():
    """The file gives an object as a fraction of its sides, the surer the nearer the form of its input is to its own."""
    def run(form: InputForm, _: int) -> list[np.ndarray]:
        wrong = sum((form.resize != RIGHT.resize, form.channels != RIGHT.channels, form.mean != RIGHT.mean))
        return [np.float32([[[0.25, 0.25, 0.5, 0.75, 0.9 - 0.2 * wrong, 1]]])]

    readings = possible_readings([Output('out', (1, 300, 6))], ('car', 'person'), SIZE)
    best, trials = search(run, InputForm.of_range(SIZE, 'letterbox', 'rgb', '0 to 1'), readings,
                          lambda _, found: confidence(found, SIZE), 3)
    assert best.conventions.form == RIGHT and best.conventions.head.name == 'detections fraction'
    assert best.value == pytest.approx(0.9) and trials[0] is best


def test_what_is_usual_stays_where_another_form_gains_nothing():
    start = InputForm.of_range(SIZE, 'letterbox', 'rgb', '0 to 1')
    readings = possible_readings([Output('out', (1, 300, 6))], ('car', 'person'), SIZE)
    best, _ = search(lambda form, _: [np.float32([[[8, 8, 40, 40, 0.8 + 0.005 * (form != start), 1]]])], start,
                     readings, lambda _, found: confidence(found, SIZE), 2)
    assert best.conventions.form == start and best.conventions.head.name == 'detections px'


def test_boxes_that_cannot_be_any_count_against_a_reading():
    assert confidence([objects((8, 8, 40, 40, 0.75)), objects()], SIZE) == pytest.approx(0.375)
    assert confidence([objects((8, 8, 400, 40, 0.75), (9, 9, 9, 9, 0.5))], SIZE) == pytest.approx(-1.25)


@pytest.mark.parametrize(('rows', 'said'), [
    ([(8, 8, 40, 40, 0.9)], ''), ([], ''), ([(8, 8, 40, 40, 7.5)], r'scores lie in [7.5, 7.5]'),
    ([(8, 8, np.nan, 40, 0.9)], 'NaN'), ([(800, 8, 900, 40, 0.9)], 'outside the image'),
    ([(8, 8, 40, 40, 0.9)] * 40, 'all boxes lie on one spot')])
def test_what_shows_that_boxes_are_read_wrongly(rows, said):
    assert said in implausible([objects(*rows)], SIZE) and bool(said) == bool(implausible([objects(*rows)], SIZE))
