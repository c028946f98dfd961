from __future__ import annotations

import numpy as np
import pytest

from deadline_perception.model_set.onnx_outputs import MAX_OBJECTS, Output, OutputForm, objects, recognise, suppressed
from deadline_perception.model_set.whole_detector import ModelError


def form(classes: int, *shapes, stated: str = '') -> str:
    return recognise([Output(f'output{at}', shape) for at, shape in enumerate(shapes)], classes, stated).form


def test_heads_are_recognised_by_their_shape():
    assert recognise([Output('output0', (1, 84, 8400))], 80) == OutputForm('yolov8', (0,), by_rows=False)
    assert recognise([Output('output0', (1, 25200, 85))], 80) == OutputForm('yolov5', (0,))
    assert form(80, (1, 8400, 84)) == 'yolov8' and form(80, (1, 300, 6)) == 'detections'
    assert form(80, (1, 84, None)) == 'yolov8' and form(2, (1, 6, 8400)) == 'yolov8'
    # Of a segmentation or an older export, the further outputs are left alone.
    assert recognise([Output('maps', (1, 3, 80, 80, 85)), Output('output', (1, 25200, 85))], 80).places == (1,)


def test_separate_outputs_are_recognised_by_name_or_by_shape_and_type():
    named = [Output('labels', (None,), True), Output('scores', (None,)), Output('boxes', (None, 4))]
    assert recognise(named, 90) == OutputForm('boxes', (2, 1, 0))
    unnamed = [Output('1770', (1, 100, 4)), Output('1771', (1, 100), True), Output('1772', (1, 100))]
    assert recognise(unnamed, 90) == OutputForm('boxes', (0, 2, 1))


def test_unknown_outputs_are_refused_with_what_would_fit():
    with pytest.raises(ModelError, match=r'output0 \[1, 84, 8400\]: with 5 classes expected \[1, 9, N\].*79 or 80 '
                                         r'classes'):
        form(5, (1, 84, 8400))
    with pytest.raises(ModelError, match=r'heatmap \[1, 80, 96, 160\]'):
        recognise([Output('heatmap', (1, 80, 96, 160))], 80)
    with pytest.raises(ModelError, match='may be yolov5 or detections: state which, with --outputs'):
        form(1, (1, 300, 6))
    assert form(1, (1, 300, 6), stated='detections') == 'detections'
    with pytest.raises(ModelError, match=r"stated as 'ssd', expected one of yolov8"):
        form(1, (1, 300, 6), stated='ssd')
    with pytest.raises(ModelError, match=r'expected \[1, N, 10\] \(YOLOv5, v7\)'):
        form(5, (1, 9, 8400), stated='yolov5')


def test_a_head_worked_out_by_hand():
    # Two boxes of one object and class, one of another class on the same place, and one below the least score.
    columns = np.array([[20.0, 21.0, 20.0, 60.0], [20.0, 20.0, 20.0, 60.0], [10.0] * 4, [20.0] * 4,
                        [0.9, 0.8, 0.0, 0.001], [0.1, 0.2, 0.7, 0.002]], np.float32)
    boxes, scores, labels = objects(OutputForm('yolov8', (0,), by_rows=False), [columns[None]])
    assert scores.tolist() == pytest.approx([0.9, 0.7]) and labels.tolist() == [0, 1]
    assert boxes.tolist() == [[15.0, 10.0, 25.0, 30.0]] * 2
    rows = np.array([[[20.0, 20.0, 10.0, 20.0, 0.5, 0.2, 0.8], [50.0, 50.0, 8.0, 8.0, 0.001, 1.0, 1.0]]], np.float32)
    boxes, scores, labels = objects(OutputForm('yolov5', (0,)), [rows])
    assert boxes.tolist() == [[15.0, 10.0, 25.0, 30.0]] and labels.tolist() == [1]
    assert scores.tolist() == pytest.approx([0.4])
    rows = np.array([[[1.0, 2.0, 3.0, 4.0, 0.6, 7.0], [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]]], np.float32)
    boxes, scores, labels = objects(OutputForm('detections', (0,)), [rows])
    assert boxes.tolist() == [[1.0, 2.0, 3.0, 4.0]] and labels.tolist() == [7.0]


def test_separate_outputs_of_different_length_are_refused():
    with pytest.raises(ModelError, match='gave 2 boxes, 1 scores and 2 labels'):
        objects(OutputForm('boxes', (0, 1, 2)), [np.zeros((1, 2, 4)), np.zeros((1, 1)), np.zeros((1, 2))])


def test_suppression_keeps_a_limited_number_and_nothing_of_nothing():
    assert suppressed(np.zeros((0, 4)), np.zeros(0), np.zeros(0)).tolist() == []
    many = np.arange(500)[:, None] * 10.0 + np.array([0.0, 0.0, 5.0, 5.0])
    kept = suppressed(many, np.linspace(0.1, 0.9, 500), np.zeros(500))
    assert kept.tolist() == list(range(499, 499 - MAX_OBJECTS, -1))
