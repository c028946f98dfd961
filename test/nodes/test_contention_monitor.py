from __future__ import annotations

import math
import time
from functools import partial

import pytest
from deadline_perception.msg import ContentionState, FrameLatency
from rclpy.serialization import serialize_message

from deadline_perception.nodes.contention_monitor import gpu_index, observe_frame, take_waiting
from deadline_perception.nodes.service_quality import FRAMES
from deadline_perception.timing.contention.slowdown import SlowdownEstimator


def latency(**changes):
    return FrameLatency(
        **{
            'outcome': FrameLatency.DETECTED,
            'idle_forecast_ms': 40.0,
            'network_ms': 80.0,
            **changes,
        }
    )


def learnt(*messages):
    estimator = SlowdownEstimator()
    for message in messages:
        observe_frame(estimator, message)
    return estimator


def test_every_frame_with_its_own_detections_teaches_the_slowdown_of_the_path_that_ran():
    for outcome in (FrameLatency.DETECTED, FrameLatency.LATE):
        assert learnt(*[latency(outcome=outcome)] * 30).slowdown == pytest.approx(2.0, rel=0.05)
    assert learnt(latency(idle_forecast_ms=math.nan)).rejected == 1


def test_a_frame_that_was_given_up_teaches_only_what_it_had_exceeded():
    given_up = {'outcome': FrameLatency.COASTED}
    assert learnt(*[latency(network_ms=20.0, **given_up)] * 5).sources == ()
    assert learnt(*[latency(network_ms=400.0, **given_up)] * 30).slowdown == pytest.approx(
        10.0, rel=0.1
    )
    slow = [latency()] * 30
    assert (
        learnt(*slow, *[latency(network_ms=60.0, **given_up)] * 30).slowdown
        == learnt(*slow).slowdown
    )
    assert learnt(latency(idle_forecast_ms=math.nan, network_ms=0.0, **given_up)).rejected == 0


def test_device_names():
    assert [gpu_index(name) for name in ('cpu', 'cuda', 'cuda:1')] == [0, 0, 1]
    for wrong in ('gpu', 'cuda:x', 'cpu:1', ''):
        with pytest.raises(ValueError, match='expected cpu, cuda or cuda:N'):
            gpu_index(wrong)


def test_state_names_its_sources_and_holds_the_probe(start_node, observer, wait_for):
    start_node('contention_monitor')
    heard = observer.hear(ContentionState, 'contention_monitor/state')
    wait_for(lambda: len(heard) >= 3, 'three states')
    state = heard[-1]
    assert {'proc_stat', 'probe'} <= set(state.sources)
    assert state.slowdown >= 1.0 and state.probe_ms >= 0.5 * state.probe_idle_ms > 0
    assert 0.0 <= state.cpu_utilisation <= 1.0
    assert not state.degraded and state.reason == ''
    wait_for(
        lambda: (
            {'proc_stat', 'probe'}
            <= set(observer.status('contention_monitor')[2].get('contention_source', '').split('+'))
        ),
        'the diagnostic',
    )
    values = observer.status('contention_monitor')[2]
    assert values['state'] == 'active'
    assert values['priority'].startswith('SCHED_OTHER, nice')


def test_all_frames_since_the_last_state_are_in_the_next_and_none_has_one_of_its_own(
    start_node, observer, wait_for
):
    start_node('contention_monitor', {'priority': 'auto'})
    heard = observer.hear(ContentionState, 'contention_monitor/state')
    latencies = observer.speaker(FrameLatency, 'detector/latency')
    wait_for(
        lambda: latencies.publish(latency()) or (heard and 'frames' in heard[-1].sources),
        'a state that knows frames',
    )
    before = len(heard)
    for _ in range(40):
        latencies.publish(latency(network_ms=400.0))
    wait_for(lambda: heard[-1].slowdown > 5.0, 'a state after all frames')
    assert len(heard) <= before + 35


class Flooded:
    """A subscription in whose queue there is always another message."""

    raw, msg_type, topic_name = True, FrameLatency, '/detector/latency'

    def __init__(self):
        self.handle, self.taken = self, 0

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass

    def take_message(self, kind, raw):
        self.taken += 1
        assert self.taken <= 1000, 'it is never done'
        return serialize_message(latency()), {'source_timestamp': self.taken}


def test_a_flood_of_frames_is_left_after_as_many_as_the_queue_holds():
    flooded = Flooded()
    assert len(take_waiting(flooded)) == flooded.taken == FRAMES.depth


def test_frames_that_are_told_late_raise_the_slowdown_too(start_node, observer, wait_for, repeat):
    start_node('contention_monitor')
    heard = observer.hear(ContentionState, 'contention_monitor/state')
    latencies = observer.speaker(FrameLatency, 'detector/late')
    repeat(partial(latencies.publish, latency(network_ms=4000.0)))
    wait_for(lambda: heard and heard[-1].slowdown > 5.0, 'the slowdown')
    assert 'frames' in heard[-1].sources


def test_one_pause_of_one_frame_is_no_load_though_it_is_told_on_two_topics(
    start_node, observer, wait_for
):
    start_node('contention_monitor')
    heard = observer.hear(ContentionState, 'contention_monitor/state')
    latencies, lates = (
        observer.speaker(FrameLatency, f'detector/{name}') for name in ('latency', 'late')
    )
    ordinary = latency(idle_forecast_ms=20.0, network_ms=20.0, bound_ms=30.0)
    wait_for(
        lambda: latencies.publish(ordinary) or (heard and 'frames' in heard[-1].sources),
        'a state that knows frames',
    )
    for _ in range(40):
        latencies.publish(ordinary)
    before = len(heard)
    wait_for(lambda: len(heard) >= before + 2, 'a state after all frames')
    latencies.publish(
        latency(
            outcome=FrameLatency.COASTED, idle_forecast_ms=20.0, network_ms=100.0, bound_ms=30.0
        )
    )
    time.sleep(0.01)
    lates.publish(
        latency(outcome=FrameLatency.LATE, idle_forecast_ms=20.0, network_ms=300.0, bound_ms=30.0)
    )
    time.sleep(0.01)
    latencies.publish(ordinary)
    before = len(heard)
    wait_for(lambda: len(heard) >= before + 3, 'states after the pause')
    assert heard[-1].slowdown < 2.0


def test_it_works_again_after_it_was_cleaned_up(start_node, observer, wait_for):
    start_node('contention_monitor', {'autostart': False})
    heard = observer.hear(ContentionState, 'contention_monitor/state')
    state, change = (
        partial(ask, 'contention_monitor') for ask in (observer.state, observer.change)
    )
    assert change('configure') and state() == 'inactive'
    assert not heard
    assert change('activate') and state() == 'active'
    wait_for(lambda: heard, 'a state')
    assert change('deactivate') and state() == 'inactive'
    assert change('cleanup') and state() == 'unconfigured'
    heard.clear()
    assert change('configure') and change('activate')
    wait_for(lambda: heard, 'a state after a second start')
    assert change('shutdown') and state() == 'finalized'
