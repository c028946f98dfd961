import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_elastic import noise
from rankings import obs_importance


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.integers(0, 50))
def test_agrees_with_the_inverse_of_the_covariance(neurons, seed):
    outputs = noise(60, neurons, seed) @ noise(neurons, neurons, seed + 1) + 0.5
    inverse = np.linalg.inv(np.atleast_2d(np.cov(outputs.numpy().T)))
    expected = outputs.square().mean(0).numpy() / (2.0 * inverse.diagonal())
    np.testing.assert_allclose(obs_importance(outputs), expected, rtol=1e-4)
