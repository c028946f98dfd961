import gc
import weakref
from functools import partial

import pytest
import rclpy
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import TransitionCallbackReturn

from deadline_perception.nodes.health import Level, Report
from deadline_perception.nodes.managed_node import ManagedNode


class Recorded(ManagedNode):
    """Writes down its transitions; refuses to be configured when told so."""

    def __init__(self, name='managed', *, context, refuses=False):
        super().__init__(name, context=context)
        self.calls, self._refuses = [], refuses

    def on_configure(self, state):
        self.calls.append('configure')
        return TransitionCallbackReturn.FAILURE if self._refuses else super().on_configure(state)

    def on_activate(self, state):
        self.calls.append('activate')
        if self._refuses is None:
            raise ZeroDivisionError('made up')
        return super().on_activate(state)

    def _report(self):
        return Report(Level.OK, self._state)

    def _halt(self):
        self.calls.append('halt')

    def _release(self):
        self.calls.append('release')


class Network:
    """Something that can be referred to weakly."""


@pytest.fixture
def make(make_node):
    return partial(make_node, 'managed', Recorded)


def spin(node, condition):
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    for _ in range(600):
        executor.spin_once(timeout_sec=0.1)
        if condition():
            break
    executor.remove_node(node)
    assert condition()


@pytest.mark.parametrize(
    ('refuses', 'calls'), [(False, ['configure', 'activate']), (True, ['configure'])]
)
def test_starts_itself_once_it_is_spun_up_to_active_or_to_what_it_refuses(make, refuses, calls):
    node = make(refuses=refuses)
    node._begin(True)
    assert node.calls == []
    spin(node, lambda: node.calls == calls)


def test_what_was_taken_is_given_back_whichever_way_the_node_ends(make):
    node = make()
    states = []
    for transition in 'configure activate deactivate cleanup configure activate shutdown'.split():
        getattr(node, f'trigger_{transition}')()
        states.append(node._state)
    assert states == 'inactive active inactive unconfigured inactive active finalized'.split()
    assert node.calls == ['configure', 'activate', 'halt', 'release'] * 2


def test_what_was_configured_is_gone_after_cleanup_also_what_is_left_in_a_cycle(make):
    """Else the next network stands beside it, and takes twice the memory and threads."""
    node = make()
    node.trigger_configure()
    node.network = Network()
    node.network.itself, gone = node.network, weakref.ref(node.network)
    node._release = lambda: node.__dict__.pop('network', None)
    gc.disable()
    try:
        node.trigger_cleanup()
        assert gone() is None
    finally:
        gc.enable()


def test_a_transition_that_fails_unexpectedly_leads_back_to_unconfigured_and_says_why(make, capfd):
    node = make(refuses=None)
    node.trigger_configure()
    assert node.trigger_activate() == TransitionCallbackReturn.ERROR
    assert 'ZeroDivisionError: made up' in capfd.readouterr().err
    assert node._state == 'unconfigured' and node.calls[-2:] == ['halt', 'release']
    told = node._refusal_or_report()
    assert told.level == Level.ERROR and 'ZeroDivisionError: made up' in told.message
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    assert node._refusal_or_report().level == Level.OK


class Ended(Recorded):
    """A signal ends ROS in the middle of its transition, which then cannot make its publisher."""

    def on_configure(self, state):
        self.context.shutdown()
        self.create_publisher(State, 'state', 1)


@pytest.mark.slow
def test_a_configuration_that_does_not_end_ends_the_process_with_a_word(start_script):
    node = start_script(
        'endless',
        """
        import time
        import rclpy
        from deadline_perception.nodes import managed_node
        managed_node.MOST_LOADING_S = 0.5
        class Endless(managed_node.ManagedNode):
            def on_configure(self, state):
                time.sleep(1000)
        rclpy.init()
        Endless("endless").trigger_configure()
        """,
    )
    assert node.process.wait(120) == 70
    assert (
        'cannot be configured: loading has taken more than 0 s. This process ends with status 70'
        in node.output
    )


def test_what_fails_because_the_process_ends_meanwhile_is_not_told(capfd):
    context = rclpy.Context()
    rclpy.init(context=context)
    node = Ended(context=context)
    try:
        node.trigger_configure()
    except RuntimeError:  # rclpy's own: the transition cannot be ended either
        pass
    node.destroy_node()
    assert 'Traceback' not in capfd.readouterr().err


@pytest.mark.parametrize(
    'wanted',
    [Transition(id=Transition.TRANSITION_ACTIVATE), Transition(id=99), Transition(label='fly')],
)
def test_request_that_does_not_fit_the_state_is_refused_and_the_next_one_served(make, wanted):
    node = make()
    client = node.create_client(ChangeState, '/managed/change_state')
    spin(node, client.service_is_ready)
    asked = client.call_async(ChangeState.Request(transition=wanted))
    spin(node, asked.done)
    assert not asked.result().success and node.calls == []
    asked = client.call_async(ChangeState.Request(transition=Transition(label='configure')))
    spin(node, asked.done)
    assert asked.result().success and node.calls == ['configure']
