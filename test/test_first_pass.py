"""What `benchmarks/first_pass.py` fits on, and what it writes."""

import shutil

import pytest

from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration
from deadline_perception.networks.weights_file import read_metadata
from deadline_perception.networks.yolox.checkpoint import load_yolox


@pytest.fixture
def first_pass(load_benchmark):
    return load_benchmark('first_pass')


def test_no_image_is_both_fitted_on_and_measured(first_pass):
    for kind in first_pass.KINDS.values():
        if kind.fitted and kind.fitted[0] == kind.measured[0]:
            (length, places), (other_length, other_places) = kind.fitted[1], kind.measured[1]
            assert length == other_length and not set(places) & set(other_places)


def test_a_new_calibration_leaves_licence_source_and_recipe_of_the_weights(
    first_pass, repository, tmp_path, monkeypatch
):
    weights = tmp_path / 'yolox-nano.safetensors'
    shutil.copy(repository / 'models' / weights.name, weights)
    network = load_yolox(weights)
    own = {'licence': 'research', 'source': 'trained here', 'recipe': '2,000 steps'}
    first_pass.save_yolox(network, weights, **own)
    monkeypatch.setattr(first_pass, 'find_weights', lambda _: weights)
    slopes = tuple(0.5 + 0.1 * place for place in range(len(first_pass.CLASSES)))
    first_pass.keep_calibration(ScoreCalibration(slopes, (0.25,) * len(slopes)))
    assert own.items() <= read_metadata(weights)[0].items()
    kept = load_yolox(weights)
    assert kept.weights_hash == network.weights_hash
    assert kept.score_calibration.slopes == (0.5, 0.7, 0.7, 0.8, 0.9, 0.6)  # a motorbike as a bike
