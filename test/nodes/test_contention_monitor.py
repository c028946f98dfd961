from __future__ import annotations

import math

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState

from deadline_perception.msg import ContentionState, FrameLatency, PathDecision
from deadline_perception.nodes.contention_monitor import FrameMatcher, gpu_index
from deadline_perception.nodes.messages import ns_to_stamp

PATH = 's00-w1.00-p100-h1'


def decision(stamp_ns, **changes):
    fields = {'path': PATH, 'planned_path': PATH, 'forecast_ms': 60.0, 'slowdown': 1.5, **changes}
    message = PathDecision(**fields)
    message.header.stamp = ns_to_stamp(stamp_ns)
    return message


def latency(stamp_ns, **changes):
    message = FrameLatency(**{'path': PATH, 'outcome': FrameLatency.DETECTED, 'network_ms': 80.0, **changes})
    message.header.stamp = ns_to_stamp(stamp_ns)
    return message


def test_matched_frame_gives_idle_forecast_and_latency_in_either_order():
    frames = FrameMatcher()
    assert frames.add(decision(1)) is None
    assert frames.add(latency(1)) == (40.0, 80.0)
    assert frames.add(latency(2)) is None
    assert frames.add(decision(2)) == (40.0, 80.0)


@pytest.mark.parametrize(('of_decision', 'of_latency'), [
    ({'planned_path': 's11-w1.00-p100-h1'}, {}), ({}, {'outcome': FrameLatency.CARRIED_OVER}),
    ({'path': '', 'planned_path': ''}, {'path': ''}),
    ({'slowdown': math.nan}, {}), ({'slowdown': 0.0}, {})])
def test_frame_that_did_not_run_as_planned_gives_nothing(of_decision, of_latency):
    frames = FrameMatcher()
    frames.add(decision(1, **of_decision))
    assert frames.add(latency(1, **of_latency)) is None


def test_matcher_forgets_frames_whose_partner_never_comes():
    frames = FrameMatcher()
    for stamp_ns in range(100):
        frames.add(decision(stamp_ns))
    assert frames.add(latency(0)) is None
    assert frames.add(latency(99)) == (40.0, 80.0)


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
    wait_for(lambda: observer.status('contention_monitor')[2].get('state') == 'active', 'the diagnostic')
    values = observer.status('contention_monitor')[2]
    assert 'proc_stat' in values['contention_source'] and 'probe' in values['contention_source']


def test_frames_that_take_longer_than_forecast_raise_the_slowdown(start_node, observer, wait_for):
    start_node('contention_monitor')
    heard = observer.hear(ContentionState, 'contention_monitor/state')
    decisions = observer.speaker(PathDecision, 'detector/path')
    latencies = observer.speaker(FrameLatency, 'detector/latency')
    stamp_ns = [0]

    def is_slow():
        stamp_ns[0] += 1
        decisions.publish(decision(stamp_ns[0]))
        latencies.publish(latency(stamp_ns[0], network_ms=4000.0))
        return heard and heard[-1].slowdown > 5.0

    wait_for(is_slow, 'the slowdown')
    assert 'frames' in heard[-1].sources


def test_lifecycle_transitions_and_one_that_fails(start_node, observer, wait_for):
    start_node('contention_monitor', {'autostart': False})
    heard = observer.hear(ContentionState, 'contention_monitor/state')

    def state():
        return observer.call(GetState, 'contention_monitor/get_state', GetState.Request()).current_state.label

    def change(transition):
        request = ChangeState.Request(transition=Transition(id=transition))
        return observer.call(ChangeState, 'contention_monitor/change_state', request).success

    assert state() == 'unconfigured'
    assert not change(Transition.TRANSITION_ACTIVATE)  # not configured yet
    assert state() == 'unconfigured'
    assert change(Transition.TRANSITION_CONFIGURE) and state() == 'inactive'
    assert not heard
    assert change(Transition.TRANSITION_ACTIVATE) and state() == 'active'
    wait_for(lambda: heard, 'a state')
    assert change(Transition.TRANSITION_DEACTIVATE) and state() == 'inactive'
    assert change(Transition.TRANSITION_CLEANUP) and state() == 'unconfigured'
    heard.clear()
    assert change(Transition.TRANSITION_CONFIGURE) and change(Transition.TRANSITION_ACTIVATE)
    wait_for(lambda: heard, 'a state after a second start')
    assert change(Transition.TRANSITION_ACTIVE_SHUTDOWN) and state() == 'finalized'


def test_wrong_device_ends_the_process_with_one_line(start_node):
    node = start_node('contention_monitor', {'device': 'tpu'})
    assert node.wait_ended() == 1
    assert "device is 'tpu', expected cpu, cuda or cuda:N" in node.output and 'Traceback' not in node.output
