from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('torch')
pytest.importorskip('openvino')

from made_up_models import CLASSES, SIZE, small_yolo  # noqa: E402

from deadline_perception.model_set.set_file import ModelSpec  # noqa: E402
from deadline_perception.networks.external.model_error import ModelError  # noqa: E402
from deadline_perception.tools.model_probe import probe_model, resident_mb  # noqa: E402

IMAGES = [np.zeros((60, 90, 3), np.uint8)] * 2


def test_says_what_a_model_is_and_takes(tmp_path):
    spec = ModelSpec('yolo', 'onnx', small_yolo(tmp_path), CLASSES)
    facts = probe_model(spec, IMAGES, device='cpu', engine='auto', threads=1)
    assert (facts.class_names, facts.input_size, facts.paths) == (CLASSES, SIZE, 1)
    assert 0.0 < facts.memory_mb < resident_mb() + 4000.0 and facts.time_ms > 0.0 and facts.start_s > 0.0


def test_a_process_that_ends_is_told_with_the_name_of_the_file(tmp_path):
    spec = ModelSpec('yolo', 'onnx', tmp_path / 'yolo.onnx', CLASSES)
    with pytest.raises(ModelError, match=r'yolo \(.*yolo.onnx\) ended the process that loaded it \(status 1\)'):
        probe_model(spec, IMAGES, device='cpu', engine='auto', threads=0)
