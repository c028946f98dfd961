import numpy as np
import pytest

from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration
from deadline_perception.networks.weights_file import CheckpointError


def test_a_score_worked_out_by_hand():
    calibration = ScoreCalibration((1.0, 2.0), (0.0, 1.0))
    scores = calibration.apply(np.float32([0.2, 0.5, 0.9]), np.array([0, 1, 0]))
    # Of log-odds 0, twice them plus 1 are 1, whose probability is 0.7311.
    assert scores == pytest.approx([0.2, 0.7311, 0.9], abs=1e-4)


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('{}', 'missing required field slopes'),
        ('x', 'it is no JSON'),
        ('{"slopes": [1, 2], "offsets": [0, 0]}', 'of 2 classes, expected 1'),
        ('{"slopes": [0], "offsets": [0]}', r'slopes\[0\] is 0, expected'),
        ('{"slopes": [1], "offsets": [NaN]}', r'offsets\[0\] is nan, expected'),
        ('{"slopes": [1], "offsets": []}', 'expected as many'),
    ],
)
def test_a_text_that_holds_none_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        ScoreCalibration.from_json(text, 1)


def test_the_weights_keep_it_and_detections_show_it(tmp_path):
    detector = build_detector('compact', ('vehicle', 'person'), seed=3)
    image = np.random.default_rng(0).integers(0, 256, (96, 160, 3), dtype=np.uint8)
    path = detector.path_space.smallest
    before = detector.detect(image, path)
    detector.score_calibration = ScoreCalibration((0.5, 2.0), (-1.0, 0.3))
    save_detector(detector, tmp_path / 'calibrated.safetensors')
    loaded = load_detector(tmp_path / 'calibrated.safetensors')
    assert loaded.score_calibration == detector.score_calibration
    after = detector.detect(image, path)
    assert len(after) == len(before) > 0 and (np.diff(after.scores) <= 0).all()
    expected = detector.score_calibration.apply(before.scores, before.labels)
    assert np.sort(after.scores) == pytest.approx(np.sort(expected))
    other = '{"slopes": [1], "offsets": [0]}'
    save_detector(detector, tmp_path / 'broken.safetensors', score_calibration=other)
    with pytest.raises(CheckpointError, match='score calibration is of 1 classes, expected 2'):
        load_detector(tmp_path / 'broken.safetensors')
