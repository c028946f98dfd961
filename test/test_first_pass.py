"""What `benchmarks/first_pass.py` measures and writes, by hand-computed cases."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.records import Frame, GroundTruth
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration
from deadline_perception.networks.weights_file import read_metadata

STREET_PATHS = [f'{scale}s00000-w1.00-p100-h2' for scale in ('r0.44-', 'r0.53-', '')]


@pytest.fixture
def first_pass(load_benchmark):
    return load_benchmark('first_pass')


def frames(*names):
    """Black images of 200 x 100 px."""
    return [Frame(name, 0, lambda: np.zeros((100, 200, 3), np.uint8)) for name in names]


def test_no_image_is_both_fitted_on_and_measured(first_pass):
    for kind in first_pass.KINDS.values():
        if kind.fitted and kind.fitted[0] == kind.measured[0]:
            (length, places), (other_length, other_places) = kind.fitted[1], kind.measured[1]
            assert length == other_length and not set(places) & set(other_places)


def test_a_new_calibration_leaves_licence_source_and_recipe_of_the_weights(
    first_pass, repository, tmp_path, monkeypatch
):
    weights = tmp_path / 'street-open.safetensors'
    shutil.copy(repository / 'models' / weights.name, weights)
    network = load_detector(weights)
    own = {'licence': 'research', 'source': 'trained here', 'recipe': '2,000 steps'}
    first_pass.save_yolox(network, weights, **own)
    monkeypatch.setattr(first_pass, 'find_weights', lambda _: weights)
    slopes = tuple(0.5 + 0.1 * place for place in range(len(first_pass.CLASSES)))
    first_pass.keep_calibration(ScoreCalibration(slopes, (0.25,) * len(slopes)))
    assert own.items() <= read_metadata(weights)[0].items()
    kept = load_detector(weights)
    assert kept.weights_hash == network.weights_hash
    assert kept.score_calibration.slopes == (0.5, 0.7, 0.7, 0.8, 0.9, 0.6)  # a motorbike as a bike


def test_near_persons_are_those_higher_than_half_of_their_image(first_pass):
    person = first_pass.CLASSES.index('person')
    boxes = [[0, 0, 40, 90], [50, 0, 90, 90], [100, 0, 110, 30], [150, 0, 190, 90]]
    crowd = np.array([False, False, False, True])
    known = GroundTruth(np.array(boxes, np.float32), np.full(4, person), crowd)
    images = first_pass.Images('coco', frames('one'), [known])
    certain = Detections([boxes[0], [50, 0, 90, 40]], [0.3, 0.9], [person, person])
    assert first_pass.near_persons_found(images, [certain]) == [True, False]
    for found in (replace(certain, scores=[0.29, 0.9]), replace(certain, labels=[0, 0])):
        assert first_pass.near_persons_found(images, [found]) == [False, False]


def test_more_time_loses_what_the_best_shorter_answer_finds_beyond_both_longest_looks(first_pass):
    rows = {
        'street-first 416x256': {'person': 70.0, 'bike': 20.0},
        first_pass.LONGEST: {'person': 64.5, 'bike': 30.0},
    }
    assert first_pass.losses_by_more_time({'coco': rows}) == {'coco': {'person': 5.5, 'bike': 0.0}}


@pytest.mark.parametrize(('missed', 'least'), [(1, 0.0), (18, 30.0)])
def test_a_loss_is_certain_where_other_images_would_have_shown_it_too(first_pass, missed, least):
    person = first_pass.CLASSES.index('person')
    known = [GroundTruth(np.array([[0, 0, 40, 90]]), [person], [False])] * 24
    found = Detections([[0, 0, 40, 90]], [0.9], [person])
    answers = {
        'street-first 416x256': [found] * 24,
        first_pass.LONGEST: [Detections.none()] * missed + [found] * (24 - missed),
    }
    images = first_pass.Images('penn_fudan', frames(*24 * ['one']), known)
    loss = first_pass.certain_losses(images, answers)['person']
    assert least <= loss < 100.0 * missed / 24


def test_few_objects_leave_scores_nearer_to_what_they_were_than_many(first_pass):
    rng = np.random.default_rng(0)
    features = np.zeros((40, first_pass.FEATURES))
    features[:, 0], features[:, 3] = rng.normal(size=40), 1.0
    is_object = rng.random(40) < 0.2  # fewer than the scores say
    offsets = [
        first_pass.regression(
            np.tile(features, (times, 1)), np.tile(is_object, times), np.ones(40 * times)
        )[3]
        for times in (1, 10, 100)
    ]
    assert 0.0 > offsets[0] > offsets[1] > offsets[2]


def blind(name):
    """A network that finds nothing and keeps on what paths it was started; of `street`, three are in 8 bit."""
    ready = STREET_PATHS if name == 'street' else []
    forms = {f'{name}@{path}': '8 bit' for path in ready}
    started, run = [], SimpleNamespace(finish=Detections.none)
    return SimpleNamespace(
        class_names=(),
        started=started,
        start=lambda image, path: started.append(path) or run,
        path_space=SimpleNamespace(parse=str, keys=lambda path: [f'{name}@{path}', 'post']),
        engine=SimpleNamespace(identity=name, forms=forms),
    )


def test_an_image_is_looked_at_in_every_run_and_the_file_says_by_what(first_pass):
    networks = {name: blind(name) for name in (first_pass.FINE, first_pass.FIRST)}
    images = first_pass.Images('coco', frames(*'ab'), [])
    for run in (1, 2):
        seen = first_pass.look_at(networks, images)
        assert [len(found) for found in seen.values()] == [2] * 6
        assert [len(network.started) for network in networks.values()] == [6 * run] * 2
    engines = [first_pass.engine_of(name, network) for name, network in networks.items()]
    assert engines == [
        {'name': 'street', '8 bit': 3, 'eager': 1},
        {'name': 'street-first', 'eager': 4},
    ]
