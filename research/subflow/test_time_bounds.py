import math

import numpy as np
import pytest
from time_bounds import TimeBounds

TIMES = {0.5: 9.0, 0.25: 10.0, 1.0: 30.0}


@pytest.mark.parametrize(
    'budget_ms, utilisation, fits',
    [
        (30.0, 1.0, True),
        (29.9, 0.5, True),
        (10.0, 0.5, True),
        (9.9, 0.25, False),
        (-3.0, 0.25, False),
        (math.inf, 1.0, True),
    ],
)
def test_takes_the_largest_whose_bound_fits(budget_ms, utilisation, fits):
    fit = TimeBounds(TIMES, 0.01, 1.0).fit(budget_ms)
    expected = (utilisation, fits, 30.0 if utilisation == 1.0 else 10.0)
    assert (fit.utilisation, fit.fits_budget, fit.bound_ms) == expected


def test_jobs_exceed_their_budget_with_the_target_probability_at_most():
    rng = np.random.default_rng(0)
    spread = 0.3
    bounds = TimeBounds({u / 10: 2.0 + 3.0 * u for u in range(1, 11)}, 0.01)
    late = 0
    beyond = 0
    jobs = 6000
    slowdown = np.exp(np.cumsum(rng.normal(0.0, 0.003, jobs)))
    for job in range(jobs):
        budget_ms = rng.uniform(8.0, 40.0) * slowdown[job] * (1.0 + 2.0 * spread)
        fit = bounds.fit(budget_ms)
        took_ms = (2.0 + 30.0 * fit.utilisation) * slowdown[job] * rng.lognormal(0.0, spread)
        late += fit.fits_budget and took_ms > budget_ms
        beyond += took_ms > fit.bound_ms
        bounds.observe(fit.utilisation, took_ms)
    assert late <= 0.01 * jobs
    assert beyond == pytest.approx(0.01 * jobs, abs=40)
