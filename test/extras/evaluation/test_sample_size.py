import pytest

from deadline_perception.extras.evaluation.sample_size import bounded_share, samples_needed


@pytest.mark.parametrize(
    'probability, needed', [(0.99, 299), (0.95, 59), (0.9, 29), (0.999, 2995), (0.01, 1)]
)
def test_number_of_samples_that_bound_a_quantile_is_the_published_one(probability, needed):
    assert samples_needed(probability) == needed
    assert bounded_share(needed) >= probability
    assert needed == 1 or bounded_share(needed - 1) < probability
