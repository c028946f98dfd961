"""How a process begins and ends; shown with the node `time_budget`, all others go the same way."""

import re
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from deadline_perception.msg import TimeBudget
from python_run import run_python
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.qos import ReliabilityPolicy as Reliability

pytestmark = pytest.mark.slow


def test_what_a_node_cannot_start_with_ends_its_process_with_one_line(start_node, tmp_path):
    for name, text in (
        ('broken', 'time_budget: [broken'),
        ('number', '/**:\n  ros__parameters:\n    use_sim_time: 5\n'),
        ('taken.mcap', 'precious'),
    ):
        (tmp_path / name).write_text(text)
    for name, parameters, file, complaint in (
        ('path_visualizer', {'image_transport': 'fax'}, '', "'fax', expected one of raw, compres"),
        ('bag_recorder', {'output': tmp_path / 'taken.mcap'}, '', 'taken.mcap exists already'),
        ('time_budget', {}, 'broken', 'params file'),
        ('time_budget', {}, 'number', 'use_sim_time'),
    ):
        words = ('--params-file', str(tmp_path / file)) if file else ()
        node = start_node(name, parameters, words=words)
        assert node.wait_ended() == 1
        assert complaint in node.output
        assert f'{name}: ' in node.output
        assert 'Traceback' not in node.output
    assert (tmp_path / 'taken.mcap').read_text() == 'precious'


def test_what_does_not_fit_is_logged_with_the_fix(start_node, observer, wait_for, repository):
    heard = observer.hear(TimeBudget, 'time_budget/budget')
    node = start_node(
        'time_budget',
        {'min_budget_ms': 42.0, 'max_bugdet_ms': 100.0},
        words=('--params-file', str(repository / 'config' / 'time_budget.yaml')),
    )
    strict = QoSProfile(
        depth=1, reliability=Reliability.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
    )
    observer.hear(TimeBudget, 'time_budget/budget', strict)
    wait_for(lambda: heard and heard[-1].budget_ms == 42.0, 'the budget of the command line')
    for said in (
        'parameter max_bugdet_ms does not exist and has no effect, is max_budget_ms meant?',
        'will get nothing, its quality of service does not fit: DURABILITY; let the subscriber ask for '
        'volatile durability',
    ):
        wait_for(lambda: said in node.output, said)
    assert node.output.count('does not exist') == 1  # none of the file
    assert node.process.poll() is None


WORKING = """
import threading, time
from rclpy.node import Node
from deadline_perception.nodes.process import run_node
class Working(Node):
    def __init__(self):
        super().__init__("working")
        self.create_timer(0.01, self.at_work)
"""
LOADING = """
import torch
from deadline_perception import deadline_detector
from deadline_perception.nodes import detector
def load(*_, **options):
    print("loading", flush=True)
    while True:
        torch.randn(1000, 1000) @ torch.randn(1000, 1000)
deadline_detector.load_task = load
raise SystemExit(detector.main())
"""
CLEAN = '(?!.*(terminate called|Traceback|Fatal)).*'
TIMEOUT = r'.*Timeout \(0:00:04\.500000\)!'
HANGING = (
    WORKING
    + """
    def at_work(self):
        print("spins", flush=True)
    def {0}(self):
        print("spins", flush=True)
        threading.Event().wait()
run_node("working", Working)
"""
)


class Case(NamedTuple):
    """A program, what it says before the signal comes, none where it signals itself, and how it ends."""

    program: str
    before: str = ''
    number: int = signal.SIGINT
    status: int = 0
    output: str = ''  # a regular expression


CASES = {
    # A second one between the first interrupt and the end of its handling.
    'second signal': Case(
        """
import signal
from deadline_perception.nodes import process
def close(*given, close=process._close):
    print("closing", flush=True)
    close(*given)
ignore = signal.signal
def told_again(number, handler):
    signal.raise_signal(signal.SIGINT)
    return ignore(number, handler)
def create():
    signal.signal = told_again
    signal.raise_signal(signal.SIGINT)
process._close = close
raise SystemExit(process.run_node("told", create))
""",
        output='closing\n',
    ),
    # rclpy ends the context before the signal reaches Python, which is then busy with the error of the node.
    'context ends first': Case("""
import signal
import rclpy
from deadline_perception.nodes import process
def ended(*given):
    signal.raise_signal(signal.SIGTERM)
    return False
def create():
    rclpy.shutdown()
    rclpy.ok = ended
    return rclpy.create_node("half_made")
raise SystemExit(process.run_node("half_made", create))
"""),
    # rclpy's thread for signals goes through the conditions of all executors; many make it slow, as a busy machine.
    'many executors': Case(
        """
import rclpy
from rclpy.signals import SignalHandlerGuardCondition
from deadline_perception.nodes import process
conditions = []
def create():
    node = rclpy.create_node("many")
    def listen():  # the executor was the first
        timer.cancel()
        conditions.extend(SignalHandlerGuardCondition(node.context) for _ in range(10000))
        print("listens", flush=True)
    timer = node.create_timer(0.0, listen)
    return node
raise SystemExit(process.run_node("many", create))
""",
        'listens',
        output='listens\n',
    ),
    # Whoever closes the node would wait for a lock that nobody gives back.
    'callback with a lock': Case(
        WORKING
        + """
    lock = threading.Lock()
    def at_work(self):
        self.lock.acquire()
        print("holds", flush=True)
        until_s = time.monotonic() + 0.5
        while time.monotonic() < until_s:  # bytecode, where Python handles signals
            pass
        self.lock.release()
    def destroy_node(self):
        with self.lock:
            print("closes", flush=True)
run_node("working", Working)
""",
        'holds',
        output='(holds\n)+closes\n',
    ),
    # Launch would kill the process after 10 s, and nobody would know why.
    'hangs at work': Case(
        HANGING.format('at_work'), 'spins', status=1, output=f'{TIMEOUT}.*in at_work.*'
    ),
    'hangs at the end': Case(
        HANGING.format('destroy_node'), 'spins', status=1, output=f'{TIMEOUT}.*in destroy_node.*'
    ),
    # Python's end while a thread is in C++ code: `terminate called without an active exception`, SIGABRT.
    'endless load of a background job, for which a shell ignores SIGINT': Case(
        'import signal; signal.signal(2, signal.SIG_IGN)' + LOADING, 'loading', output=CLEAN
    ),
    # Which goes through a network of hundreds of MB for longer than launch waits; nodes are closed by then.
    'long end of Python': Case(
        WORKING
        + """
    def at_work(self):
        print("works", flush=True)
    def destroy_node(self):
        print("closed", flush=True)
import atexit
atexit.register(time.sleep, 1000)
raise SystemExit(run_node("working", Working))
""",
        'works',
        output='(works\n)+closed\n',
    ),
    'failing callback': Case(
        """
from deadline_perception.nodes import time_budget
time_budget.TimeBudgetNode._publish = lambda self: 1 / 0
raise SystemExit(time_budget.main())
""",
        status=1,
        output='.*time_budget: ends, for a callback failed: ZeroDivisionError: division by zero\n',
    ),
}


@pytest.mark.parametrize('name', CASES)
def test_a_process_ends_as_launch_expects_whatever_a_signal_meets(start_script, wait_for, name):
    program, before, number, status, output = CASES[name]
    freed_is_gone = {'MALLOC_PERTURB_': '165'}
    node = start_script('script', program, environment=freed_is_gone)
    wait_for(lambda: before in node.output, before)
    time.sleep(0.1 if before else 0.0)  # the executor waits again
    assert (node.end(number) if before else node.wait_ended()) == status
    assert re.fullmatch(output, node.output, re.DOTALL), node.output


def test_signal_while_modules_load_ends_the_process_without_a_traceback(start_node, wait_for):
    node = start_node('detector')
    libraries = Path(f'/proc/{node.process.pid}/maps')
    # Before the first, Python has not come to the node's own code.
    wait_for(lambda: 'numpy' in (found := libraries.read_text()) or 'rclpy' in found)
    assert node.end(signal.SIGINT) in (0, -signal.SIGINT)  # the latter: Python was still loading
    assert 'Traceback' not in node.output


def test_signals_that_come_while_the_process_ends_change_nothing(start_node, observer, wait_for):
    """A launch sends one more than the terminal; Python's own end would bring back the default, which kills."""
    heard = observer.hear(TimeBudget, 'time_budget/budget')
    node = start_node('time_budget')
    wait_for(lambda: heard, 'a budget')
    while node.process.poll() is None:
        node.process.send_signal(signal.SIGINT)
        time.sleep(0.005)
    assert node.process.returncode == 0
    assert 'Traceback' not in node.output


def test_help_of_nodes_prints_usage_and_parameters_and_starts_none():
    right, wrong = (
        run_python('-m', 'deadline_perception.nodes', name, '--help')
        for name in ('time_budget', 'wheel')
    )
    assert right.returncode == 0 and 'fixed_budget_ms: 0.0' in right.stdout, right.stderr
    assert wrong.returncode == 1 and "node is 'wheel', expected one of" in wrong.stderr
