import json

import numpy as np
import pytest
import torch
from plain_images import noise

from deadline_perception.engines.eager import as_arrays
from deadline_perception.extras.external_models.public_yolox import build_yolox, save_yolox
from deadline_perception.extras.weights_writer import write_weights
from deadline_perception.networks.model_reference import load_weights
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.multi_path.configuration import read_shape
from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration
from deadline_perception.networks.weights_file import CheckpointError
from deadline_perception.networks.yolox.configuration import YoloxConfig
from deadline_perception.networks.yolox.network import YoloxDetector

IMAGE = noise(90, 100)
SMALL = YoloxConfig('small', (96, 160), (1.0, 0.41), (('car', 'bus'), ('person',)))
NAMES = ('vehicle', 'person')


@pytest.fixture
def network():
    network = build_yolox(SMALL, NAMES)
    with torch.no_grad():  # so that random weights find something
        for level in network.head.levels:
            level.objectness.bias.fill_(3.0)
    return network


@pytest.mark.parametrize(
    'change, message',
    [
        ({'name': 'a b'}, 'configuration.name is'),
        ({'input_size': [96, 8192]}, 'at most 4096 px'),
        ({'scales': [1.0, 0.99]}, 'distinct sizes'),
        ({'sources': [['car'], ['car']]}, 'sources are'),
    ],
)
def test_shapes_out_of_range_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        read_shape(json.loads(SMALL.to_json()) | change)


def test_boxes_lie_where_the_cells_say(network):
    """One cell of stride 16 says: an object of 32 x 16 px around the middle of the cell at column 3, row 1."""
    maps = []
    for stride in (8, 16, 32):
        rows, columns = 96 // stride, 160 // stride
        boxes = torch.zeros(1, 4, rows, columns)
        objectness = torch.full((1, 1, rows, columns), -20.0)
        classes = torch.full((1, 3, rows, columns), -20.0)
        if stride == 16:
            boxes[0, :, 1, 3] = torch.tensor([0.5, 0.5, np.log(2.0), 0.0])
            objectness[0, 0, 1, 3] = 20.0
            classes[0, :, 1, 3] = torch.tensor([0.0, 1.0, -1.0])
        maps += [boxes, objectness, classes]
    boxes, scores, labels = network.post(network.path_space.largest, {'head': as_arrays(maps)})
    assert boxes == pytest.approx(np.array(2 * [[40.0, 16.0, 72.0, 32.0]]))
    car, bus, person = torch.tensor([0.0, 1.0, -1.0]).sigmoid().tolist()
    assert scores == pytest.approx([1 - (1 - car) * (1 - bus), person])
    assert labels.tolist() == [0, 1]


def test_images_keep_their_aspect_and_boxes_return_to_them(network):
    path = network.path_space.largest
    for size, fitted in (((30, 100), (48, 160)), ((96, 48), (96, 48)), ((183, 320), (96, 160))):
        pixels = network.preprocess(np.zeros((*size, 3), np.uint8), path)
        grey = np.ones((1, 96, 160), bool)
        grey[:, : fitted[0], : fitted[1]] = False
        assert ((pixels == 114).all(3) == grey).all() and not pixels[~grey].any()
        corner = np.array([[0.0, 0.0, fitted[1], fitted[0]], [156.0, 90.0, 160.0, 96.0]])
        boxes, *_ = network.in_the_image((corner, np.ones(2), np.zeros(2)), path, size)
        assert boxes[0].tolist() == [0.0, 0.0, size[1], size[0]]
        assert len(boxes) == (1 if grey.any() else 2)  # none beside the image


def test_not_a_number_is_no_empty_road(network):
    with torch.no_grad():
        network.head.levels[0].objectness.bias.fill_(float('nan'))
    for shown, said in ((IMAGE, 'NaN'), (np.zeros((4, 4), np.uint8), 'image is')):
        with pytest.raises(ValueError, match=said):
            network.detect(shown, network.path_space.largest)


def test_weights_survive_a_file(network, tmp_path):
    network.score_calibration = ScoreCalibration((1.5, 1.0), (0.5, 0.25))
    file = tmp_path / 'small.safetensors'
    save_yolox(network, file, licence='Apache-2.0')
    loaded = load_weights(file)
    assert isinstance(loaded, YoloxDetector)
    assert loaded.weights_hash == network.weights_hash
    assert loaded.score_calibration == network.score_calibration
    path = network.path_space.smallest
    found, expected = loaded.detect(IMAGE, path), network.detect(IMAGE, path)
    assert found.scores[:5] == pytest.approx(expected.scores[:5], abs=2e-2)


def test_files_of_other_networks_are_refused(network, tmp_path):
    with pytest.raises(ValueError, match='1 class names'):
        YoloxDetector(SMALL, ('vehicle',))
    file = tmp_path / 'damaged.safetensors'
    for facts, said in (
        ({'config': '{"name": "small"}'}, 'cannot be used: configuration'),
        ({'kind': 'other'}, "holds a 'other', expected a detector"),
        ({'score_calibration': '{}'}, 'score calibration'),
    ):
        write_weights(network, file, {'kind': 'yolox', 'config': SMALL.to_json()} | facts)
        with pytest.raises(CheckpointError, match=said):
            load_detector(file)
