"""Nodes as processes, and a node in the test's own process that hears them and speaks to them."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.parameter import Parameter
from std_msgs.msg import Header
from waiting import WAIT_S, answer_of, wait

from deadline_perception.nodes.messages import bgr_to_image


class NodeProcess:
    """One node as a process; what it says is kept in the file `log`, beside which it runs."""

    def __init__(
        self, name, namespace, log, parameters=(), remaps=(), words=(), environment=(), program=()
    ):
        program = program or (sys.executable, '-m', 'deadline_perception.nodes', name)
        command = [*program, '--ros-args', '-r', f'__ns:={namespace}', *words]
        for key, value in dict(parameters).items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            command += ['-p', f'{key}:={text}']
        for topic, outside in dict(remaps).items():
            command += ['-r', f'{topic}:={outside}']
        self.name, self._log = name, log
        with log.open('w') as stream:
            self.process = subprocess.Popen(
                command,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                start_new_session=True,
                env={**os.environ, 'RCUTILS_COLORIZED_OUTPUT': '0', **dict(environment)},
            )

    @property
    def output(self):
        return self._log.read_text()

    def wait_ended(self):
        """Exit status of a process that ends by itself."""
        return self.process.wait(WAIT_S)

    def end(self, number=signal.SIGINT):
        """Sends a signal; returns the exit status."""
        self.process.send_signal(number)
        try:
            return self.process.wait(WAIT_S)
        finally:
            self.process.kill()


class Observer:
    """A node that hears and speaks, spun by a thread of its own."""

    def __init__(self, namespace):
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node('observer', namespace=namespace, context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._statuses = {}
        self.node.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 100)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self):
        with suppress(ExternalShutdownException):
            self._executor.spin()

    def _on_diagnostics(self, message):
        for status in message.status:
            self._statuses[status.name.partition(': ')[0].rsplit('/', 1)[-1]] = status

    def hear(self, kind, topic, quality=100):
        """A list that grows by every message of a topic."""
        heard = []
        self.node.create_subscription(kind, topic, heard.append, quality)
        return heard

    def speaker(self, kind, topic, quality=10, subscribers=1):
        """A publisher that somebody listens to."""
        publisher = self.node.create_publisher(kind, topic, quality)
        wait(lambda: publisher.get_subscription_count() >= subscribers, f'a subscriber of {topic}')
        return publisher

    def image(self, pixels_bgr):
        """An image message of this moment."""
        stamp = self.node.get_clock().now().to_msg()
        return bgr_to_image(pixels_bgr, Header(stamp=stamp, frame_id='camera'))

    def status(self, name):
        """Level, message and values of a node's newest diagnostic; level -1 before the first."""
        status = self._statuses.get(name)
        if status is None:
            return -1, '', {}
        return status.level[0], status.message, {entry.key: entry.value for entry in status.values}

    def wait_status(self, name, words='', level=None, **values):
        """Waits for a diagnostic of a node with these words, and of this level and with these values where given."""

        def is_said():
            said_level, message, said = self.status(name)
            is_level = said_level >= 0 if level is None else said_level == level
            return is_level and words in message and values.items() <= said.items()

        wait(is_said, f'a diagnostic of {name}: {words} {level} {values}')

    def call(self, kind, service, request):
        client = self.node.create_client(kind, service)
        try:
            return answer_of(client, request, f'the answer of {service}')
        finally:
            self.node.destroy_client(client)

    def state(self, node):
        return self.call(GetState, f'{node}/get_state', GetState.Request()).current_state.label

    def change(self, node, transition):
        """Asks a lifecycle node for a transition, such as `activate`; returns whether it went well."""
        request = ChangeState.Request(transition=Transition(label=transition))
        return self.call(ChangeState, f'{node}/change_state', request).success

    def set_parameters(self, node, **values):
        """Sets parameters as a set; returns the reason of a refusal, empty when they were taken: then it is `said`."""
        given = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        request = SetParametersAtomically.Request(parameters=given)
        answer = self.call(SetParametersAtomically, f'{node}/set_parameters_atomically', request)
        self.said = answer.result.reason
        return '' if answer.result.successful else self.said or 'refused'

    def close(self):
        self.context.try_shutdown()
        self._thread.join(WAIT_S)
        self.node.destroy_node()
