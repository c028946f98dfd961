"""Runs a node as a process: clean end on SIGINT and SIGTERM, one line for an expected error, never half a process."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TypeVar

import rclpy
from rclpy.exceptions import NameValidationException, NotInitializedException, ParameterException
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions, uninstall_signal_handlers
from rclpy.task import Future

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.nodes.middleware import make_room_for_images

_EXPECTED = (
    DeadlinePerceptionError,
    ParameterException,
    NameValidationException,
    ValueError,
    OSError,
)
AnyNode = TypeVar('AnyNode', bound=Node)
# After a signal, and again for the node to close: then the process ends with status 1 and the stacks of its threads.
# Launch kills a process after 10 s.
_END_S = 4.5


def run_node(
    name: str,
    create: Callable[[], AnyNode],
    *,
    done: Callable[[AnyNode], Future] | None = None,
    own_signals: bool = False,
    sends_images: bool = False,
) -> int:
    """Creates a node, spins it until a signal comes or it is done, and ends the process.

    Args:
        name: of the executable, for messages.
        create: makes the node, with others as its `further`; called after ROS is initialised with the command line.
        done: gives the future whose result is the exit status, for a node that ends by itself.
        own_signals: the node handles SIGINT and SIGTERM itself, because it has something to finish.
        sends_images: gets as much shared memory as images take.

    Returns:
        1 when ROS does not take the process's arguments. Otherwise the process ends here: with 0 after a signal, 1 when
        the node could not start or a callback failed, or the status of `done`.
    """
    faulthandler.enable()  # a crash of a library below says where the threads were
    node: AnyNode | None = None
    executor: Executor | None = None
    # Before rclpy's own handlers, which call this one. A process that was started to ignore SIGINT, as a shell's
    # background job is, would otherwise load to the end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        try:
            if sends_images:
                make_room_for_images()
            try:
                rclpy.init(
                    args=sys.argv,
                    signal_handler_options=(
                        SignalHandlerOptions.NO if own_signals else SignalHandlerOptions.ALL
                    ),
                )
            except (
                RuntimeError,
                ValueError,
            ) as error:  # rclpy's own kinds: a wrong argument, an unreadable file
                reason = str(error).strip().partition('\n')[0]
                print(f'{name}: ROS arguments cannot be used: {reason}', file=sys.stderr)
                return 1
            node = create()
            executor = SingleThreadedExecutor()
            for each in (node, *getattr(node, 'further', ())):
                executor.add_node(each)
            future = Future() if done is None else done(node)
            with _interrupt.held():
                executor.spin_until_future_complete(_End(future))
            status = future.result() if future.done() else 0
        except ExternalShutdownException:
            status = 0
        except Exception as error:
            status = _failure_status(name, error, created=node is not None)
    except (
        KeyboardInterrupt
    ):  # also where one of the others is dealt with: rclpy ends its context before this comes
        status = 0
    _end_process(node, executor, status, own_signals=own_signals)


def _end_process(
    node: Node | None,
    executor: Executor | None,
    status: int,
    *,
    own_signals: bool,
) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):  # also after an end that no signal asked for
        signal.signal(number, lambda *_: None)
    if not own_signals:
        faulthandler.dump_traceback_later(_END_S, exit=True)
    # Waits for rclpy's own thread for signals, which triggers a condition of every executor without asking whether the
    # executor still exists: a segmentation fault in one of ten ends, before executors were kept until here.
    uninstall_signal_handlers()
    _close(node, executor)
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # rclpy's end brought back Python's handlers, whose end kills
        signal.signal(number, signal.SIG_IGN)
    # Nodes have written what they keep. Python's own end would go through a network of hundreds of MB, for seconds that
    # launch does not wait, and stop threads that still load one in the middle of C++ code: `terminate called`, SIGABRT.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # whoever read it may be gone
            stream.flush()
    os._exit(status)


def _failure_status(name: str, error: Exception, *, created: bool) -> int:
    """The status of a process whose node failed, which is logged."""
    if isinstance(error, (RuntimeError, NotInitializedException)) and not rclpy.ok():
        return 0  # the node was publishing, or being made, when the signal came
    if isinstance(error, DeadlinePerceptionError) or (not created and isinstance(error, _EXPECTED)):
        print(f'{name}: {error}', file=sys.stderr)
    else:
        traceback.print_exc()
        print(
            f'{name}: ends, for a callback failed: {type(error).__name__}: {error}', file=sys.stderr
        )
    return 1


class _Interrupt:
    """The handler of both signals, which raises KeyboardInterrupt where the main thread may be left at any point.

    Where it spins, callbacks and the executor hold locks, which nobody would give back: there `_End` ends the spinning,
    and rclpy's own handler wakes the executor. The terminal's Ctrl-C and the launch's come both, milliseconds apart: a
    second KeyboardInterrupt would be raised where the first one is dealt with, and end the process with a traceback.
    """

    def __init__(self) -> None:
        self._raises = True
        self.came = False

    def __call__(self, number: int, frame: object) -> None:
        if not self.came:
            self.came = True
            faulthandler.dump_traceback_later(_END_S, exit=True)
            if self._raises:
                raise KeyboardInterrupt

    @contextmanager
    def held(self, held: bool = True) -> Iterator[None]:
        """Does not raise inside, or does where `held` is false; a signal that has come before is raised there."""
        before = self._raises
        self._raises = not held
        try:
            if self.came and not held:
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = before


_interrupt = _Interrupt()


class _End(Future):
    """The future that a node is spun for: done with its own, or when a signal has come."""

    def __init__(self, own: Future) -> None:
        super().__init__()
        self._own = own
        self._wakes = False

    def done(self) -> bool:
        return _interrupt.came or self._own.done()

    def add_done_callback(self, wake: Callable[[Future], None]) -> None:
        if not self._wakes:  # rclpy gives another one for every callback of the node
            self._wakes = True
            self._own.add_done_callback(wake)


@contextmanager
def interruptible() -> Iterator[None]:
    """What takes long in a callback, such as a load, is left at once when a signal comes."""
    with _interrupt.held(threading.current_thread() is not threading.main_thread()):
        yield


def _close(node: Node | None, executor: Executor | None) -> None:
    if (
        executor is not None
    ):  # which may hold handles of the node, and must not be left to the garbage collector
        executor.shutdown(0.0)
    if node is not None:
        node.destroy_node()
    rclpy.try_shutdown()
