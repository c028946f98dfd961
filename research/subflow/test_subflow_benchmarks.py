"""What the benchmarks of sub-networks make of their measurements; here with values made up by hand."""

import pytest
import torch

from deadline_perception.extras.elastic.elastic import elastic


@pytest.fixture(scope='module')
def lenet(load_benchmark):
    module = load_benchmark('subflow_shapes').SHAPES[0].make().eval()
    return module, elastic(module, (torch.zeros(1, 1, 28, 28),), torch.randn(8, 1, 28, 28))


@pytest.mark.parametrize('utilisation', [0.1, 0.5, 1.0])
def test_narrow_copy_computes_what_the_sub_network_does(load_benchmark, lenet, utilisation):
    module, network = lenet
    narrow = load_benchmark('subflow_networks').narrow_copy(network, module, utilisation)
    x = torch.randn(3, 1, 28, 28)
    with torch.no_grad():
        expected = network(x, utilisation=utilisation)
        torch.testing.assert_close(narrow(x), expected, rtol=1e-4, atol=1e-5)
    weights = sum(parameter.numel() for parameter in narrow.parameters())
    assert weights == network.used_weights(utilisation)
