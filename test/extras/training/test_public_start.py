import os
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from plain_images import noise
from torchvision.ops import box_iou

from deadline_perception.extras.training.public_start import StartRefused, start_from_public
from deadline_perception.networks.multi_path.dense.configuration import STREET
from deadline_perception.networks.multi_path.dense.network import DenseDetector

SMALL = replace(STREET, name='small', input_size=(96, 160), scales=(1.0, 0.41), proposals=(5, 20))
PUBLIC = (
    Path(__file__).parents[4] / 'shared/data/public_models/person-vehicle-bike-detection-2003.xml'
)


def test_other_files_and_few_images_are_no_start(tmp_path):
    network, image = DenseDetector(SMALL, ('vehicle', 'person')).eval(), noise(90, 160)
    openvino = pytest.importorskip('openvino')
    ops = openvino.opset13
    pixels = value = ops.parameter([1, 32, 8, 8], np.float32)
    for _ in range(115):
        weight = np.zeros((32, 32, 1, 1), np.float32)
        value = ops.convolution(value, weight, [1, 1], [0, 0], [0, 0], [1, 1])
    openvino.save_model(openvino.Model([value], [pixels]), tmp_path / 'other.xml')
    with pytest.raises(StartRefused, match='is not person-vehicle-bike-detection-2003'):
        start_from_public(network, tmp_path / 'other.xml', [image] * 8)
    (tmp_path / 'other.xml').write_text('<net/>')
    with pytest.raises(StartRefused, match='cannot be read as OpenVINO IR'):
        start_from_public(network, tmp_path / 'other.xml', [image] * 8)
    with pytest.raises(ValueError, match='1 images to measure norms with, expected at least 8'):
        start_from_public(network, PUBLIC, [image])


@pytest.mark.slow
@pytest.mark.skipif(not PUBLIC.is_file(), reason='the public detector is not at hand')
def test_a_start_finds_what_the_public_detector_finds():
    """On a real image: the same best boxes, at nearly the same scores, though norms are fixed here."""
    openvino = pytest.importorskip('openvino')
    folder = PUBLIC.parents[1] / 'bdd100k/images'
    names = sorted(os.listdir(folder))[:8]
    images = [cv2.imread(str(folder / name)) for name in names]
    shape = replace(STREET, input_size=(480, 864), scales=(1.0,), widths=(1.0, 0.75))
    mine = DenseDetector(shape, ('vehicle', 'person', 'bike', 'motorbike', 'traffic_light')).eval()
    assert start_from_public(mine, PUBLIC, images) == ('traffic_light',)
    other = openvino.Core().compile_model(openvino.Core().read_model(PUBLIC), 'CPU')
    agreed = all_boxes = 0
    for image in images[:4]:
        found = mine.detect(image, mine.path_space.largest.replace(head='0'))
        given = other(cv2.resize(image, (864, 480)).transpose(2, 0, 1)[None].astype(np.float32))
        scale = np.float32([image.shape[1] / 864, image.shape[0] / 480] * 2)
        sure = given['boxes'][given['boxes'][:, 4] > 0.4][:, :4] * scale
        mine_sure = torch.from_numpy(found.boxes_xyxy_px[found.scores > 0.2])
        agreed += int((box_iou(torch.from_numpy(sure), mine_sure) > 0.8).any(1).sum())
        all_boxes += len(sure)
    assert all_boxes > 5 and agreed >= 0.9 * all_boxes
