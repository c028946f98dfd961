"""What an answer gives to a program."""

from typing import Any

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.runtime.answer import Answer

NO_RECORD: Any = None


def _answer(result: Detections | None) -> Answer:
    return Answer(result, ('car', 'person'), NO_RECORD)


def test_objects_come_one_by_one_with_class_score_and_box() -> None:
    boxes = np.array([[0, 1, 2, 3], [4, 5, 6, 7]], np.float32)
    answer = _answer(Detections(boxes, np.array([0.75, 0.5]), np.array([1, 0])))
    assert len(answer) == 2
    assert answer.labels.tolist() == [1, 0]
    found = [(each.name, each.score, each.box_xyxy_px.tolist()) for each in answer]
    assert found == [('person', 0.75, [0, 1, 2, 3]), ('car', 0.5, [4, 5, 6, 7])]


def test_an_answer_without_objects_is_true_and_empty() -> None:
    answer = _answer(None)
    assert answer
    assert len(answer) == 0
    assert list(answer) == []
    assert answer.labels.dtype == np.int64
