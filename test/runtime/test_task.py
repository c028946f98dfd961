from __future__ import annotations

from types import SimpleNamespace

import pytest

from deadline_perception.runtime.task import Outlook, Task


class Scaled:
    """Expects the same of every path."""

    def __init__(self, over_slowdown_ms: float) -> None:
        self.over_slowdown_ms = over_slowdown_ms

    def forecast_ms(self, path, segment=0):
        return self.over_slowdown_ms


# A path that is slowed down less than others: 10, 13.5 and 14 ms.
IDLE, LOW, HIGH = Scaled(10.0), Scaled(9.0), Scaled(7.0)
TASK = Task(SimpleNamespace(), IDLE, 'idle policy', None, outlooks=(
    Outlook(1.0, IDLE, 'idle policy'), Outlook(1.5, LOW, 'low policy'), Outlook(2.0, HIGH, 'high policy')))


@pytest.mark.parametrize(('slowdown', 'policy'), [(1.0, 'idle policy'), (1.49, 'idle policy'), (1.5, 'low policy'),
                                                  (1.99, 'low policy'), (2.0, 'high policy'), (50.0, 'high policy')])
def test_the_outlook_is_that_of_the_range_of_the_slowdown(slowdown, policy):
    assert TASK.outlook(slowdown).policy == policy


def test_without_levels_one_outlook_serves_all():
    plain = Task(SimpleNamespace(), IDLE, 'only policy', None)
    assert plain.outlook(1.0).forecast is plain.outlook(9.0).forecast is IDLE
    assert plain.met_forecast_ms(None, 35.0) == 10.0


@pytest.mark.parametrize(('took_ms', 'slowdown'), [(8.0, 0.8), (12.0, 1.2), (13.5, 1.5), (14.0, 2.0), (21.0, 3.0)])
def test_one_frame_tells_the_slowdown_that_it_met_however_little_its_path_is_stretched(took_ms, slowdown):
    assert took_ms / TASK.met_forecast_ms(None, took_ms) == pytest.approx(slowdown)
