"""Detectors as people publish them, with their own weights: read with the right conventions, found on images."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('openvino')

from deadline_perception.datasets.source import open_source  # noqa: E402
from deadline_perception.model_set.set_file import ModelSpec  # noqa: E402
from deadline_perception.networks.external.coco_names import COCO_NAMES  # noqa: E402
from deadline_perception.tools.model_conventions import TrialImages, find_conventions, inspect_file  # noqa: E402

DATA = Path(__file__).resolve().parents[4] / 'shared' / 'data'
VEHICLES = {'car': 'vehicle', 'bus': 'vehicle', 'truck': 'vehicle', 'rider': 'person', 'motor': 'bike',
            'motorcycle': 'bike', 'bicycle': 'bike'}
INTEL = ('vehicle', 'person', 'bike')
FILES = {
    'deimv2_hgnetv2_femto_coco.onnx': ('boxes corners px', 'rgb', COCO_NAMES),
    'yolox_nano.onnx': ('yolox', 'bgr', COCO_NAMES),
    'nanodet_m_416.onnx': ('distribution middle probability', 'bgr', COCO_NAMES),
    'person-vehicle-bike-detection-2003.xml': ('boxes corners px', 'bgr', INTEL),
    'pedestrian-and-vehicle-detector-adas-0001.xml': ('ssd', 'bgr', INTEL[:2]),
    'ssd_mobilenet_v1_coco_quant.tflite': ('class_scores corners fraction probability', 'rgb', COCO_NAMES)}

pytestmark = pytest.mark.skipif(not (DATA / 'public_models').is_dir() or not (DATA / 'bdd100k').is_dir(),
                                reason='the public detectors or the images are not at hand')


@pytest.fixture(scope='module')
def images():
    source = open_source(str(DATA / 'bdd100k' / 'val.json'))
    names = [VEHICLES.get(name, name) for name in source.class_names]
    classes = tuple(dict.fromkeys(names))
    chosen = [source.frames[at] for at in np.linspace(0, len(source.frames) - 1, 20).astype(int)]
    known = [np.column_stack((truth.boxes_xyxy_px, [classes.index(names[label]) for label in truth.labels],
                              truth.crowd)).reshape(-1, 6) for truth in (frame.ground_truth for frame in chosen)]
    return TrialImages([frame.load_bgr() for frame in chosen], known, classes)


@pytest.mark.parametrize('name', FILES)
def test_a_public_detector_is_read_and_its_conventions_are_found(images, name):
    if name.endswith('.tflite'):
        pytest.importorskip('tflite')
    head, channels, classes = FILES[name]
    file = DATA / 'public_models' / name
    assert inspect_file(file).size is not None
    spec = ModelSpec('one', 'onnx', file, tuple(VEHICLES.get(known, known) for known in classes))
    found = find_conventions(spec, images)
    assert found.spec.outputs == head and found.spec.channels == channels and found.ap > 0.1
