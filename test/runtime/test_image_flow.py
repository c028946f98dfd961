from __future__ import annotations

import math

import pytest

from deadline_perception.runtime.image_flow import STOPPED_FACTOR, ImageFlow
from deadline_perception.runtime.deadline import TOLD_MS


class Clock:
    now_ms = 1000.0

    def __call__(self):
        return self.now_ms


@pytest.fixture
def clock():
    return Clock()


def test_silence_is_a_concern_and_of_a_camera_that_was_heard_in_the_end_a_fault(clock):
    flow = ImageFlow('/image', 2.0, clock)
    clock.now_ms += 2000.0 * STOPPED_FACTOR + 1.0
    assert flow.concern == 'no image yet on /image for 10.0 s' and not flow.fault
    flow.come()
    assert not flow.concern and not flow.fault
    clock.now_ms += 2001.0
    assert flow.concern == 'no image on /image for 2.0 s' and not flow.fault
    clock.now_ms += 8000.0
    assert flow.fault == 'no image on /image for 10.0 s'
    flow.await_next()  # none could come until now
    assert not flow.fault and not flow.concern


def test_lost_images_are_told_for_some_seconds_with_what_to_give_the_camera_driver(clock):
    flow = ImageFlow('/image', 2.0, clock)
    flow.lose(0)
    assert not flow.loss
    flow.lose(57)
    assert flow.loss.startswith('57 images of /image lost by the middleware')
    assert 'FASTRTPS_DEFAULT_PROFILES_FILE' in flow.loss and 'config/fastdds.xml' in flow.loss
    clock.now_ms += TOLD_MS + 1.0
    assert not flow.loss and flow.lost == 57


@pytest.mark.parametrize('timeout_s', [0.0, -1.0, math.nan, math.inf])
def test_a_timeout_that_is_none_is_refused(timeout_s):
    with pytest.raises(ValueError, match=f'image_timeout_s is {timeout_s} s, expected a finite time above 0 s'):
        ImageFlow('/image', timeout_s)
