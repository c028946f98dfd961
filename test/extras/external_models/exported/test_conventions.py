import re
from dataclasses import replace

import numpy as np
import pytest

from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.exported.conventions import (
    Conventions,
    confidence,
    implausible,
    label_lists,
    search,
)
from deadline_perception.extras.external_models.exported.head import Head, Objects
from deadline_perception.extras.external_models.exported.pixels import (
    CHANNELS,
    RANGES,
    RESIZES,
    InputForm,
)

SIZE = (64, 96)


def objects(boxes: list, scores: list, labels: list | None = None) -> Objects:
    return Objects(
        np.float32(boxes).reshape(-1, 4), np.float32(scores), np.int64(labels or [0] * len(scores))
    )


def test_a_numbering_with_gaps_and_boxes_that_cannot_be_any():
    plain, gaps, after_background, *_ = label_lists(COCO_NAMES)
    assert (len(plain), len(gaps), len(after_background)) == (80, 90, 91)
    # Lin et al. 2014: 1 person, 10 traffic light, 13 stop sign, 90 toothbrush; nothing has the number 12.
    expected = [None, 'person', 'traffic light', None, 'stop sign', 'toothbrush']
    assert [after_background[number] for number in (0, 1, 10, 12, 13, 90)] == expected
    assert gaps[0] == 'person' and tuple(name for name in gaps if name) == COCO_NAMES
    sure = objects([[10, 10, 40, 40], [20, 20, 60, 60]], [0.9, 0.5])
    none = objects([[10, 10, 40, 40], [0, 0, 0.1, 0.1]], [0.9, 0.5])
    for images, value in (([sure], 1.4), ([none], 0.4), ([sure, objects([], [])], 0.7)):
        assert confidence(images, SIZE) == pytest.approx(value)


@pytest.mark.parametrize(
    'truth',
    [
        ('stretch', 'bgr', '0 to 255'),
        ('letterbox', 'rgb', '0 to 1'),
        ('letterbox-corner', 'bgr', 'ImageNet'),
    ],
)
def test_the_search_finds_the_form_that_is_best_in_every_respect(truth):
    wanted = InputForm.of_range(SIZE, *truth)
    right, wrong = (
        Head(name, None, lambda values, name=name: (name, values)) for name in ('right', 'wrong')
    )
    asked = []

    def run(form: InputForm, number: int) -> list:
        asked.append((form, number))
        return [form]

    def evaluate(conventions: Conventions, found: list) -> float:
        form = found[0][1][0]
        ranges = [(form.mean[::step], form.deviation[::step]) for step in (1, -1)]
        value = 0.2 + 0.5 * ((wanted.mean, wanted.deviation) in ranges)
        value += 0.1 * (form.channels == wanted.channels) + 0.1 * (form.resize == wanted.resize)
        return value * (1.0 if conventions.head.name == 'right' else 0.3)

    start = InputForm.of_range(SIZE, 'stretch', 'rgb', '0 to 1')
    best, trials = search(run, start, [(wrong, ('car',)), (right, ('car',))], evaluate, 20)
    assert best.conventions.form == wanted and best.conventions.head is right
    assert trials[0].value == best.value
    assert best.conventions.words == f'{truth[1]}, {truth[2]}, {truth[0]}, right'
    forms = {form for form, number in asked if number == 19}
    assert len(forms) < len(RESIZES) * len(CHANNELS) * len(RANGES) / 2, (
        'most forms need not be tried'
    )


@pytest.mark.parametrize('gain, resize', [(1.04, 'stretch'), (1.1, 'letterbox')])
def test_what_is_usual_stays_where_another_gains_next_to_nothing(gain, resize):
    usual = InputForm.of_range(SIZE, 'stretch', 'rgb', '0 to 1')

    def evaluate(conventions: Conventions, found: list) -> float:
        return 0.5 * (gain if conventions.form.resize == 'letterbox' else 1.0)

    heads = [(Head('any', None, lambda values: values), ('car',))]
    best, _ = search(lambda form, number: [], usual, heads, evaluate, 2)
    assert best.conventions.form == replace(usual, resize=resize)


@pytest.mark.parametrize(
    'boxes, scores, said',
    [
        ([[10, 10, 40, 40]], [1.5], r'scores lie in \[1.5, 1.5\]'),
        ([[10, 10, 40, np.nan]], [0.5], 'NaN or infinity'),
        ([[500, 500, 900, 900]] * 3, [0.9] * 3, 'outside the image'),
        ([[10, 10, 40, 40]] * 40, [0.9] * 40, 'one spot'),
        ([[1, 1, 1.5, 1.5]] * 3, [0.9] * 3, 'no extent'),
    ],
)
def test_boxes_that_show_a_wrong_reading_whatever_the_images_hold(boxes, scores, said):
    assert re.search(said, implausible([objects(boxes, scores)], SIZE))
