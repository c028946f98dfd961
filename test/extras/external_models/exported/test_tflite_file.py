"""The decoding that takes the place of `TFLite_Detection_PostProcess`."""

from types import SimpleNamespace

import numpy as np
import openvino
import pytest

from deadline_perception.engines.openvino_library import openvino_core
from deadline_perception.extras.external_models.exported.tflite_file import _with_decoding


@pytest.mark.parametrize(
    'columns', [4, 3]
)  # of SSD with a background before its classes, of EfficientDet without
def test_scores_are_those_of_the_classes_and_boxes_are_corners(columns):
    ops = openvino.opset13
    scores = np.arange(2 * columns, dtype=np.float32).reshape(1, 2, columns)
    given = [
        ops.result(ops.constant(values)) for values in (np.zeros((1, 2, 4), np.float32), scores)
    ]
    as_is = SimpleNamespace(scale=1.0, zero=0.0)
    anchors = np.float32([[0.5, 0.25, 0.2, 0.1]] * 2)  # centre y, x, height, width
    model = _with_decoding(
        openvino.Model(given, []), as_is, as_is, anchors, np.float32([10, 10, 5, 5]), 3
    )
    found = openvino_core().compile_model(model, 'CPU')([])
    np.testing.assert_allclose(found['boxes'], [[[0.2, 0.4, 0.3, 0.6]] * 2], atol=1e-6)
    np.testing.assert_array_equal(found['class_scores'], scores[..., -3:])
