"""The published weights give here what they give in their own file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from read_sequences import opened
from torchvision.ops import box_iou

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


@pytest.fixture(scope='module')
def published():
    """The file itself, run by OpenVINO."""
    openvino = pytest.importorskip('openvino')
    return openvino.Core().compile_model(PUBLIC, 'CPU', {'INFERENCE_PRECISION_HINT': 'f32'})


@pytest.fixture(scope='module')
def images():
    frames = opened(DATA / 'bdd100k/val.json').frames
    return [frame.load_bgr() for frame in spread_evenly(frames, 10)]


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
def test_all_classes_have_the_outputs_of_the_file(published, images):
    names = tuple((name,) for name in COCO_NAMES)
    network = build_yolox(replace(SQUARE, sources=names), COCO_NAMES)
    take_public_weights(network, PUBLIC)
    for image in images:
        pixels, found = raw_outputs(network, image)
        wanted = torch.from_numpy(published(pixels.float().numpy())[0][0].copy())
        assert found.shape == wanted.shape == (3549, 85)
        assert torch.allclose(found, wanted, atol=2e-3)


@needs_data
def test_boxes_are_those_of_the_file(published, images):
    network = build_yolox(SQUARE, tuple(ROAD_SOURCES))
    take_public_weights(network, PUBLIC)
    path, seen = network.path_space.largest, 0
    for image in images:
        found = network.detect(image, path)
        pixels = torch.from_numpy(network.preprocess(image, path)).permute(0, 3, 1, 2)
        boxes, scores, labels = decoded(published(pixels.float().numpy())[0][0], image)
        for box, score, label in zip(found.boxes_xyxy_px, found.scores, found.labels):
            overlap = box_iou(torch.from_numpy(box)[None], torch.from_numpy(boxes)).numpy()[0]
            same = (overlap > 0.99) & (labels == label) & (abs(scores - score) < 2e-3)
            assert same.any(), (box, score, label)
        clear = [one for one in np.flatnonzero(scores > 0.3)]
        for one in clear:
            same_class = found.boxes_xyxy_px[found.labels == labels[one]]
            overlap = box_iou(torch.from_numpy(boxes[one])[None], torch.from_numpy(same_class))
            assert overlap.numel() and overlap.max() > 0.5, boxes[one]  # kept, or suppressed by it
        seen += len(clear)
    assert seen > 50


def decoded(raw, image):
    """Boxes in px of the image, clipped to it, scores and labels of what the file gives, not suppressed."""
    sides = [(416 // stride, stride) for stride in (8, 16, 32)]
    corners = np.concatenate([np.indices((side, side)).reshape(2, -1)[::-1].T for side, _ in sides])
    stride = np.repeat(np.float32([8, 16, 32]), [side**2 for side, _ in sides])[:, None]
    centre = (raw[:, :2] + corners) * stride
    half = np.exp(raw[:, 2:4]) * stride / 2
    height, width = image.shape[:2]
    boxes = np.concatenate((centre - half, centre + half), 1) * max(height, width) / 416
    boxes = boxes.clip(0, (width, height, width, height)).astype(np.float32)
    rows, labels, scores = [], [], []
    for label, names in enumerate(ROAD_SOURCES.values()):
        columns = [5 + COCO_NAMES.index(name) for name in names]
        score = (1 - (1 - raw[:, columns]).prod(1)) * raw[:, 4]
        rows.append(boxes[score > 0.01])
        labels += [label] * int((score > 0.01).sum())
        scores.append(score[score > 0.01])
    return np.concatenate(rows), np.concatenate(scores), np.array(labels)


@needs_data
def test_command_writes_weights_that_load(tmp_path):
    file = tmp_path / 'yolox-nano.safetensors'
    assert public_yolox.main([str(PUBLIC), str(file)]) == 0
    network = load_weights(file)
    assert network.class_names == tuple(ROAD_SOURCES)
    assert [str(path) for path in network.path_space] == ['r1.00', 'r0.65', 'r0.50'][::-1]


def test_another_file_is_refused_in_one_line(tmp_path, capsys):
    file = tmp_path / 'other.onnx'
    file.write_bytes(b'no model')
    assert public_yolox.main([str(file), str(tmp_path / 'out.safetensors')]) == 1
    told = capsys.readouterr().err
    assert 'cannot be read as ONNX' in told and told.count('\n') == 1
    assert not (tmp_path / 'out.safetensors').exists()


def test_a_source_that_coco_lacks_is_refused(tmp_path):
    network = build_yolox(replace(SQUARE, sources=(('tram',),)), ('vehicle',))
    with pytest.raises(WeightsRefused, match="source is 'tram'"):
        take_public_weights(network, tmp_path / 'any.onnx')
