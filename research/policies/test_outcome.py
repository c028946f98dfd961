import math

import pytest
from outcome import check_outcome


def test_outcomes_that_no_frame_can_have_are_refused():
    assert check_outcome(math.inf, -3.0) is None
    assert check_outcome(0.0, math.inf) is None
    for latency_ms, remaining_ms in ((math.nan, 1.0), (-0.1, 1.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match=f'frame took {latency_ms} ms of {remaining_ms} ms'):
            check_outcome(latency_ms, remaining_ms)
