import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_elastic import images, made_elastic, noise
from rankings import Ranking, obs_importance, rank_by


def test_two_neurons_by_hand():
    # Mean (2, 1); deviations (2, 0), (-2, 0), (0, 2), (0, -2) and none.
    outputs = torch.tensor([[4.0, 1.0], [0.0, 1.0], [2.0, 3.0], [2.0, -1.0], [2.0, 1.0]])
    # Covariance diag(2, 2), regular; mean squares (28 / 5, 13 / 5); s_q = mean square * 2 / 2.
    found = obs_importance(outputs)
    np.testing.assert_allclose(found, [28 / 5, 13 / 5])


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.integers(0, 50))
def test_agrees_with_the_inverse_of_the_covariance(neurons, seed):
    outputs = noise(60, neurons, seed) @ noise(neurons, neurons, seed + 1) + 0.5
    inverse = np.linalg.inv(np.atleast_2d(np.cov(outputs.numpy().T)))
    expected = outputs.square().mean(0).numpy() / (2.0 * inverse.diagonal())
    np.testing.assert_allclose(obs_importance(outputs), expected, rtol=1e-4)


def test_a_neuron_that_repeats_others_comes_last_however_large_it_is():
    outputs = noise(400, 6)
    outputs = torch.cat((outputs, 5.0 * (outputs[:, :1] + outputs[:, 1:2])), 1)
    weakest = obs_importance(outputs).argsort()[:3].tolist()
    assert set(weakest) == {0, 1, 6}  # each of the three follows from the other two
    slightly = outputs.clone()
    slightly[:, 6] = 0.02 * outputs[:, 6] + 1e-3 * noise(400, 1, 9)[:, 0]
    assert obs_importance(slightly).argmin() == 6


def test_a_redundant_channel_is_the_last_of_its_layer():
    network = made_elastic(('plain',))
    layer = network.body.get_submodule('hidden')
    with torch.no_grad():  # one neuron of the hidden layer repeats another, scaled
        layer.weight[4] = 3.0 * layer.weight[7] + 1e-4 * layer.weight[2]
        layer.bias[4] = 3.0 * layer.bias[7]
    number = next(number for number, group in enumerate(network.groups) if 'hidden' in group.names)
    repeated = getattr(network, f'order{number}')[[4, 7]].tolist()
    network.forget_copies()
    rank_by(network, [images(200)], Ranking.OBS)
    order = getattr(network, f'order{number}').tolist()
    importance = getattr(network, f'importance{number}')
    dead = int((importance == 0).sum())
    assert set(order[len(order) - dead - 2 : len(order) - dead]) == set(repeated)
    assert importance.tolist() == sorted(importance.tolist(), reverse=True)
