"""The clock that periodic work and ages go by: it never steps, unless time is simulated."""
from __future__ import annotations

from rclpy.clock import Clock, ClockType
from rclpy.node import Node


def periodic_clock(node: Node) -> Clock:
    """The steady clock; with `use_sim_time` the node's own, so that a paused simulation pauses the node.

    The system clock is no choice: a timer on it is silent from a step back until the old time is reached again.
    """
    simulated = node.get_parameter('use_sim_time').value
    return node.get_clock() if simulated else Clock(clock_type=ClockType.STEADY_TIME)
