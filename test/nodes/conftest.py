"""Node processes and an observer in the test's own process, each test in a namespace of its own."""
from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.parameter import Parameter
from waiting import WAIT_S, answer_of, wait

from deadline_perception.nodes.middleware import make_room_for_images

_numbers = itertools.count()


class NodeProcess:
    """One node as a process; what it says is kept in a file."""

    def __init__(self, name, namespace, log, parameters, remaps, words, folder, environment, program):
        program = program or (sys.executable, '-m', f'deadline_perception.nodes.{name}')
        command = [*program, '--ros-args', '-r', f'__ns:={namespace}', *words]
        for key, value in parameters.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            command += ['-p', f'{key}:={text}']
        for topic, outside in remaps.items():
            command += ['-r', f'{topic}:={outside}']
        self.name, self._log = name, log
        with log.open('w') as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, cwd=folder,
                                            start_new_session=True, env={**os.environ, 'RCUTILS_COLORIZED_OUTPUT': '0',
                                                                      **environment})

    @property
    def output(self):
        return self._log.read_text()

    def wait_ended(self):
        """Exit status of a process that ends by itself."""
        return self.process.wait(WAIT_S)

    def end(self, number=signal.SIGINT):
        """Sends a signal; returns the exit status."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)


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
        try:
            self._executor.spin()
        except ExternalShutdownException:
            pass

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

    def status(self, name):
        """Level, message and values of a node's newest diagnostic; level -1 before the first."""
        status = self._statuses.get(name)
        if status is None:
            return -1, '', {}
        return status.level[0], status.message, {entry.key: entry.value for entry in status.values}

    def call(self, kind, service, request):
        """The answer of a service."""
        client = self.node.create_client(kind, service)
        return answer_of(client, request, f'the answer of {service}')

    def set_parameters(self, node, **values):
        """Sets parameters as a set; returns the reason of a refusal, empty when they were taken."""
        from rcl_interfaces.srv import SetParametersAtomically

        request = SetParametersAtomically.Request(
            parameters=[Parameter(name, value=value).to_parameter_msg() for name, value in values.items()])
        result = self.call(SetParametersAtomically, f'{node}/set_parameters_atomically', request).result
        return '' if result.successful else result.reason or 'refused'

    def close(self):
        self.context.try_shutdown()
        self._thread.join(WAIT_S)
        self.node.destroy_node()


@pytest.fixture(scope='session', autouse=True)
def room_for_images():
    """The test's own process and all that it starts share enough memory for images."""
    make_room_for_images()


@pytest.fixture
def wait_for():
    return wait


@pytest.fixture
def namespace():
    return f'/test{next(_numbers)}'


@pytest.fixture
def observer(namespace):
    observer = Observer(namespace)
    yield observer
    observer.close()


_STEPPING_CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = syscall(SYS_clock_gettime, clock, now);
  int file = clock == CLOCK_REALTIME ? open(getenv("CLOCK_STEP_FILE"), O_RDONLY) : -1;
  char text[32] = {0};
  if (file >= 0) {
    if (read(file, text, sizeof text - 1) > 0) now->tv_sec += atol(text);
    close(file);
  }
  return failed;
}
"""


@pytest.fixture
def system_clock(tmp_path):
    """Environment of processes whose system clock can be made to step, and the function that does it, in s."""
    compiler = shutil.which('cc') or shutil.which('gcc')
    if compiler is None:
        pytest.skip('no C compiler for a system clock that steps')
    (tmp_path / 'clock.c').write_text(_STEPPING_CLOCK)
    subprocess.run([compiler, '-shared', '-fPIC', '-o', tmp_path / 'clock.so', tmp_path / 'clock.c'], check=True)
    file = tmp_path / 'step'
    file.write_text('0')
    environment = {'LD_PRELOAD': str(tmp_path / 'clock.so'), 'CLOCK_STEP_FILE': str(file)}
    return environment, lambda step_s: file.write_text(str(int(step_s)))


@pytest.fixture
def start_node(tmp_path, namespace):
    """Starts nodes as processes, in the test's namespace; none outlives the test, a failed one shows their words."""
    started = []

    def start(name, parameters=None, remaps=None, words=(), environment=None, program=()):
        log = tmp_path / f'{name}{len(started)}.log'
        node = NodeProcess(name, namespace, log, parameters or {}, remaps or {}, words, tmp_path,
                           environment or {}, program)
        started.append(node)
        return node

    yield start
    for node in started:
        if node.process.poll() is None:
            node.process.kill()
            node.process.wait(WAIT_S)
        print(f'{node.name} said:\n{node.output}')
