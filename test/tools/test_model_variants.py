import numpy as np
import pytest
from exported_files import exported
from made_up_models import CLASSES, SIZE, small_yolo
from plain_images import noise

from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, load_model
from deadline_perception.tools.model_variants import at_open_sizes, quantised

pytest.importorskip('openvino')
ROWS = {'output0': np.zeros((1, 20, 6), np.float32)}
IMAGES = [noise(60, 90, number) for number in range(4)]


def test_a_file_of_open_size_becomes_one_model_for_each_size(tmp_path):
    file = exported(tmp_path / 'open.xml', ROWS, size=(None, None))
    spec = ModelSpec('open', 'onnx', file, CLASSES, input_size=(640, 640))
    found = at_open_sizes(spec, (360, 640), is_stated=False)
    assert [(one.name, one.input_size) for one in found] == [
        ('open_640x352', (352, 640)),
        ('open_480x256', (256, 480)),
        ('open_320x192', (192, 320)),
    ]
    assert at_open_sizes(spec, (360, 640), is_stated=True) == [spec]
    fixed = ModelSpec('fixed', 'onnx', exported(tmp_path / 'fixed.xml', ROWS), CLASSES)
    assert at_open_sizes(fixed, (360, 640), is_stated=False) == [fixed]


@pytest.mark.slow
def test_a_detector_in_8_bit_finds_much_the_same(tmp_path):
    pytest.importorskip('nncf')
    spec = ModelSpec('yolo', 'onnx', small_yolo(tmp_path), CLASSES, resize='letterbox')
    smaller = quantised(spec, IMAGES, tmp_path / 'set_8bit')
    assert (smaller.name, smaller.file) == ('yolo_8bit', tmp_path / 'set_8bit/yolo.xml')
    network, plain = load_model(smaller), load_model(spec)
    assert (network.engine.forms, plain.engine.forms) == ({'layers': '8 bit'}, {'layers': 'float'})
    assert network.engine.identity == plain.engine.identity
    assert network.network_hash != plain.network_hash
    assert network.input_size == SIZE
    found, expected = network.detect(IMAGES[0]), plain.detect(IMAGES[0])
    assert abs(len(found) - len(expected)) <= 0.5 * len(expected) + 2 and len(found) > 0
