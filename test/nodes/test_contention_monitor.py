import math
import time
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import pytest
from deadline_perception.msg import ContentionState, FrameLatency

from deadline_perception.nodes.contention_monitor import observe_frame, take_waiting
from deadline_perception.nodes.service_quality import FRAMES
from deadline_perception.timing.contention.slowdown import SlowdownEstimator


def latency(outcome=FrameLatency.DETECTED, idle_forecast_ms=40.0, network_ms=80.0, **changes):
    times = {'idle_forecast_ms': idle_forecast_ms, 'network_ms': network_ms}
    return FrameLatency(outcome=outcome, **times, **changes)


def learnt(*messages):
    estimator = SlowdownEstimator()
    for message in messages:
        observe_frame(estimator, message)
    return estimator


def test_every_frame_with_its_own_detections_teaches_the_slowdown_of_the_path_that_ran():
    for outcome in (FrameLatency.DETECTED, FrameLatency.LATE):
        assert learnt(*[latency(outcome=outcome)] * 30).slowdown == pytest.approx(2.0, rel=0.05)
    assert learnt(latency(idle_forecast_ms=math.nan)).sources == ()


def test_a_flood_of_frames_is_left_after_as_many_as_the_queue_holds():
    handle, numbers = nullcontext(), iter(range(1000))  # there is always another one
    handle.take_message = lambda kind, raw: (raw, {'source_timestamp': next(numbers)})
    subscription = SimpleNamespace(handle=handle, msg_type=FrameLatency)
    assert len(take_waiting(subscription)) == FRAMES.depth == next(numbers)


def test_states_know_probe_and_frames_until_the_lifecycle_ends(start_node, observer, wait_for):
    start_node('contention_monitor', {'autostart': False})
    heard = observer.hear(ContentionState, 'contention_monitor/state')
    asks = observer.state, observer.change, observer.status
    state, change, status = (partial(ask, 'contention_monitor') for ask in asks)
    assert change('configure') and state() == 'inactive'
    assert not heard
    assert change('activate') and state() == 'active'
    # The share of busy cores is known between two looks.
    wait_for(lambda: len(heard) > 1 and 'probe' in heard[-1].sources, 'two states')
    first = heard[-1]
    assert first.slowdown >= 1.0 and first.probe_ms >= 0.5 * first.probe_idle_ms > 0
    assert 'proc_stat' in first.sources and 0.0 <= first.cpu_utilisation <= 1.0
    assert not first.degraded and first.reason == ''
    wait_for(lambda: 'probe' in status()[2].get('contention_source', ''))
    values = status()[2]
    assert values['state'] == 'active' and values['priority'].startswith('SCHED_OTHER, nice')
    assert change('deactivate') and state() == 'inactive'
    assert change('cleanup') and state() == 'unconfigured'
    heard.clear()
    assert change('configure') and change('activate')
    wait_for(lambda: heard, 'a state after a second start')
    lates = observer.speaker(FrameLatency, 'detector/late')
    wait_for(lambda: lates.publish(latency(network_ms=4000.0)) or heard[-1].slowdown > 5.0)
    assert 'frames' in heard[-1].sources
    assert change('shutdown') and state() == 'finalized'


def test_one_pause_told_on_two_topics_is_no_load(start_node, observer, wait_for):
    start_node('contention_monitor', {'priority': 'auto'})
    heard = observer.hear(ContentionState, 'contention_monitor/state')
    topics = 'detector/latency', 'detector/late'
    latencies, lates = (observer.speaker(FrameLatency, topic) for topic in topics)

    def frame(network_ms, outcome=FrameLatency.DETECTED):
        return latency(outcome=outcome, idle_forecast_ms=20.0, network_ms=network_ms, bound_ms=30.0)

    def next_states(count):
        before = len(heard)
        wait_for(lambda: len(heard) >= before + count, 'states after all frames')

    wait_for(lambda: latencies.publish(frame(20.0)) or (heard and 'frames' in heard[-1].sources))
    for _ in range(40):
        latencies.publish(frame(20.0))
    next_states(2)
    latencies.publish(frame(100.0, FrameLatency.COASTED))
    time.sleep(0.01)  # what follows has a later stamp
    lates.publish(frame(300.0, FrameLatency.LATE))
    time.sleep(0.01)
    latencies.publish(frame(20.0))
    next_states(3)
    assert heard[-1].slowdown < 2.0
    for _ in range(40):  # and all frames since the last state are in the next
        latencies.publish(latency(network_ms=400.0))
    wait_for(lambda: heard[-1].slowdown > 5.0, 'a state after all frames')
