from pathlib import Path

import pytest
from invented_networks import make_single

from deadline_perception.networks.model_reference import ModelNotFound, load_network, load_weights


def test_the_file_says_which_kind_of_network_it_holds_and_a_path_pins_it(tmp_path, repository):
    from deadline_perception.extras.several_networks.classifier.checkpoint import save_classifier
    from deadline_perception.extras.several_networks.classifier.network import (
        ClassifierConfig,
        NestedClassifier,
        build_classifier,
    )
    from deadline_perception.networks.multi_path.dense.network import DenseDetector

    file = tmp_path / 'small.safetensors'
    config = ClassifierConfig(channels=(4, 4, 4, 4), ratios=(0.5, 1.0))
    save_classifier(build_classifier(config, ('a', 'b')), file)
    assert type(load_weights(file)) is NestedClassifier
    pinned, _ = load_network('small:l2', 'cpu', tmp_path, 'eager')
    assert list(map(str, pinned.kept_paths)) == ['l2']
    with pytest.raises(ValueError, match="execution path is 'l9'"):
        load_network('small:l9', 'cpu', tmp_path, 'eager')
    network = load_weights(repository / 'models/street.safetensors')
    assert type(network) is DenseDetector
    pinned, weights = load_network(f'street:{network.path_space.smallest}', 'cpu', engine='eager')
    assert pinned.kept_paths == (network.path_space.smallest,)
    assert weights == repository / 'models' / 'street.safetensors'


def test_a_network_is_taken_as_it_is_and_what_a_callable_gives_must_be_one(tmp_path):
    network = make_single()
    assert load_network(network, 'cpu') == (network, Path('invented'))
    with pytest.raises(ModelNotFound, match='builtins:str gives str, expected a Network'):
        load_network('builtins:str', 'cpu', tmp_path)
