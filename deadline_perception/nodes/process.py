"""Runs nodes as a process: clean end on SIGINT and SIGTERM, one line for an expected error, never half a process."""
from __future__ import annotations

import faulthandler
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import rclpy
from rclpy.exceptions import NameValidationException, NotInitializedException, ParameterException
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions, uninstall_signal_handlers
from rclpy.task import Future

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.nodes.middleware import make_room_for_images

_EXPECTED = (DeadlinePerceptionError, ParameterException, NameValidationException, ValueError, OSError)
_END_S = 4.5  # after a signal, and again for all nodes to close; launch kills a process after 10 s
_JOIN_S = 2.0  # of all threads together: launch waits 5 s for a process, and nodes have to be closed after this


def run_node(name: str, create: Callable[[], Node], *, done: Callable[[Node], Future] | None = None,
             own_signals: bool = False, sends_images: bool = False) -> int:
    """Creates a node, spins it until a signal comes or it is done, and ends the process.

    Args:
        name: of the executable, for messages.
        create: makes the node; called after ROS is initialised with the command line.
        done: gives the future whose result is the exit status, for a node that ends by itself.
        own_signals: the node handles SIGINT and SIGTERM itself, because it has something to finish.
        sends_images: gets as much shared memory as images take.

    Returns:
        1 when ROS does not take the process's arguments. Otherwise the process ends here: with 0 after a signal, 1 when
        the node could not start or a callback failed, or the status of `done`.
    """
    def spin(nodes: Sequence[Node], kept: list[Executor]) -> int:
        executor = SingleThreadedExecutor()
        kept.append(executor)
        executor.add_node(nodes[0])
        future = Future() if done is None else done(nodes[0])
        with _interrupt.held():
            executor.spin_until_future_complete(_End(future))
        return future.result() if future.done() else 0

    return _run(name, [create], spin, own_signals=own_signals, sends_images=sends_images)


def run_nodes(name: str, create: Sequence[Callable[[], Node]]) -> int:
    """Like `run_node` for several nodes, each with an executor and a thread of its own; all end when one of them fails.

    Whoever started the process starts it again: a process that stays up without one of its nodes would look well.
    """
    ended: queue.SimpleQueue[tuple[Node, BaseException | None]] = queue.SimpleQueue()

    def spin_one(node: Node, kept: list[Executor]) -> None:
        error = None
        try:
            executor = SingleThreadedExecutor()
            kept.append(executor)
            executor.add_node(node)
            executor.spin()
        except ExternalShutdownException:
            pass
        except BaseException as caught:  # handed to the main thread
            error = caught
        ended.put((node, error))

    def spin(nodes: Sequence[Node], kept: list[Executor]) -> int:
        for node in nodes:
            threading.Thread(target=spin_one, args=(node, kept), name=node.get_name(), daemon=True).start()
        node, error = ended.get()
        if error is not None and rclpy.ok():
            print(f'{name}: {node.get_name()} failed, all nodes end', file=sys.stderr)
            raise error
        return 0

    return _run(name, create, spin, sends_images=True)


def _run(name: str, create: Sequence[Callable[[], Node]], spin: Callable[[Sequence[Node], list[Executor]], int], *,
         own_signals: bool = False, sends_images: bool = False) -> int:
    faulthandler.enable()  # a crash of a library below says where the threads were
    nodes: list[Node] = []
    executors: list[Executor] = []  # kept by `spin` for this function, which knows when they may go
    # Before rclpy's own handlers, which call this one. A process that was started to ignore SIGINT, as a shell's
    # background job is, would otherwise load to the end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        try:
            if sends_images:
                make_room_for_images()
            try:
                rclpy.init(args=sys.argv, signal_handler_options=(
                    SignalHandlerOptions.NO if own_signals else SignalHandlerOptions.ALL))
            except (RuntimeError, ValueError) as error:  # rclpy's own kinds: a wrong argument, an unreadable file
                print(f'{name}: ROS arguments cannot be used: {_first_line(error)}', file=sys.stderr)
                return 1
            for create_one in create:
                nodes.append(create_one())
            status = spin(nodes, executors)
        except ExternalShutdownException:
            status = 0
        except Exception as error:
            status = _failure_status(name, error, all_created=len(nodes) == len(create))
    except KeyboardInterrupt:  # also where one of the others is dealt with: rclpy ends its context before this comes
        status = 0
    for number in (signal.SIGINT, signal.SIGTERM):  # also after an end that no signal asked for
        signal.signal(number, lambda *_: None)
    if not own_signals:
        _end_if_overdue()
    # Waits for rclpy's own thread for signals, which triggers a condition of every executor without asking whether the
    # executor still exists: a segmentation fault in one of ten ends, before executors were kept until here.
    uninstall_signal_handlers()
    _close(nodes, executors)
    for number in (signal.SIGINT, signal.SIGTERM):  # rclpy's end brought back Python's handlers, whose end kills
        signal.signal(number, signal.SIG_IGN)
    # Nodes have written what they keep. Python's own end would go through a network of hundreds of MB, for seconds that
    # launch does not wait, and stop threads that still load one in the middle of C++ code: `terminate called`, SIGABRT.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # whoever read it may be gone
            stream.flush()
    os._exit(status)


def _failure_status(name: str, error: Exception, *, all_created: bool) -> int:
    """The status of a process whose nodes failed, which is told."""
    if isinstance(error, (RuntimeError, NotInitializedException)) and not rclpy.ok():
        return 0  # a node was publishing, or being made, when the signal came
    if isinstance(error, DeadlinePerceptionError) or (not all_created and isinstance(error, _EXPECTED)):
        print(f'{name}: {error}', file=sys.stderr)
    else:
        traceback.print_exc()
        print(f'{name}: ends, for a callback failed: {type(error).__name__}: {error}', file=sys.stderr)
    return 1


def _end_if_overdue() -> None:
    """Ends the process with status 1 and the stacks of its threads, unless it has ended itself by then."""
    faulthandler.dump_traceback_later(_END_S, exit=True)


class _Interrupt:
    """The handler of both signals, which raises KeyboardInterrupt where the main thread may be left at any point.

    Where it spins, callbacks and the executor hold locks, which nobody would give back: there `_End` ends the spinning,
    and rclpy's own handler wakes the executor. The terminal's Ctrl-C and the launch's come both, milliseconds apart: a
    second KeyboardInterrupt would be raised where the first one is dealt with, and end the process with a traceback.
    """

    def __init__(self) -> None:
        self._raises, self.came = True, False

    def __call__(self, number: int, frame: object) -> None:
        if not self.came:
            self.came = True
            _end_if_overdue()
            if self._raises:
                raise KeyboardInterrupt

    @contextmanager
    def held(self, held: bool = True) -> Iterator[None]:
        """Does not raise inside, or does where `held` is false; a signal that has come before is raised there."""
        before, self._raises = self._raises, not held
        try:
            if self.came and not held:
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = before


_interrupt = _Interrupt()


class _End:
    """The future that a node is spun for: done with its own, or when a signal has come."""

    def __init__(self, own: Future) -> None:
        self._own, self._wakes = own, False

    def done(self) -> bool:
        return _interrupt.came or self._own.done()

    def cancelled(self) -> bool:
        return False

    def add_done_callback(self, wake: Callable[[Future], None]) -> None:
        if not self._wakes:  # rclpy gives another one for every callback of the node
            self._wakes = True
            self._own.add_done_callback(wake)


@contextmanager
def interruptible() -> Iterator[None]:
    """What takes long in a callback, such as a load, is left at once when a signal comes."""
    with _interrupt.held(threading.current_thread() is not threading.main_thread()):
        yield


def _close(nodes: Sequence[Node], executors: Sequence[Executor]) -> None:
    spinning = {thread.name: thread for thread in threading.enumerate()}
    if len(nodes) > 1:
        rclpy.try_shutdown()
    until_s = time.monotonic() + _JOIN_S
    for thread in filter(None, (spinning.get(node.get_name()) for node in nodes)):
        thread.join(max(0.0, until_s - time.monotonic()))
    for executor in executors:  # which may hold handles of the nodes, and must not be left to the garbage collector
        executor.shutdown(0.0)
    for node in nodes:
        thread = spinning.get(node.get_name())
        if thread is None or not thread.is_alive():  # otherwise at work in a callback, which still needs the node
            node.destroy_node()
    rclpy.try_shutdown()


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
