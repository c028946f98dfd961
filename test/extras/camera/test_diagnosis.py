"""What is said of a topic by what was seen of it; each fault is staged over the middleware in test/nodes."""

import numpy as np
import pytest

from deadline_perception.extras.camera.diagnosis import (
    IMAGE,
    Arrival,
    Endpoint,
    SeenTopic,
    diagnose,
)

NOW_S = 1_700_000_000.0


def seen(stamps_s, delays_s, reliable=True, numbers=None, size_bytes=1000):
    numbers = range(len(stamps_s)) if numbers is None else numbers
    arrivals = [
        Arrival(NOW_S + stamp_s + delay_s, NOW_S + stamp_s, number, size_bytes)
        for stamp_s, delay_s, number in zip(stamps_s, delays_s, numbers)
    ]
    return SeenTopic('/image', 3.0, [Endpoint('/driver', IMAGE, reliable)], [], arrivals)


def names(topic):
    return [fault.name for fault in diagnose(topic)]


def test_stamps_that_stray_with_the_images_are_those_of_a_busy_machine():
    rng = np.random.default_rng(0)
    even, stray = np.arange(60) * 0.05, rng.normal(0.0, 0.015, 60).clip(-0.02, 0.02)
    delays = rng.uniform(0.001, 0.004, 60)
    assert names(seen(even, delays)) == []
    assert names(seen(even, delays + np.abs(stray))) == [], 'a transport that is busy'
    assert names(seen(even + stray, delays)) == [], 'a driver that is late and says so'
    assert names(seen(even + stray, delays - stray + 0.02)) == ['jittering stamps']


@pytest.mark.parametrize('size_bytes, name', [(900_000, 'shared memory'), (1000, 'lost images')])
def test_lost_images_are_laid_to_shared_memory_where_they_are_large(size_bytes, name):
    kept = np.arange(0, 60, 3)
    lossy = seen(kept * 0.05, np.full(20, 0.002), False, kept, size_bytes)
    assert names(lossy) == [name]
    assert names(seen(np.arange(20) * 0.05, np.full(20, 0.002), False, range(20), size_bytes)) == []


def test_images_that_the_driver_drops_are_counted():
    kept = np.array([count for count in range(60) if count % 4])
    (fault,) = diagnose(seen(kept * 0.05, np.full(45, 0.002)))
    expected = ('dropped images', 'the driver dropped 14 of 59 images at 20.0 Hz')
    assert (fault.name, fault.found) == expected
