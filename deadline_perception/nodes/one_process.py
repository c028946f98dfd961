"""All nodes in one process, each with an executor and a thread of its own, for machines where processes are dear."""
from __future__ import annotations

import importlib
import sys
import threading

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node

from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.nodes.bringup import NODES, PACKAGE, NodeEntry
from deadline_perception.nodes.detector import SWITCH_INTERVAL_S
from deadline_perception.nodes.middleware import make_room_for_images


def node_class(entry: NodeEntry) -> type[Node]:
    """The class of a node: `path_visualizer` is `PathVisualizerNode` in its module."""
    name = ''.join(word.capitalize() for word in entry.name.split('_')) + 'Node'
    return getattr(importlib.import_module(f'{PACKAGE}.nodes.{entry.name}'), name)


def main() -> int:
    """Runs all nodes until a signal comes. Returns 0, or 1 when one could not start."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    make_room_for_images()
    rclpy.init(args=sys.argv)
    nodes: list[Node] = []
    threads = []
    try:
        for entry in NODES:
            nodes.append(node_class(entry)())
            threads.append(threading.Thread(target=_spin, args=(nodes[-1],), name=entry.name, daemon=True))
        for thread in threads:
            thread.start()
        while rclpy.ok():
            threads[0].join(3600.0)
        return 0
    except KeyboardInterrupt:
        return 0
    except DeadlinePerceptionError as error:
        print(f'nodes: {error}', file=sys.stderr)
        return 1
    finally:
        rclpy.try_shutdown()
        for thread in threads:
            if thread.is_alive():
                thread.join(5.0)
        for node in nodes:
            node.destroy_node()


def _spin(node: Node) -> None:
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        executor.spin()
    except ExternalShutdownException:
        pass
    except RuntimeError:  # rclpy's own kind: a callback was publishing when the signal came
        if rclpy.ok():
            raise


if __name__ == '__main__':
    sys.exit(main())
