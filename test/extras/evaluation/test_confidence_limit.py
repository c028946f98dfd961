import pytest
from scipy.stats import beta

from deadline_perception.extras.evaluation.confidence_limit import clopper_pearson_upper


@pytest.mark.parametrize('misses, frames', [(0, 1), (0, 299), (3, 1000), (17, 20)])
def test_upper_limit_is_that_of_clopper_and_pearson(misses, frames):
    expected = beta.ppf(0.95, misses + 1, frames - misses)
    assert clopper_pearson_upper(misses, frames) == pytest.approx(expected)
    assert clopper_pearson_upper(frames, frames) == 1.0
