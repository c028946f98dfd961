from __future__ import annotations

import cv2
import numpy as np
from contention_plot import draw_grading
from levels import (
    ContentionGrading,
    UnitDelay,
    grade_levels,
    match_units,
)


def test_a_picture_of_delays_levels_and_units_is_written(tmp_path):
    rng = np.random.default_rng(0)
    delays = np.concatenate([rng.normal(level_ms, 1.0, 60) for level_ms in (40.0, 70.0)])
    beside = tuple(
        UnitDelay({kind: count} if count else {}, 40.0 + 10.0 * count)
        for kind in ('core', 'memory')
        for count in range(kind == 'memory', 4)
    )
    grading = ContentionGrading(
        'compact',
        'abc',
        's1',
        'cpu',
        '',
        'a bag',
        match_units(grade_levels(delays), beside),
        beside,
        tuple(delays),
    )
    draw_grading(grading, tmp_path / 'new' / 'levels.png')
    picture = cv2.imread(str(tmp_path / 'new' / 'levels.png'))
    red = (picture[:, :, 2] > 150) & (picture[:, :, 1] < 80) & (picture[:, :, 0] < 80)
    assert np.sum(red.sum(axis=1) > 0.5 * picture.shape[1]) >= 2  # a line for each level
