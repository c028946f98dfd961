"""Runs one node as a process: clean end on SIGINT and SIGTERM, one line for an expected error."""
from __future__ import annotations

import sys
from collections.abc import Callable

import rclpy
from rclpy.exceptions import NameValidationException, ParameterException
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.nodes.middleware import make_room_for_images


def run_node(name: str, create: Callable[[], Node], *, threads: int = 1,
             done: Callable[[Node], Future] | None = None, own_signals: bool = False) -> int:
    """Creates a node and spins it until a signal comes or it is done. Blocks.

    Args:
        name: of the executable, for messages.
        create: makes the node; called after ROS is initialised with the command line.
        threads: of the executor.
        done: gives the future whose result is the exit status, for a node that ends by itself.
        own_signals: the node handles SIGINT and SIGTERM itself, because it has something to finish.

    Returns:
        Exit status: 0 after a signal, 1 when the node could not start, otherwise that of `done`.
    """
    make_room_for_images()
    try:
        rclpy.init(args=sys.argv, signal_handler_options=(
            SignalHandlerOptions.NO if own_signals else SignalHandlerOptions.ALL))
    except (RuntimeError, ValueError) as error:  # rclpy's own kinds of them: a wrong argument, an unreadable file
        print(f'{name}: ROS arguments cannot be used: {_first_line(error)}', file=sys.stderr)
        return 1
    node, status = None, 0
    try:
        node = create()
        executor = SingleThreadedExecutor() if threads == 1 else MultiThreadedExecutor(num_threads=threads)
        executor.add_node(node)
        if done is None:
            executor.spin()
        else:
            future = done(node)
            executor.spin_until_future_complete(future)
            status = future.result() if future.done() else 0
    except (KeyboardInterrupt, ExternalShutdownException):
        status = 0
    except (DeadlinePerceptionError, ParameterException, NameValidationException, ValueError, OSError) as error:
        if node is not None and not isinstance(error, DeadlinePerceptionError):
            raise
        print(f'{name}: {error}', file=sys.stderr)
        status = 1
    except RuntimeError:  # rclpy's own kind: a callback was publishing when the signal came
        if rclpy.ok():
            raise
    finally:
        _close(node)
    return status


def _close(node: Node | None) -> None:
    try:
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
    except KeyboardInterrupt:  # a second signal while ending
        pass


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
