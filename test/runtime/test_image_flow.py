import math
import random

import pytest
from hand_clock import Clock

from deadline_perception.runtime.image_flow import (
    STOPPED_FACTOR,
    TOLD_MS,
    ImageAge,
    ImageFlow,
    RateLimit,
)

SECOND = 1_000_000_000


@pytest.fixture
def clock():
    return Clock()


def test_silence_is_a_concern_and_of_a_camera_that_was_heard_in_the_end_a_fault(clock):
    flow = ImageFlow('/image', clock)
    clock.ms += 2000.0 * STOPPED_FACTOR + 1.0
    assert flow.concern == 'no image yet on /image for 10.0 s' and not flow.fault
    flow.come()
    assert not flow.concern and not flow.fault
    clock.ms += 2001.0
    assert flow.concern == 'no image on /image for 2.0 s' and not flow.fault
    clock.ms += 8000.0
    assert flow.fault == 'no image on /image for 10.0 s'
    flow.await_next()  # none could come until now
    assert not flow.fault and not flow.concern


def test_lost_images_are_told_for_some_seconds_with_what_to_give_the_camera_driver(clock):
    flow = ImageFlow('/image', clock)
    flow.lose(0)
    assert not flow.loss
    flow.lose(57)
    assert flow.loss.startswith('57 images of /image lost by the middleware')
    assert 'FASTRTPS_DEFAULT_PROFILES_FILE' in flow.loss and 'config/fastdds.xml' in flow.loss
    clock.ms += TOLD_MS + 1.0
    assert not flow.loss and flow.lost == 57


@pytest.mark.parametrize(
    'stamp_ns, now_ns, simulated, age_ms, reason',
    [
        (5 * SECOND, 5 * SECOND + 12_000_000, False, 12.0, ''),
        # A clock may lag a little, and a simulated one by a second.
        (SECOND + 15_000_000, SECOND, False, 0.0, ''),
        (SECOND + 900_000_000, SECOND, True, 0.0, ''),
        (SECOND + 1_100_000_000, SECOND, True, math.nan, '1100 ms in the future, expected at most'),
        (0, 5 * SECOND, False, math.nan, 'stamp is zero'),
        (5 * SECOND, 4 * SECOND, False, math.nan, '1000 ms in the future'),
        (5 * SECOND, 65 * SECOND, False, math.nan, '60 s old'),
    ],
)
def test_age_is_clock_minus_stamp_where_that_can_be(stamp_ns, now_ns, simulated, age_ms, reason):
    reading = ImageAge(simulated=simulated).read(stamp_ns, now_ns)
    assert reading.age_ms == pytest.approx(age_ms, nan_ok=True)
    assert reason in reading.reason and bool(reason) == bool(reading.reason)
    known_ms = 0.0 if reason else age_ms
    assert (reading.known_age_ms, reading.stamp_ns) == (pytest.approx(known_ms), stamp_ns)
    ages = ImageAge()  # a stamp that went back is noticed once, and the next one counts again
    for stamp_s, said in ((9, ''), (5, 'went back by 4000 ms'), (6, '')):
        back = ages.read(stamp_s * SECOND, stamp_s * SECOND).reason
        assert said in back and bool(said) == bool(back)


def taken(limit, stamps_ms, most_hz):
    return [stamp_ms for stamp_ms in stamps_ms if limit.takes(stamp_ms, most_hz)]


@pytest.mark.parametrize('camera_hz', [7.0, 30.0, 33.0])
@pytest.mark.parametrize('most_hz', [2.0, 10.0, 15.0])
def test_at_most_the_rate_and_not_much_less(camera_hz, most_hz):
    rng = random.Random(0)
    stamps_ms = [1000.0 * number / camera_hz + rng.uniform(-2.0, 2.0) for number in range(1000)]
    rate_hz = (len(taken(RateLimit(), stamps_ms, most_hz)) - 1) / stamps_ms[-1] * 1000.0
    assert 0.98 * min(most_hz, camera_hz) <= rate_hz <= 1.01 * min(most_hz, camera_hz)


def test_no_limit_takes_all_and_a_raised_one_and_a_clock_that_was_set_back_take_force_at_once():
    limit = RateLimit()
    assert len(taken(limit, range(100), 0.0)) == 100 and limit.left_out == 0
    limit = RateLimit()
    assert taken(limit, [0.0, 100.0], 0.1) == [0.0]
    assert taken(limit, [200.0, 310.0], 10.0) == [310.0]
    assert taken(limit, [5.0], 10.0) == [5.0]
