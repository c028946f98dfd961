import pytest
from made_up_models import CLASSES, SIZE, small_yolo
from plain_images import grey

from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec
from deadline_perception.tools.support.model_probe import probe_model, resident_mb

pytest.importorskip('openvino')
IMAGES = [grey(60, 90)] * 2


@pytest.mark.slow
def test_says_what_a_model_is_and_takes(tmp_path):
    spec = ModelSpec('yolo', 'onnx', small_yolo(tmp_path), CLASSES)
    facts = probe_model(spec, IMAGES, device='cpu', engine='auto', threads=1)
    assert (facts.class_names, facts.input_size, facts.paths) == (CLASSES, SIZE, 1)
    assert 0.0 < facts.memory_mb < resident_mb() + 4000.0
    assert facts.time_ms > 0.0 and facts.start_s > 0.0


def test_what_ends_the_work_of_the_process_is_told(tmp_path):
    spec = ModelSpec('yolo', 'onnx', tmp_path / 'yolo.onnx', CLASSES)
    with pytest.raises(ModelError, match='threads is 0, expected at least 1'):
        probe_model(spec, IMAGES, device='cpu', engine='auto', threads=0)
