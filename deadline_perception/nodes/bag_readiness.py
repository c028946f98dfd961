"""Waits until every node is there and those with the lifecycle are active, or says why it never will be. Ends with
status 0 or 1.

A bag that starts to play before everybody listens loses its first frames.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import GetState
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from rclpy.utilities import remove_ros_args

from deadline_perception.nodes.node_table import NODES, OPTIONAL_NODES
from deadline_perception.nodes.periodic_clock import steady_timer
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import DIAGNOSTICS

PERIOD_S = 0.2
TIMEOUT_S = 600.0  # a node on a device that nobody prepared prepares first
ANSWER_ROUNDS = 15  # a request to a node that was killed is never answered


class ReadinessNode(Node):
    """Asks again and again whether nodes of these names are there; `finished` gets the exit status."""

    def __init__(self, awaited: Sequence[str]) -> None:
        super().__init__('readiness')
        self.finished = Future()
        self._names = list(awaited)
        self._states = {
            entry.name: self.create_client(GetState, f'{entry.name}/get_state')
            for entry in (*NODES, *OPTIONAL_NODES)
            if entry.lifecycle and entry.name in self._names
        }
        self._asked: dict[str, tuple[Future, int]] = {}  # and in which round
        self._rounds = 0
        self.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, DIAGNOSTICS)
        steady_timer(self, PERIOD_S, self._look)

    def _look(self) -> None:
        if self.finished.done():
            return
        self._rounds += 1
        namespace = self.get_namespace()
        present = {
            name for name, found in self.get_node_names_and_namespaces() if found == namespace
        }
        missing = [name for name in self._names if name not in present]
        missing += [
            name for name, client in self._states.items() if not self._is_active(name, client)
        ]
        if not missing:
            self.finished.set_result(0)
        elif self._rounds * PERIOD_S > TIMEOUT_S:
            self.get_logger().error(
                f'not ready after {TIMEOUT_S:.0f} s: {", ".join(dict.fromkeys(missing))}'
            )
            self.finished.set_result(1)

    def _is_active(self, name: str, client: Client) -> bool:
        asked, asked_in = self._asked.get(name, (None, 0))
        if asked is not None and asked.done():
            if asked.result().current_state.id == State.PRIMARY_STATE_ACTIVE:
                return True
            asked = None
        if (asked is None or self._rounds - asked_in > ANSWER_ROUNDS) and client.service_is_ready():
            self._asked[name] = client.call_async(GetState.Request()), self._rounds
        return False

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        """A lifecycle node that refuses says so in its diagnostic."""
        for status in message.status:
            namespace, name = reporting_node(status.name)
            if (
                status.level == DiagnosticStatus.ERROR
                and name in self._states
                and namespace == self.get_namespace().rstrip('/')
                and not self.finished.done()
            ):
                self.get_logger().error(f'{name} will not get ready: {status.message}')
                self.finished.set_result(1)


def reporting_node(status_name: str) -> tuple[str, str]:
    """Namespace, empty for the root, and name of the node that a diagnostic is from."""
    namespace, _, name = f'/{status_name.partition(": ")[0]}'.rpartition('/')
    return namespace, name


def main() -> int:
    """Runs the node as a process; arguments that are not ROS arguments name the nodes to wait for."""
    awaited = remove_ros_args(sys.argv)[1:] or [entry.name for entry in NODES]
    return run_node('readiness', lambda: ReadinessNode(awaited), done=lambda node: node.finished)
