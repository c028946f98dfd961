import random

import numpy as np
import pytest
from invented_networks import CLASSIFIER, MAGNIFIER, SINGLE, InventedNetwork
from plain_images import noise

from deadline_perception.core.detections import Classification
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.fixed_path import FixedPathNetwork
from deadline_perception.extras.external_models.model_set.model_set import ModelSet

IMAGE = noise(48, 64)


def network(space, *classes: str) -> InventedNetwork:
    made = InventedNetwork(space)
    made.class_names = classes or ('thing',)
    return made


@pytest.fixture
def models():
    """One that decides nothing, one with two operators, and one more."""
    small = network(SINGLE, 'bike')
    large = network(SINGLE, 'car')
    return ModelSet('set', {'small': small, 'lens': network(MAGNIFIER, 'car'), 'large': large})


def test_paths_are_those_of_all_models_and_stay_ready(models):
    space = models.path_space
    wanted = ['msmall', *(f'mlens-{path}' for path in MAGNIFIER), 'mlarge']
    assert [str(path) for path in space] == wanted
    assert len(space) == 8 and str(space.largest) == 'mlarge' and str(space.smallest) == 'msmall'
    assert [space.parse(str(path)) for path in space] == list(space)
    assert space.keys(space.parse('msmall')) == ('model', 'small.all')
    expected = ('model', 'lens.focus@zfar', 'lens.look@zfar-n4', 'lens.name')
    assert space.keys(space.parse('mlens-zfar-n4')) == expected
    with pytest.raises(ValueError, match='such as mlarge or msmall'):
        space.parse('msmall-zfar-n4')
    assert models.kept_paths is None
    models.models['lens'].kept_paths = (MAGNIFIER.smallest, MAGNIFIER.largest)
    expected = ['msmall', 'mlens-zfar-n1', 'mlens-ztele-n4', 'mlarge']
    assert list(map(str, models.kept_paths)) == expected


def test_the_model_is_decided_first_and_its_own_operators_as_they_come(models):
    space = models.path_space
    run = models.start(IMAGE, space.largest)
    run.redirect(space.parse('mlens-ztele-n4'))
    run.run_segment()
    with pytest.raises(ValueError, match='contradicts'):
        run.redirect(space.parse('msmall'))
    run.run_segment()  # the small model's segment is passed without work
    run.redirect(space.parse('mlens-zfar-n4'))
    run.finish()
    assert run._inner.keys == ['focus@zfar', 'look@zfar-n4', 'name']
    with pytest.raises(ValueError, match='expected it to have finished'):
        models.start(IMAGE, space.largest).result()


def test_a_multi_path_detector_stands_beside_others(tiny_network):
    fixed = FixedPathNetwork(tiny_network, tiny_network.path_space.smallest)
    models = ModelSet('set', {'one': fixed, 'tiny': tiny_network}, ('bike', 'person', 'vehicle'))
    assert len(models.path_space) == len(tiny_network.path_space) + 1
    assert models.unseen('tiny') == ('person',)
    own, rng = tiny_network.path_space, random.Random(0)
    for path in (own.smallest, own.largest, *rng.sample(list(own), 3)):
        expected = tiny_network.detect(IMAGE, path)
        found = models.start(IMAGE, models.whole('tiny', path)).finish()
        assert np.array_equal(found.boxes_xyxy_px, expected.boxes_xyxy_px)
        assert found.labels.tolist() == [{0: 2, 1: 0}[label] for label in expected.labels.tolist()]
    found = models.start(IMAGE, models.path_space.parse('mone')).finish()
    assert np.array_equal(found.scores, tiny_network.detect(IMAGE, own.smallest).scores)
    assert fixed.weights_hash != tiny_network.weights_hash


def test_sets_that_make_no_sense_are_refused():
    with pytest.raises(ModelError, match='holds no model'):
        ModelSet('set', {})
    with pytest.raises(ModelError, match='a and b decide something themselves'):
        ModelSet('set', {'a': network(MAGNIFIER), 'b': network(MAGNIFIER)})
    with pytest.raises(ModelError, match='a finds thing, expected classes of the set: car'):
        ModelSet('set', {'a': network(SINGLE)}, ('car',))
    with pytest.raises(ModelError, match='a gives Classification'):
        ModelSet('set', {'a': InventedNetwork(CLASSIFIER, result_type=Classification)})
    elsewhere = network(SINGLE)
    elsewhere.device = 'cuda'
    with pytest.raises(ModelError, match='run on cpu and cuda'):
        ModelSet('set', {'a': network(SINGLE), 'b': elsewhere})
    with pytest.raises(ValueError, match='expected a distinct label'):
        ModelSet('set', {'a-b': network(SINGLE)})
