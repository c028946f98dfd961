"""The prefix form of a sub-network against the masked network that SubFlow defines, and what an elastic network
promises."""

import pytest
import torch
from element_form import MaskedNetwork
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_elastic import BLOCKS, images, made_elastic, made_up

from deadline_perception.extras.elastic.elastic import (
    CalibrationError,
    elastic,
    settle_norms,
    structure,
)

networks = st.builds(
    made_elastic,
    st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=3).map(tuple),
    st.booleans(),
    st.integers(0, 10),
)
utilisations = st.one_of(st.sampled_from((0.25, 0.5, 1.0)), st.floats(0.01, 1.0))


@settings(max_examples=25, deadline=None)
@given(network=networks, utilisation=utilisations)
def test_prefix_form_computes_what_the_masked_network_does(network, utilisation):
    expected = MaskedNetwork(network, network.activate(utilisation)).compute(images())
    for is_trained in (False, False, True):  # the second time with laid-out weights
        with torch.set_grad_enabled(is_trained):
            found = network(images(), utilisation=utilisation)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('kind', BLOCKS)
def test_every_kind_of_block_is_narrowed(kind):
    network = made_elastic((kind,))
    with torch.no_grad():
        full, narrow = network(images()), network(images(), utilisation=0.25)
    assert network.used_weights(0.25) < 0.5 * network.used_weights(1.0) == 0.5 * network.weights
    assert not torch.allclose(full, narrow, rtol=0.01)


def test_norms_have_the_statistics_of_their_setting():
    module = made_up(('batch',))
    network = structure(module, (images(1),), (0.5, 1.0))
    norm = next(layer for layer in network.elastic_layers() if hasattr(layer, 'running_mean'))
    settle_norms(network, [images(64)])
    assert torch.equal(norm.running_mean[1], module.blocks[0].norm.running_mean)
    heard = []
    first = network.body.get_submodule('blocks.0.first')
    first.norm.register_forward_pre_hook(lambda layer, inputs: heard.append(inputs[0]))
    network(images(64), utilisation=0.5)
    found = norm.running_var[0, :4], norm.running_mean[0, :4]
    expected = torch.var_mean(heard[0], (0, 2, 3))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('utilisation', [0.0, -0.5, 1.01, float('nan'), '0.5'])
def test_refuses_what_is_no_utilisation(utilisation):
    with pytest.raises(ValueError, match=r'utilisation is .*expected a number in \(0, 1\]'):
        made_elastic()(images(), utilisation=utilisation)


@pytest.mark.parametrize(
    'data, message',
    [
        (torch.zeros(0, 3, 8, 8), 'are empty'),
        ([], 'are empty'),
        (torch.zeros(4, 1, 8, 8), r'shape \(4, 1, 8, 8\)'),
        (torch.zeros(4, 3, 8, 8).double(), 'float64'),
        (torch.full((4, 3, 8, 8), torch.nan), 'NaN'),
    ],
)
def test_refuses_calibration_data_that_say_nothing(data, message):
    with pytest.raises(CalibrationError, match=message):
        elastic(made_up(('plain',)), (images(1),), data)
