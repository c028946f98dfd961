import json

import numpy as np
import pytest
import torch
from plain_images import noise
from safetensors.torch import save_file

from deadline_perception.extras.several_networks.classifier.checkpoint import (
    KIND,
    load_classifier,
    save_classifier,
)
from deadline_perception.extras.several_networks.classifier.network import (
    ClassifierConfig,
    build_classifier,
)
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.weights_file import CheckpointError, read_recipe

SMALL = ClassifierConfig(name='small', channels=(4, 4, 8, 8), ratios=(0.5, 1.0))


@pytest.fixture
def saved(tmp_path):
    network = build_classifier(SMALL, ('stop', 'other'), seed=4)
    network.reorder([(3, 1, 2, 0), range(4), range(8), range(8)])
    save_classifier(network, tmp_path / 'small.safetensors', recipe='{"steps": 3}')
    return network, tmp_path / 'small.safetensors'


def test_a_file_gives_the_network_back(saved):
    network, file = saved
    loaded = load_classifier(file)
    expected = (SMALL, network.class_names, network.weights_hash)
    assert (loaded.config, loaded.class_names, loaded.weights_hash) == expected
    assert loaded.channel_orders == network.channel_orders and not loaded.training
    crop = noise(32, 32)
    for path in loaded.path_space:
        np.testing.assert_allclose(
            loaded.detect(crop, path).scores, network.detect(crop, path).scores, atol=2e-3
        )
    assert read_recipe(file) == '{"steps": 3}'


def test_weights_of_another_kind_of_network_are_refused_both_ways(saved, tmp_path):
    words = f"small.safetensors holds a '{KIND}', expected a detector"
    with pytest.raises(CheckpointError, match=words):
        load_detector(saved[1])
    detector = tmp_path / 'detector.safetensors'
    facts = {'config': 'compact', 'class_names': '["vehicle"]'}
    save_file({'a': torch.zeros(1)}, detector, metadata=facts)
    words = f"detector.safetensors holds 'a detector', expected a {KIND}"
    with pytest.raises(CheckpointError, match=words):
        load_classifier(detector)


@pytest.mark.parametrize(
    'changes, match',
    [
        *(
            ({'config': text}, 'has no configuration of a nested_classifier: configuration')
            for text in ('[]', '{"a": 1}')
        ),
        ({'config': ClassifierConfig().to_json()}, 'has no configuration of a nested_classifier'),
        *(
            ({'config': json.dumps(json.loads(SMALL.to_json()) | stated)}, words)
            for stated, words in (
                ({'name': '../../elsewhere'}, 'configuration.name is'),
                ({'name': 5}, 'name is 5, expected str'),
                ({'channels': [60_000_000], 'strides': [1]}, 'channels are'),
                ({'strides': [2, 2]}, 'strides are'),
                ({'ratios': [0.5]}, 'ratios are'),
                ({'channels': [True] * 4}, r'channels\[0\] is True, expected int'),
                ({'channels': [8] * 1000, 'strides': [1] * 1000}, 'channels are'),
                ({'input_px': 32.0}, 'input_px is 32.0, expected int'),
                ({'input_px': 2**40}, 'input_px is'),
            )
        ),
        ({'class_names': '["stop"]'}, "was made for network '.*', but configuration 'small'"),
    ],
)
def test_a_file_that_says_something_else_is_refused(saved, tmp_path, changes, match):
    network, _ = saved
    facts = {
        'kind': KIND,
        'config': SMALL.to_json(),
        'class_names': json.dumps(network.class_names),
        'network_hash': network.network_hash,
        'channel_orders': json.dumps(network.channel_orders),
    }
    file = tmp_path / 'other.safetensors'
    tensors = {name: tensor.half().contiguous() for name, tensor in network.state_dict().items()}
    save_file(tensors, file, metadata=facts | changes)
    with pytest.raises(CheckpointError, match=match):
        load_classifier(file)
