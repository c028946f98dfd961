"""The border to ROS: what rclpy and generated messages give carries no types."""

from __future__ import annotations

from typing import Any

Untyped = Any  # the one of the nodes
