"""All nodes in one process, each with an executor and a thread of its own, for machines where processes are dear."""
from __future__ import annotations

import importlib
import sys

from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from deadline_perception.nodes.detector import SWITCH_INTERVAL_S
from deadline_perception.nodes.node_table import NODES, OPTIONAL_NODES, NodeEntry
from deadline_perception.nodes.process import run_nodes


def node_class(entry: NodeEntry) -> type[Node]:
    """The class of a node: `path_visualizer` is `PathVisualizerNode` in its module."""
    name = ''.join(word.capitalize() for word in entry.name.split('_')) + 'Node'
    return getattr(importlib.import_module(f'deadline_perception.nodes.{entry.name}'), name)


def main() -> int:
    """Runs the nodes that arguments name, by default all but the optional ones, until a signal comes.

    Returns 0, or 1 when one could not start or failed.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    names = remove_ros_args(sys.argv)[1:]
    entries = [entry for entry in NODES + OPTIONAL_NODES if entry.name in names] or NODES
    return run_nodes('nodes', [node_class(entry) for entry in entries])
