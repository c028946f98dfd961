"""A lifecycle node that starts itself when wanted, and survives requests that do not fit its state."""
from __future__ import annotations

from lifecycle_msgs.srv import ChangeState
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn


class ManagedNode(LifecycleNode):
    """What the lifecycle nodes of this package have in common."""

    def start_by_itself(self) -> None:
        """Configures and, when that worked, activates the node as soon as it is spun."""
        self._starter = self.create_timer(0.0, self._start, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _start(self) -> None:
        self.destroy_timer(self._starter)
        if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    def _LifecycleNodeMixin__on_change_state(self, request: ChangeState.Request,
                                             response: ChangeState.Response) -> ChangeState.Response:
        """Stands before rclpy's own service callback, which lets an illegal transition end the whole process."""
        # The name that Python gives to that private method. Same in rclpy from Humble to Kilted.
        legal = self._state_machine.available_transitions
        wanted = request.transition
        if not any(wanted.label == label if wanted.label else wanted.id == number for number, label, *_ in legal):
            self.get_logger().warning(
                f'transition {wanted.label or wanted.id} refused: in state {self._state_machine.current_state[1]}, '
                f'expected one of {", ".join(f"{label} ({number})" for number, label, *_ in legal)}')
            response.success = False
            return response
        return super()._LifecycleNodeMixin__on_change_state(request, response)
