"""Watches the topic of a camera for some seconds, and prints what is wrong with it as JSON; no node of a start-up.

`deadline-perception doctor --camera TOPIC` runs it and shows that as a table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rclpy.topic_endpoint_info import TopicEndpointInfo
from sensor_msgs.msg import CompressedImage, Image

from deadline_perception.core.images.image_message import ImageError
from deadline_perception.core.stopwatch import ms_from_ns
from deadline_perception.extras.camera.diagnosis import (
    COMPRESSED,
    IMAGE,
    Arrival,
    Endpoint,
    SeenTopic,
    diagnose,
)
from deadline_perception.nodes.messages import stamp_to_ns, to_bgr
from deadline_perception.nodes.middleware import make_room_for_images
from deadline_perception.nodes.service_quality import newest, numbered

WATCHED_S = 4.0
_DISCOVERY_S = 1.5  # for the publishers of a topic to be known
_OTHER_DOMAINS_S = 5.0  # at most, where there are others
_ASK_AGAIN_S = 0.3
_DEPTH = 30
_KINDS = {IMAGE: Image, COMPRESSED: CompressedImage}
# Of the RTPS standard: the ports at which participants of a domain find each other, and the first of them listens.
_FIRST_PORT, _PORTS_OF_A_DOMAIN, _LAST_DOMAIN, _FIRST_PORTS = 7400, 250, 232, (0, 10)


class CameraWatch:
    """Notes what comes on a topic, as the detector with `reliability: auto` would hear it.

    Args:
        node: subscribes; spin it.
        topic: of the images.
    """

    def __init__(self, node: Node, topic: str) -> None:
        self._node, self._topic = node, node.resolve_topic_name(topic)
        self._arrivals: list[Arrival] = []
        self._started_s = time.monotonic()
        self._is_subscribed = False

    def subscribe(self) -> None:
        """Subscribes once a publisher is known."""
        ends = [end for end in self._ends('publishers') if end.kind in _KINDS]
        if self._is_subscribed or not ends:
            return
        self._is_subscribed, self._started_s = True, time.monotonic()
        quality = newest(_DEPTH, reliable=all(end.is_reliable for end in ends))
        self._node.create_subscription(
            _KINDS[ends[0].kind], self._topic, numbered(self._on_image), quality
        )

    def seen(self) -> SeenTopic:
        """What was seen until now; looks for the topic in other domains where nobody publishes it."""
        publishers = self._ends('publishers')
        topics = dict(self._node.get_topic_names_and_types())
        return SeenTopic(
            self._topic,
            time.monotonic() - self._started_s,
            publishers,
            self._ends('subscriptions'),
            self._arrivals,
            {name: kinds for name, kinds in topics.items() if name != self._topic},
            () if publishers else domains_with(self._topic, self._node.context.get_domain_id()),
            bool(self._node.count_publishers('/clock')),
        )

    def _ends(self, of: str) -> list[Endpoint]:
        found = getattr(self._node, f'get_{of}_info_by_topic')(self._topic)
        return [_endpoint(info) for info in found if info.node_name != self._node.get_name()]

    def _on_image(self, message: Image | CompressedImage, info: Mapping[str, int]) -> None:
        problem = ''
        try:
            to_bgr(message)
        except ImageError as error:
            problem = str(error)
        self._arrivals.append(
            Arrival(
                (info.get('received_timestamp') or time.time_ns()) / 1e9,
                ms_from_ns(stamp_to_ns(message.header.stamp)) / 1000.0,
                info.get('publication_sequence_number'),
                len(message.data),
                problem,
            )
        )


def _endpoint(info: TopicEndpointInfo) -> Endpoint:
    quality = info.qos_profile
    return Endpoint(
        f'{info.node_namespace.rstrip("/")}/{info.node_name}',
        info.topic_type,
        quality.reliability == ReliabilityPolicy.RELIABLE,
        quality.durability == DurabilityPolicy.TRANSIENT_LOCAL,
    )


def domains_here(table: str) -> list[int]:
    """ROS domains in which a process of this machine takes part, by the ports that it holds.

    Args:
        table: content of /proc/net/udp.
    """
    ports = [int(line.split()[1].rpartition(':')[2], 16) for line in table.splitlines()[1:]]
    found = {divmod(port - _FIRST_PORT, _PORTS_OF_A_DOMAIN) for port in ports}
    return sorted(
        {domain for domain, rest in found if rest in _FIRST_PORTS and 0 <= domain <= _LAST_DOMAIN}
    )


def domains_with(topic: str, own: int) -> list[int]:
    """Other domains of this machine that have a publisher of a topic."""
    table = Path('/proc/net/udp')
    nodes: dict[int, Node] = {}
    for domain in domains_here(table.read_text()) if table.is_file() else ():
        if domain != own:
            context = Context()
            rclpy.init(context=context, domain_id=domain)
            nodes[domain] = Node('camera_doctor', context=context, start_parameter_services=False)
    try:
        until_s = time.monotonic() + _OTHER_DOMAINS_S
        found: list[int] = []
        while nodes and not found and time.monotonic() < until_s:
            time.sleep(_ASK_AGAIN_S)
            found = [domain for domain, node in nodes.items() if node.count_publishers(topic)]
        return found
    finally:
        for node in nodes.values():
            node.destroy_node()
            node.context.try_shutdown()


def watch(topics: Sequence[str], watched_s: float = WATCHED_S) -> list[SeenTopic]:
    """What is seen of some topics at once. Blocks for so many seconds, and some for the discovery."""
    context = Context()
    rclpy.init(context=context)
    node = Node(f'camera_doctor_{os.getpid()}', context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        watches = [CameraWatch(node, topic) for topic in topics]
        until_s = time.monotonic() + _DISCOVERY_S + watched_s
        asked_s = 0.0
        while time.monotonic() < until_s:
            if time.monotonic() > asked_s + _ASK_AGAIN_S:
                asked_s = time.monotonic()
                for each in watches:
                    each.subscribe()
            executor.spin_once(timeout_sec=0.1)
        return [each.seen() for each in watches]
    finally:
        executor.shutdown(0.0)
        node.destroy_node()
        context.try_shutdown()


def main() -> int:
    """Prints the faults of the topic that is named."""
    parser = argparse.ArgumentParser(
        prog='python -m deadline_perception.nodes camera_doctor',
        description=__doc__.splitlines()[0],
    )
    parser.add_argument('topic', help='of the images, such as /camera/image_raw')
    topic = parser.parse_args().topic
    make_room_for_images()
    (seen,) = watch([topic])
    print(
        json.dumps(
            {
                'topic': seen.topic,
                'images': len(seen.arrivals),
                'watched_s': round(seen.watched_s, 1),
                'faults': [asdict(fault) for fault in diagnose(seen)],
            }
        )
    )
    return 0


if __name__ == '__main__':
    sys.exit(main())
