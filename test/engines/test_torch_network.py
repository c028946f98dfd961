"""What a network that PyTorch computes has from its base. Profiles, prepared segments and weights files in the field
are found by these hashes: one that changes makes them stale."""

import pytest
import torch
from made_up_detector import TINY

from deadline_perception.engines.torch_network import TorchNetwork
from deadline_perception.extras.faster_rcnn.network import FasterRcnn
from deadline_perception.extras.several_networks.classifier.network import (
    ClassifierConfig,
    NestedClassifier,
)

SMALL = ClassifierConfig(name='small', channels=(8, 16), strides=(2, 2), ratios=(0.25, 0.5, 1.0))


def with_counted_weights(network: TorchNetwork) -> TorchNetwork:
    with torch.no_grad():
        for number, weight in enumerate(network.state_dict().values()):
            weight.copy_(((torch.arange(weight.numel()) % 13 + number) / 7).view(weight.shape))
    return network


@pytest.mark.parametrize(
    ('make', 'network_hash', 'weights_hash'),
    [
        (lambda: FasterRcnn(TINY, ('a', 'b')), 'a039a770910dfaae', 'dfa1ed7467cae56d'),
        (lambda: NestedClassifier(SMALL, ('a', 'b')), 'fd4866146011c9d6', '948955a7dff0cf7a'),
    ],
)
def test_hashes_stay_what_they_were_when_files_were_written(make, network_hash, weights_hash):
    network = with_counted_weights(make())
    assert (network.network_hash, network.weights_hash) == (network_hash, weights_hash)
