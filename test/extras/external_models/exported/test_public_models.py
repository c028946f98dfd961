"""The real files, where they are at hand: their conventions are found on 10 dashcam images."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('openvino')

from read_sequences import opened

from deadline_perception.extras.data.class_names import with_mapping  # noqa: E402
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames  # noqa: E402
from deadline_perception.networks.model_reference import load_network  # noqa: E402
from deadline_perception.tools.model_conventions import TrialImages  # noqa: E402

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
