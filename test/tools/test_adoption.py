import argparse

import numpy as np
import pytest
from exported_files import exported
from plain_images import grey

from deadline_perception.extras.external_models.model_set.set_file import ModelSpec
from deadline_perception.tools import adoption

pytest.importorskip('openvino')
IMAGES = [grey(60, 90)]


def test_what_a_set_file_states_is_neither_searched_nor_taken_at_other_sizes(tmp_path):
    rows = {'output0': np.zeros((1, 20, 6), np.float32)}
    file = exported(tmp_path / 'open.xml', rows, size=(None, None))
    spec = ModelSpec('yolo_96x64', 'onnx', file, ('car',), input_size=(64, 96), resize='stretch')
    args = argparse.Namespace(input_size=None)
    assert adoption._with_conventions(args, [spec], None, IMAGES) == [spec]
