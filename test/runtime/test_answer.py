import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from deadline_perception.core.detections import Classification, Detections
from deadline_perception.runtime.answer import Answer
from deadline_perception.runtime.job import Conditions, Job, Outcome, StampReading

IMAGE = np.full((60, 80, 3), 90, np.uint8)
ONE = Detections([[0, 1, 2, 3]], [0.5], [0])
CLASSES = Classification(np.array([0.25, 0.75]))
TWO = Detections([[0, 1, 20.126, 31], [4, 5, 6, 7]], [0.75, 0.5], [1, 0], [7, 9])


def _answer(result, budget_ms=50.0, outcome=Outcome.COASTED):
    """One that came 12 ms after its image, without a path."""
    job = Job(SimpleNamespace(image_bgr=IMAGE), 1000.0, StampReading(0.0, '', 0))
    job.conditions = Conditions(budget_ms, 1.0, '')
    return Answer(result, ('car', 'person'), job.record(outcome, 1012.0))


def test_an_answer_without_objects_is_true_and_empty_and_a_late_result_is_told_as_a_miss():
    answer = _answer(None)
    assert answer and list(answer) == answer.to_coco() == []
    assert answer.labels.dtype == np.int64
    assert repr(_answer(ONE, 11.0, Outcome.DETECTED)).endswith('12.0 of 11 ms, detected, missed>')


def test_objects_come_one_by_one_with_the_ids_of_their_tracks_and_minus_one_without():
    answer = _answer(TWO)
    found = [(each.name, each.score, each.id) for each in answer]
    assert found == [('person', 0.75, 7), ('car', 0.5, 9)]
    assert [each.box_xyxy_px.tolist() for each in answer] == TWO.boxes_xyxy_px.tolist()
    assert (answer.labels.tolist(), answer.ids.tolist()) == ([1, 0], [7, 9])
    assert _answer(ONE).ids.tolist() == [-1]
    assert _answer(CLASSES).ids.shape == (0,)


def test_json_holds_all_of_it_and_null_where_there_is_no_number():
    content = json.loads(_answer(TWO, budget_ms=1e9).to_json())
    car = {'name': 'car', 'score': 0.5, 'box_xyxy_px': [4, 5, 6, 7], 'id': 9}
    assert content['objects'][1] == car
    assert (content['outcome'], content['in_time'], content['latency_ms']) == ('COASTED', False, 12)
    assert content['bound_ms'] is None and content['budget_ms'] is None  # none, no limit
    assert content['is_promised'] is False and content['reason']
    found = json.loads(_answer(CLASSES).to_json())
    assert found['classes'] == {'car': 0.25, 'person': 0.75} and found['objects'] == []


def test_coco_has_boxes_by_width_and_height_and_categories_from_one_on():
    first, second = _answer(TWO).to_coco(image_id=4)
    known = {'image_id': 4, 'category_id': 2, 'iscrowd': 0, 'score': 0.75, 'track_id': 7}
    assert first == {**known, 'bbox': [0.0, 1.0, 20.13, 30.0], 'area': 603.9}
    assert second['category_id'] == 1 and 'track_id' not in _answer(ONE).to_coco()[0]


def test_supervision_takes_boxes_scores_classes_names_and_ids_or_it_is_said_what_to_install(
    monkeypatch,
):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, 'supervision', None)
        with pytest.raises(ImportError, match='pip install supervision'):
            _answer(TWO).to_supervision()
    pytest.importorskip('supervision')
    found = _answer(TWO).to_supervision()
    np.testing.assert_array_equal(found.xyxy, TWO.boxes_xyxy_px)
    assert found.confidence.tolist() == [0.75, 0.5] and found.class_id.tolist() == [1, 0]
    assert found.tracker_id.tolist() == [7, 9] and found['class_name'].tolist() == ['person', 'car']
    assert _answer(ONE).to_supervision().tracker_id is None
    assert len(_answer(None).to_supervision()) == 0


def test_an_answer_is_drawn_on_its_own_image_or_another_one():
    drawn, other = _answer(TWO).draw(), _answer(TWO).draw(np.zeros_like(IMAGE))
    assert drawn.shape[0] > 60 and drawn.shape[1:] == (80, 3)
    assert drawn[59, 79].tolist() == [90, 90, 90] and other[59, 79].tolist() == [0, 0, 0]
    assert (drawn[:60] != IMAGE).any() and (IMAGE == 90).all()
