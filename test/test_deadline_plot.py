"""The picture of the deadline benchmark is drawn from what it wrote, without running it."""
from __future__ import annotations

import cv2
import pytest


@pytest.fixture(scope='module')
def deadline_plot(load_benchmark):
    return load_benchmark('deadline_plot')


def load(frames: int, ap: float | None) -> dict:
    """Figures of a load as deadlines.json holds them, of as many policies as are drawn."""
    possible = {'frames': frames, 'misses': 1, 'ratio': 1 / frames}
    policy = {'possible': possible, 'ap': ap, 'ap_interval_95': [None if ap is None else 0.1, None],
              'by_budget': [{'to_ms': to_ms, 'ap': ap} for to_ms in (100.0, 250.0, 250.0)],
              'trace': [[100.0, 90.0], [250.0, 260.0], [250.0, 120.0]]}
    return {'frames': frames, 'policies': dict.fromkeys(('frontier', 'thresholds', 'oblivious', 'reactive_1',
                                                         'median clairvoyant'), policy),
            'long_part': {'frames': 9, 'possible': {'frames': 0, 'misses': 0, 'ratio': None}}}


def test_draws_a_column_for_each_load_also_where_nothing_is_known(deadline_plot, tmp_path):
    result = {'date': 'today', 'device': 'some processor', 'data': 'a drive'}
    for loads in ({'alone': load(3, 0.25)}, {'alone': load(3, 0.25), 'beside 2 tenants': load(3, None)}):
        deadline_plot.draw({**result, 'loads': loads}, tmp_path / 'drawn.png')
        assert cv2.imread(str(tmp_path / 'drawn.png')).shape == (1280, 600 * len(loads), 3)


def test_ranges_of_budgets_have_names_of_their_own(deadline_plot):
    assert deadline_plot.ranges([71.4, 100.0, 250.0], [100.0, 250.0, 250.0]) == ['71 to 100 ms', '100 to 250 ms',
                                                                                 '250 ms']
