"""The published weights give here what they give in their own file."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from read_sequences import opened

from deadline_perception.extras.data.records import spread_evenly
from deadline_perception.extras.external_models import public_yolox
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.public_yolox import (
    ROAD_SOURCES,
    YOLOX_NANO,
    WeightsRefused,
    build_yolox,
    take_public_weights,
)
from deadline_perception.networks.model_reference import load_weights

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[4] / 'shared/data'
PUBLIC = DATA / 'public_models/yolox_nano.onnx'
SQUARE = replace(YOLOX_NANO, input_size=(416, 416), scales=(1.0,))
needs_data = pytest.mark.skipif(not PUBLIC.is_file(), reason='no public models at hand')


def raw_outputs(network, image):
    """As the file gives them `[3549, 5 + C]`: boxes in strides, scores after the sigmoid."""
    path = network.path_space.largest
    pixels = torch.from_numpy(network.preprocess(image, path)).permute(0, 3, 1, 2)
    values = {'pre': (pixels,)}
    with torch.inference_mode():
        for segment in ('backbone', 'neck', 'head'):
            values = {segment: network.compute(segment, path, values)}
    levels = []
    for first in range(0, 9, 3):
        boxes, *logits = values['head'][first : first + 3]
        levels.append(torch.cat((boxes, *(value.sigmoid() for value in logits)), 1)[0].flatten(1).T)
    return pixels, torch.cat(levels)


@needs_data
def test_all_classes_have_the_outputs_of_the_file():
    openvino = pytest.importorskip('openvino')
    published = openvino.Core().compile_model(PUBLIC, 'CPU', {'INFERENCE_PRECISION_HINT': 'f32'})
    frames = spread_evenly(opened(DATA / 'bdd100k/val.json').frames, 10)
    names = tuple((name,) for name in COCO_NAMES)
    network = build_yolox(replace(SQUARE, sources=names), COCO_NAMES)
    take_public_weights(network, PUBLIC)
    for frame in frames:
        pixels, found = raw_outputs(network, frame.load_bgr())
        wanted = torch.from_numpy(published(pixels.float().numpy())[0][0].copy())
        assert found.shape == wanted.shape == (3549, 85)
        assert torch.allclose(found, wanted, atol=2e-3)


@needs_data
def test_command_writes_weights_that_load(tmp_path):
    file = tmp_path / 'yolox-nano.safetensors'
    assert public_yolox.main([str(PUBLIC), str(file)]) == 0
    network = load_weights(file)
    assert network.class_names == tuple(ROAD_SOURCES)
    assert [str(path) for path in network.path_space] == ['r1.00', 'r0.65', 'r0.50'][::-1]


def test_another_file_and_a_source_that_coco_lacks_are_refused(tmp_path, capsys):
    file = tmp_path / 'other.onnx'
    file.write_bytes(b'no model')
    assert public_yolox.main([str(file), str(tmp_path / 'out.safetensors')]) == 1
    told = capsys.readouterr().err
    assert 'cannot be read as ONNX' in told and told.count('\n') == 1
    assert not (tmp_path / 'out.safetensors').exists()
    network = build_yolox(replace(SQUARE, sources=(('tram',),)), ('vehicle',))
    with pytest.raises(WeightsRefused, match="source is 'tram'"):
        take_public_weights(network, tmp_path / 'any.onnx')
