"""An elastic network is a network of the package."""

import numpy as np
import pytest
import torch
from plain_images import noise

from deadline_perception.extras.elastic.elastic import elastic
from deadline_perception.extras.elastic.network import ElasticNetwork, input_of, utilisation_space
from deadline_perception.extras.elastic.source import NetworkSource

IMAGE = noise(60, 80)


@pytest.fixture(scope='module')
def network() -> ElasticNetwork:
    source = NetworkSource('resnet18', ('cat', 'dog', 'fish'), (48, 64))
    data = torch.randn(8, 3, 48, 64, generator=torch.Generator().manual_seed(0))
    settings = (0.25, 0.5, 1.0)
    module = elastic(source.ordinary(), source.example_inputs, data, settings=settings)
    return ElasticNetwork(module, source)


def test_has_one_path_for_each_utilisation_which_can_change_until_the_layers_begin(network):
    assert [str(path) for path in network.path_space] == ['u0.25', 'u0.50', 'u1.00']
    with pytest.raises(ValueError, match='distinct label'):
        utilisation_space((0.101, 0.102, 1.0))
    run = network.start(IMAGE, network.path_space.largest)
    run.run_segment()
    run.redirect(network.path_space.smallest)
    run.run_segment()
    with pytest.raises(ValueError, match='contradicts'):
        run.redirect(network.path_space.largest)
    with pytest.raises(ValueError, match='expected it to have finished'):
        run.result()
    expected = network.detect(IMAGE, network.path_space.smallest).scores
    np.testing.assert_array_equal(run.finish().scores, expected)


@pytest.mark.parametrize('image', [IMAGE.astype(np.float32), IMAGE[:, :, 0], IMAGE[:0]])
def test_refuses_what_is_no_image(network, image):
    with pytest.raises(ValueError, match=r'expected uint8 \[height, width, 3\]'):
        input_of(network.source, image)
