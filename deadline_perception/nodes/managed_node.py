"""A lifecycle node that starts itself when wanted, and survives requests that do not fit its state."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import ChangeState
from rclpy.lifecycle import (
    LifecycleNode,
    LifecyclePublisher,
    LifecycleState,
    TransitionCallbackReturn,
)
from rclpy.qos import QoSProfile

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.process_memory import give_back_memory
from deadline_perception.nodes.health import Health, Level, Report
from deadline_perception.nodes.periodic_clock import steady_timer
from deadline_perception.nodes.process import interruptible
from deadline_perception.nodes.service_quality import RESULTS, publisher_events

# What loading raises of files and parameters that do not fit, with words for whoever gave them.
_EXPECTED = (DeadlinePerceptionError, ValueError, OSError)
MOST_LOADING_S = (
    1800.0  # of a configuration; a model file may compute without end, and no thread can be ended
)
REPLACE_STATUS = 70  # EX_SOFTWARE of sysexits.h: only another process can go on
_HANGS = 'the network still hangs in a frame'
END_AFTER_S = 1.0  # a process that must be replaced answers and reports first
_BECOMES = {
    State.TRANSITION_STATE_CONFIGURING: 'configured',
    State.TRANSITION_STATE_ACTIVATING: 'activated',
}

_Transition = Callable[[LifecycleState], TransitionCallbackReturn]


def cause(error: BaseException) -> str:
    """Why something failed, in one line; by its type as well where the words were not written for a person."""
    words = ' '.join(str(error).split())
    return (
        words
        if words and isinstance(error, _EXPECTED)
        else f'{type(error).__name__}: {words}'.rstrip(': ')
    )


def _start_timer(delay_s: float, call: Callable[..., object], argument: object) -> threading.Timer:
    timer = threading.Timer(delay_s, call, (argument,))
    timer.daemon = True
    timer.start()
    return timer


class ManagedNode(LifecycleNode):
    """What the lifecycle nodes of this package have in common.

    A node ends its own `__init__` with `_begin`, and says in `_report` how it does. It takes what it needs in
    `on_configure` and `on_activate`, which end by calling those here, and gives it back in `_halt` and `_release`,
    which are called in any state, also twice. `_state` is the state by name.
    """

    _state = 'unconfigured'
    _refusal = ''  # why the node is not configured; empty while nothing is wrong

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._outputs: list[LifecyclePublisher] = []
        # rclpy's own table of the methods above, the same from Humble to Kilted.
        self._callbacks = {
            state: partial(self._guarded, callback, _BECOMES.get(state, ''))
            for state, callback in self._callbacks.items()
        }

    def _still_hangs(self) -> bool:
        """A job that was at work when the node was last active has not come back."""
        return False

    def _guarded(
        self, callback: _Transition, becomes: str, state: LifecycleState
    ) -> TransitionCallbackReturn:
        """Logs what a transition raises, which rclpy makes into its result without a word. Ends the process where none
        can begin beside a network that hangs, or a configuration does not end."""
        if becomes and self._still_hangs():
            self._end_process(f'cannot be {becomes}: {_HANGS}')
            return TransitionCallbackReturn.FAILURE
        if becomes != 'configured':
            return self._told(callback, state)
        words = f'cannot be configured: loading has taken more than {MOST_LOADING_S:.0f} s'
        limit = _start_timer(MOST_LOADING_S, self._end_process, words)
        try:
            with interruptible():
                return self._told(callback, state)
        finally:
            limit.cancel()

    def _end_process(self, why: str) -> None:
        """No thread can be ended, and what computes beside a hanging one would wait for the same locks and memory."""
        _start_timer(END_AFTER_S, os._exit, REPLACE_STATUS)
        self._refusal = (
            f'{why}. This process ends with status {REPLACE_STATUS}, so that launch or a service manager '
            f'replaces it'
        )
        self.get_logger().fatal(self._refusal)
        self._health.publish()

    def _told(self, callback: _Transition, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            return callback(state)
        except (
            Exception,
            SystemExit,
        ) as error:  # rclpy goes on with on_error; a library's exit is not the process's
            if self.context.ok():
                self._refusal = f'a transition failed: {cause(error)}'
                self.get_logger().error(traceback.format_exc())
            raise RuntimeError(cause(error)) from error

    def _refuse(self, error: BaseException) -> TransitionCallbackReturn:
        """Stays unconfigured, and says why."""
        again = bool(self._refusal)
        self._refusal = f'cannot be configured: {cause(error)}'
        if not isinstance(error, _EXPECTED):
            self.get_logger().error(''.join(traceback.format_exception(error)))
        self._release()
        self._health.publish()  # which logs what is new
        if again:
            self.get_logger().error(self._refusal)
        return TransitionCallbackReturn.FAILURE

    def _output(
        self,
        kind: type,
        topic: str,
        quality: QoSProfile = RESULTS,
    ) -> Callable[[Any], None]:
        """What publishes to a topic, until `_release`."""
        publisher = self.create_lifecycle_publisher(
            kind, topic, quality, event_callbacks=publisher_events(self, topic)
        )
        self._outputs.append(publisher)
        return publisher.publish

    def _halt(self) -> None:
        """Ends the work of an active node."""

    def _release(self) -> None:
        """Lets go of what `on_configure` took, also the outputs."""
        for publisher in self._outputs:
            self.destroy_lifecycle_publisher(publisher)
        self._outputs.clear()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._state = 'inactive'
        self._refusal = ''
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._state = 'active'
        self._refusal = ''
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._halt()
        self._state = 'inactive'
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._release()
        give_back_memory()  # also what is left in cycles, which would stand beside what is configured next
        self._state = 'unconfigured'
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._halt()
        self._release()
        self._state = 'finalized'
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Back to unconfigured after an error that nobody expected."""
        self._halt()
        self._release()
        self._state = 'unconfigured'
        return TransitionCallbackReturn.SUCCESS

    def destroy_node(self) -> None:
        """Ends the work before the node's publishers go."""
        self._halt()
        self._release()
        super().destroy_node()
        self._state_machine.destroy_when_not_in_use()  # which rclpy leaves, and with it the shared memory

    def _begin(self, autostart: bool, hardware_id: str = '') -> None:
        """Reports on itself from now on with `_report`, and is configured and activated as soon as it is spun."""
        self._health = Health(self, self._refusal_or_report, hardware_id=hardware_id)
        if autostart:
            self._starter = steady_timer(self, 0.0, self._start)

    def _report(self) -> Report:
        raise NotImplementedError

    def _refusal_or_report(self) -> Report:
        report = self._report()
        problem = self._refusal or (
            _HANGS if self._state != 'active' and self._still_hangs() else ''
        )
        return replace(report, level=Level.ERROR, message=problem) if problem else report

    def _start(self) -> None:
        self.destroy_timer(self._starter)
        if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    def _LifecycleNodeMixin__on_change_state(
        self, request: ChangeState.Request, response: ChangeState.Response
    ) -> ChangeState.Response:
        """Stands before rclpy's own service callback, which lets an illegal transition end the whole process."""
        # The name that Python gives to that private method. Same in rclpy from Humble to Kilted.
        legal = self._state_machine.available_transitions
        wanted = request.transition
        if not any(
            wanted.label == label if wanted.label else wanted.id == number
            for number, label, *_ in legal
        ):
            self.get_logger().warning(
                f'transition {wanted.label or wanted.id} refused: in state {self._state_machine.current_state[1]}, '
                f'expected one of {", ".join(f"{label} ({number})" for number, label, *_ in legal)}'
            )
            response.success = False
            return response
        return super()._LifecycleNodeMixin__on_change_state(request, response)  # type: ignore[misc]  # private
