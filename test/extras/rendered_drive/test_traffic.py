import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.extras.rendered_drive.traffic import (
    MAX_ACCELERATION_MPS2,
    MAX_BRAKING_MPS2,
    MAX_SPEED_MPS,
    STEP_S,
    Junction,
    Lane,
    drive_along,
)


def lane(starts, speeds, direction=1):
    starts, speeds = np.asarray(starts, float), np.asarray(speeds, float)
    wanted = np.full(len(starts), 20.0)
    lengths = np.full(len(starts), 4.5)
    return Lane(direction, 1.75, starts, speeds, wanted, lengths)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(14, 60), min_size=1, max_size=6), st.floats(5, 13), st.floats(60, 200))
def test_nobody_collides_and_changes_of_speed_are_bounded(distances, speed, light_m):
    starts = np.cumsum([0.0, *distances])
    junction = Junction(light_m, holds_ego=True, hold_s=2.0, release_m=0.0, phase_s=0.0)
    motion = drive_along([lane(starts, np.full(len(starts), speed))], [junction], 25.0)
    speeds, places = motion.speeds_mps[0], motion.positions_m[0]
    assert (np.diff(places, axis=1) - 4.5).min() > 0.5
    assert speeds.min() >= 0 and speeds.max() <= MAX_SPEED_MPS
    change = np.diff(speeds, axis=0) / STEP_S
    assert change.max() <= MAX_ACCELERATION_MPS2 + 1e-6 and change.min() >= -MAX_BRAKING_MPS2 - 1e-6
    assert np.diff(places, axis=0) == pytest.approx((speeds[1:] + speeds[:-1]) / 2 * STEP_S)
