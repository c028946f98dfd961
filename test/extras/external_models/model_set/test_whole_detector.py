import numpy as np
import pytest
from plain_images import grey

from deadline_perception.engines.eager import Eager
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.whole_detector import WholeDetector


class Given(WholeDetector):
    """Finds what it is given."""

    def __init__(self, file, outputs, found):
        facts = {'shape': 'given', 'file': file, 'device': 'cpu', 'engine': Eager()}
        super().__init__('given', outputs, input_size=(4, 4), **facts)
        self._found = found

    def prepare(self, image_bgr):
        return image_bgr

    def run_layers(self, prepared):
        return self._found

    def decode(self, given, image_size):
        return given


@pytest.fixture
def file(tmp_path):
    (tmp_path / 'weights').write_bytes(b'weights')
    return tmp_path / 'weights'


IMAGE = grey(10, 20)
BOXES = np.array([[1.0, 1.0, 5.0, 5.0], [-3.0, 2.0, 30.0, 9.0], [0.0, 0.0, 1.0, 1.0]])


def test_labels_become_those_of_named_classes_sorted_by_score(file):
    given = BOXES, np.array([0.2, 0.9, 0.5]), np.array([1, 3, 0])
    detector = Given(file, [None, 'car', 'truck', 'car'], given)
    found = detector.detect(IMAGE)
    assert detector.class_names == ('car', 'truck')
    assert found.labels.tolist() == [0, 0] and found.scores.tolist() == pytest.approx([0.9, 0.2])
    # Clipped to the image; those without an area in it are no objects.
    assert found.boxes_xyxy_px[0].tolist() == [0.0, 2.0, 20.0, 9.0]
    boxes = np.array([[5.0, 1.0, 1.0, 5.0], [25.0, 1.0, 29.0, 5.0], [1.0, 1.0, 5.0, 5.0]])
    found = Given(file, ['car'], (boxes, np.array([0.9, 0.8, 0.7]), np.zeros(3))).detect(IMAGE)
    assert found.boxes_xyxy_px.tolist() == [[1, 1, 5, 5]]


@pytest.mark.parametrize(
    'scores, labels, said',
    [
        ([0.5, 0.5, 0.5], [0, 1, 2], 'labels from 0 to 2, expected 0 to 1'),
        ([0.5, 3.5, 0.5], [0, 1, 1], 'before its sigmoid'),
        ([0.5, np.nan, 0.5], [0, 1, 1], 'NaN'),
    ],
)
def test_what_is_no_detection_is_told(file, scores, labels, said):
    with pytest.raises(ModelError, match=said):
        Given(file, ['a', 'b'], (BOXES, np.array(scores), np.array(labels))).detect(IMAGE)


def test_other_weights_have_another_hash_and_a_frame_a_result_once_it_has_finished(file):
    first, renamed = Given(file, ['a'], None), Given(file, ['b'], None)
    assert first.network_hash == renamed.network_hash and first.weights_hash != renamed.weights_hash
    file.write_bytes(b'other')
    assert Given(file, ['a'], None).weights_hash != first.weights_hash
    with pytest.raises(ModelError, match='given is to find no class'):
        Given(file, [None], None)
    detector = Given(file, ['a'], None)
    with pytest.raises(ValueError, match=r'image is uint8 \(10, 20\)'):
        detector.start(IMAGE[..., 0], detector.path_space.largest)
    with pytest.raises(ValueError, match='expected it to have finished'):
        detector.start(IMAGE, detector.path_space.largest).result()
