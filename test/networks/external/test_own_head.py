from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip('openvino')

from made_up_heads import SIZE, known_outputs  # noqa: E402

from deadline_perception.model_set.onnx_detector import OnnxDetector  # noqa: E402
from deadline_perception.networks.external.model_error import ModelError  # noqa: E402
from deadline_perception.networks.external.own_head import TRUSTED  # noqa: E402

CODE = '''
import numpy as np

def read(outputs, input_size):
    x, y, score = outputs[0][0]
    height, width = input_size
    return np.array([[x, y, width, height]]), np.array([score]), np.array([1])

def wrong(outputs, input_size):
    return np.zeros((2, 4)), np.zeros(1), np.zeros(1)

number = 3
'''


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / 'my_heads.py').write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv(TRUSTED, raising=False)
    monkeypatch.delitem(sys.modules, 'my_heads', raising=False)
    return known_outputs(tmp_path / 'own.xml', {'points': np.float32([[48, 16, 0.75]])})


def test_a_function_of_the_user_reads_any_head(file, monkeypatch):
    monkeypatch.setenv(TRUSTED, 'another, my_heads')
    found = OnnxDetector(file, ('car', 'person'), decode='my_heads:read').detect(np.zeros((*SIZE, 3), np.uint8))
    assert found.boxes_xyxy_px.tolist() == [[48, 16, 96, 64]]
    assert found.scores.tolist() == [0.75] and found.labels.tolist() == [1]


def test_a_module_that_nobody_trusts_is_not_imported(file):
    with pytest.raises(ModelError, match=f'my_heads is no module that may run: set {TRUSTED}=my_heads'):
        OnnxDetector(file, ('car',), decode='my_heads:read')
    assert 'my_heads' not in sys.modules


@pytest.mark.parametrize(('words', 'said'), [
    ('my_heads', 'expected package.module:function'), ('my_heads:none', 'cannot be imported'),
    ('my_heads:number', 'which is no function')])
def test_words_that_mean_no_function_are_refused(file, monkeypatch, words, said):
    monkeypatch.setenv(TRUSTED, 'my_heads')
    with pytest.raises(ModelError, match=said):
        OnnxDetector(file, ('car',), decode=words)


def test_a_result_of_another_form_is_an_error_of_the_frame(file, monkeypatch):
    monkeypatch.setenv(TRUSTED, 'my_heads')
    detector = OnnxDetector(file, ('car',), decode='my_heads:wrong')
    with pytest.raises(ModelError, match=r'my_heads:wrong returned boxes \(2, 4\), scores \(1,\)'):
        detector.detect(np.zeros((*SIZE, 3), np.uint8))
