"""Worst cases of paths and of what is left of them."""
from __future__ import annotations

import pytest

from deadline_perception.execution_path import SKIP, WIDTH, Operator, PathSpace, Segment
from deadline_perception.latency.interference import Interference
from deadline_perception.latency.wcet_forecast import WcetForecast
from deadline_perception.latency.wcet_table import WcetTable

SPACE = PathSpace((Operator('width', WIDTH, (0.5, 1.0), 'w'), Operator('skip', SKIP, ('0', '1'), 's')),
                  (Segment('first', 'conv', 'width', ('width',)), Segment('more', 'conv', 'skip', ('width',)),
                   Segment('last', 'post')))
TIMES = {'first@w0.50': 2.0, 'first@w1.00': 4.0, 'more@w0.50': 1.0, 'more@w1.00': 3.0, 'last': 1.0}


def test_interruptions_are_added_once_to_what_is_left() -> None:
    worst = WcetForecast(SPACE, WcetTable(TIMES, Interference((1.0, 100.0), (0.5, 0.5))))
    largest = SPACE.largest
    assert [worst.forecast_ms(largest, segment) for segment in range(4)] == pytest.approx([8.5, 4.5, 1.5, 0.0])
    assert worst.table([largest, SPACE.smallest], 0).tolist() == pytest.approx([8.5, 3.5])
    assert worst.segment_ms(1, largest) == 3.0


def test_a_table_that_lacks_a_segment_is_refused() -> None:
    with pytest.raises(ValueError, match='1 segments have no worst case, such as last'):
        WcetForecast(SPACE, WcetTable({key: value for key, value in TIMES.items() if key != 'last'}, Interference()))
