"""What a network that PyTorch computes has from its base. Profiles, prepared segments and weights files in the field
are found by these hashes: one that changes makes them stale."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from made_up_detector import TINY
from made_up_elastic import made_elastic

from deadline_perception.engines.eager import Eager
from deadline_perception.engines.torch_network import TorchNetwork
from deadline_perception.extras.elastic.network import ElasticNetwork
from deadline_perception.extras.elastic.source import NetworkSource
from deadline_perception.extras.faster_rcnn.network import FasterRcnn
from deadline_perception.extras.several_networks.classifier.network import (
    ClassifierConfig,
    NestedClassifier,
)

SMALL = ClassifierConfig(name='small', channels=(8, 16), strides=(2, 2), ratios=(0.25, 0.5, 1.0))
IMAGE = np.zeros((8, 8, 3), np.uint8)


class Forgetful(Eager):
    """Counts how often it was told to forget."""

    cleared = 0

    def clear(self) -> None:
        self.cleared += 1


def detector() -> FasterRcnn:
    return FasterRcnn(TINY, ('a', 'b'))


def classifier() -> NestedClassifier:
    return NestedClassifier(SMALL, ('a', 'b'))


def elastic_network() -> ElasticNetwork:
    source = NetworkSource('resnet18', ('a', 'b', 'c', 'd', 'e'), (8, 8))
    return ElasticNetwork(made_elastic(), source)


def with_counted_weights(network: TorchNetwork) -> TorchNetwork:
    module = network.module if isinstance(network, ElasticNetwork) else network
    with torch.no_grad():
        for number, weight in enumerate(module.state_dict().values()):
            weight.copy_(((torch.arange(weight.numel()) % 13 + number) / 7).view(weight.shape))
    return network


@pytest.mark.parametrize(
    ('make', 'network_hash', 'weights_hash'),
    [
        (detector, 'a039a770910dfaae', 'dfa1ed7467cae56d'),
        (classifier, 'fd4866146011c9d6', '948955a7dff0cf7a'),
    ],
)
def test_hashes_stay_what_they_were_when_files_were_written(make, network_hash, weights_hash):
    network = with_counted_weights(make())
    assert (network.network_hash, network.weights_hash) == (network_hash, weights_hash)


@pytest.mark.parametrize('make', [detector, classifier, elastic_network])
def test_weights_change_the_hash_of_weights_alone(make):
    network = with_counted_weights(make())
    before = network.network_hash, network.weights_hash
    with torch.no_grad():
        module = network.module if isinstance(network, ElasticNetwork) else network
        next(module.parameters()).add_(1.0)
    assert network.network_hash == before[0] and network.weights_hash != before[1]


@pytest.mark.parametrize('make', [detector, classifier])
def test_the_engine_forgets_when_weights_move_change_or_the_mode_does(make):
    network = make().eval()
    network.engine = Forgetful()
    for number, change in enumerate(
        (
            network.train,
            network.eval,
            network.float,
            lambda: network.load_state_dict(network.state_dict()),
        ),
        start=1,
    ):
        change()
        assert network.engine.cleared == number


@pytest.mark.parametrize('make', [detector, classifier, elastic_network])
def test_graphs_need_a_cuda_device(make):
    with pytest.raises(ValueError, match="device is 'cpu', expected cuda"):
        make().use_graphs()


@pytest.mark.parametrize('make', [detector, classifier, elastic_network])
def test_an_image_gives_what_its_segments_give_one_by_one(make):
    network = make()
    if not isinstance(network, ElasticNetwork):
        network.eval()
    path = network.path_space.smallest
    expected, found = network.start(IMAGE, path).finish(), network.detect(IMAGE, path)
    assert type(found) is type(expected) is network.result_type
    for name in vars(found):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_a_network_needs_a_class():
    with pytest.raises(ValueError, match='class_names is empty'):
        NestedClassifier(SMALL, ())
