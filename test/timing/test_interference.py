import math

import numpy as np
import pytest

from deadline_perception.timing.interference import Interference, interference_of


def test_every_window_by_hand() -> None:
    """One interruption of 3 ms in each 10 ms: none takes more of a window, and two of one of 13 ms."""
    gaps = [(10.0 * number, 3.0) for number in range(100)]
    found = interference_of(gaps, 1000.0, 1.0)
    assert found.windows_ms == (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
    assert found.taken_ms == pytest.approx((0.5, 1.0, 2.0, 3.0, 3.0, 6.0, 15.0, 30.0, 60.0))


def test_response_time_by_hand() -> None:
    """3 ms of each 10 ms: 6 ms have ended after 9, since interruptions take 3 of these."""
    interference = Interference((5.0, 10.0, 20.0), (3.0, 3.0, 6.0))
    assert float(interference.response_ms(6.0)) == pytest.approx(9.0)
    assert float(interference.response_ms(0.0)) == 0.0
    beyond_ms = float(interference.response_ms(70.0))
    assert beyond_ms == pytest.approx(100.0), 'three tenths, beyond the longest window'
    assert interference.response_ms(np.array([[6.0], [70.0]])).shape == (2, 1)
    assert float(Interference().response_ms(12.0)) == 12.0, 'nothing was measured'
    assert float(Interference((10.0,), (10.0,)).response_ms(1.0)) == math.inf, 'it takes all'
    # A longer window with less time left: of 16 ms 6 are left, of 10 ms 8, and 10 of 20.
    ended_ms = Interference((10.0, 16.0, 20.0), (2.0, 10.0, 10.0)).response_ms(np.array([1.0, 8.5]))
    assert ended_ms == pytest.approx([3.0, 18.5])
