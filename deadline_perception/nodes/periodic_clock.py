"""The clocks that periodic work and ages go by: they never step, unless time is simulated.

The system clock is no choice: a timer on it is silent from a step back until the old time is reached again.
"""

from __future__ import annotations

from collections.abc import Callable

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.timer import Timer


def periodic_clock(node: Node) -> Clock:
    """The steady clock; with `use_sim_time` the node's own, so that a paused simulation pauses the node."""
    if node.get_parameter('use_sim_time').value:
        return node.get_clock()
    return Clock(clock_type=ClockType.STEADY_TIME)


def steady_timer(node: Node, period_s: float, callback: Callable[[], None]) -> Timer:
    """A timer of a node on the steady clock, whatever its simulated clock does."""
    return node.create_timer(period_s, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))
