import argparse
from dataclasses import replace

import numpy as np
import pytest
from exported_files import exported
from plain_images import grey

from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec
from deadline_perception.tools import adoption

pytest.importorskip('openvino')
IMAGES = [grey(60, 90)]


def test_a_file_is_tried_in_8_bit_unless_an_earlier_set_has_it_so(tmp_path, monkeypatch):
    """Without a number of classes its head is not recognised."""

    def quantised(*args):
        raise ModelError('no ranges')

    monkeypatch.setattr(adoption, 'quantised', quantised)
    file = exported(tmp_path / 'yolo.xml', {'output0': np.zeros((1, 5, 100), np.float32)})
    spec = ModelSpec('yolo', 'onnx', file, ('car',), outputs='yolov8 px')
    one = adoption.Measured(spec, None, {})
    known = replace(one, spec=replace(one.spec, name='yolo_8bit'))
    args = argparse.Namespace(out=tmp_path / 'set.yaml')
    expected = ([], ['yolo stays in floating point: no ranges'])
    assert adoption._in_8_bit(args, one, [one], IMAGES, ('car',), None, [], {}) == expected
    assert adoption._in_8_bit(args, one, [one, known], IMAGES, ('car',), None, [], {}) == ([], [])


def test_what_a_set_file_states_is_neither_searched_nor_taken_at_other_sizes(tmp_path):
    rows = {'output0': np.zeros((1, 20, 6), np.float32)}
    file = exported(tmp_path / 'open.xml', rows, size=(None, None))
    spec = ModelSpec('yolo_96x64', 'onnx', file, ('car',), input_size=(64, 96), resize='stretch')
    args = argparse.Namespace(input_size=None)
    assert adoption._with_conventions(args, [spec], None, IMAGES) == [spec]
