"""Node processes and an observer in the test's own process, each test in a namespace of its own."""

import itertools
import shutil
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import pytest
import rclpy
from observed_nodes import NodeProcess, Observer
from rclpy.node import Node
from waiting import WAIT_S, wait

from deadline_perception.nodes.middleware import make_room_for_images

_numbers = itertools.count()


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


@pytest.fixture
def make_node():
    """Makes nodes in the test's own process, each a participant of its own with these words of a command line."""
    made = []

    def make(name, kind=Node, words=(), **options):
        context = rclpy.Context()
        rclpy.init(args=['program', '--ros-args', *words], context=context)
        made.append(kind(name, context=context, **options))
        return made[-1]

    yield make
    for node in made:
        node.destroy_node()
        node.context.try_shutdown()


@pytest.fixture
def repeat(observer):
    """Does something after each period, as vehicles and cameras do, until it is stopped or the test ends."""
    stops = []

    def start(act, period_s=0.02):
        ended = threading.Event()

        def run():
            while not ended.wait(period_s):
                act()

        def stop():
            ended.set()
            thread.join()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        stops.append(stop)
        return SimpleNamespace(stop=stop)

    yield start
    for stop in stops:
        stop()


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
    files = tmp_path / 'clock.so', tmp_path / 'clock.c'
    subprocess.run([compiler, '-shared', '-fPIC', '-o', *files], check=True)
    file = tmp_path / 'step'
    file.write_text('0')
    environment = {'LD_PRELOAD': str(tmp_path / 'clock.so'), 'CLOCK_STEP_FILE': str(file)}
    return environment, lambda step_s: file.write_text(str(int(step_s)))


@pytest.fixture
def start_node(tmp_path, namespace):
    """Starts nodes as processes, in the test's namespace; none outlives the test, a failed one shows their words."""
    started = []

    def start(name, *given, **options):
        log = tmp_path / f'{name}{len(started)}.log'
        started.append(NodeProcess(name, namespace, log, *given, **options))
        return started[-1]

    yield start
    for node in started:
        if node.process.poll() is None:
            node.process.kill()
            node.process.wait(WAIT_S)
        print(f'{node.name} said:\n{node.output}')


@pytest.fixture
def start_script(start_node, tmp_path):
    """Starts lines of Python as a node's process."""

    def start(name, lines, **options):
        script = tmp_path / f'{name}_script.py'
        script.write_text(textwrap.dedent(lines))
        return start_node(name, program=(sys.executable, script), **options)

    return start
