"""The real files, where they are at hand: their conventions are found on 10 dashcam images."""

from pathlib import Path

import numpy as np
import pytest
from read_sequences import opened

from deadline_perception.extras.data.class_names import with_mapping
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec
from deadline_perception.networks.model_reference import load_network
from deadline_perception.tools.model_conventions import TrialImages, find_conventions

DATA = Path(__file__).parents[5] / 'shared' / 'data'
MERGED = {'car': 'vehicle', 'bus': 'vehicle', 'truck': 'vehicle', 'rider': 'person'}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / 'public_models').is_dir(), reason='needs the public detectors'),
]


@pytest.fixture(scope='module')
def images() -> TrialImages:
    sequence = with_mapping(opened(DATA / 'bdd100k/val.json'), MERGED)
    frames = annotated_frames(sequence, 10)
    objects = [frame.ground_truth for frame in frames]
    rows = [np.column_stack((one.boxes_xyxy_px, one.labels, one.crowd)) for one in objects]
    return TrialImages([frame.load_bgr() for frame in frames], rows, sequence.class_names)


# Those that run in some 20 ms; the third is the weak one below. All are in benchmarks/street_accuracy.py.
@pytest.mark.parametrize(
    'name, range_and_order, reading',
    [
        ('yolox_nano.onnx', 'bgr, 0 to 255', 'yolox'),
        (
            'pedestrian-and-vehicle-detector-adas-0001.xml',
            'bgr, 0 to 255',
            'ssd, first class at label 1',
        ),
    ],
)
def test_the_conventions_of_a_public_file_are_found(images, name, range_and_order, reading):
    names = tuple(MERGED.get(known, known) for known in COCO_NAMES)
    names = ('vehicle', 'person') if 'adas' in name else names
    spec = ModelSpec('public', 'onnx', DATA / 'public_models' / name, names)
    found = find_conventions(spec, images)
    assert range_and_order in found.words and found.words.endswith(reading) and found.ap > 0.05
    assert found.spec.outputs and found.spec.resize and found.tried[0][1] > found.tried[-1][1]


def test_a_weak_detector_that_is_read_rightly_is_not_refused():
    """On crowded images this one has an AP of under 3 %, and is sure of many boxes."""
    merged = {**MERGED, 'motor': 'bike', 'bicycle': 'bike', 'motorcycle': 'bike'}
    crowded = TrialImages.of(with_mapping(opened(DATA / 'bdd100k/val.json'), merged))
    names = tuple(merged.get(known, known) for known in COCO_NAMES)
    file = DATA / 'public_models/ssd_mobilenet_v1_coco_quant.tflite'
    found = find_conventions(ModelSpec('weak', 'onnx', file, names), crowded)
    assert found.ap < 0.03 and found.spec.outputs and found.spec.resize
    assert found.words.endswith(
        'class_scores corners fraction probability, labels of COCO with gaps'
    )


@pytest.mark.parametrize(
    'name, classes',
    [
        ('yolox_nano.onnx', 'coco'),
        ('nanodet_m_416.onnx', 'coco'),
        ('person-vehicle-bike-detection-2003.xml', 'vehicle,person,bike'),
    ],
)
def test_a_file_is_read_as_such_files_mostly_are_where_nobody_looked(images, name, classes):
    """A person who names a file alone, with no set that `adopt` wrote, gets its objects."""
    network, _ = load_network(DATA / 'public_models' / name, 'cpu', classes=classes)
    found = [network.detect(image) for image in images.images_bgr]
    assert np.median([detections.scores.max(initial=0.0) for detections in found]) > 0.4
