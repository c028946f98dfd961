"""The node `bag_player`: plays an mcap or sqlite3 bag, with one camera under the name that the detector listens to."""

from __future__ import annotations

import threading
import time

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.task import Future
from rosgraph_msgs.msg import Clock as ClockMessage

from deadline_perception.core.stopwatch import now_ns
from deadline_perception.extras.data.bag_file import BagError, BagTopic
from deadline_perception.nodes.bag_source import choose_camera, is_excluded, open_bag, read_ahead
from deadline_perception.nodes.bag_types import MessageTypeError, message_class
from deadline_perception.nodes.health import Health, Level, Report
from deadline_perception.nodes.messages import ns_to_stamp
from deadline_perception.nodes.parameters import Parameter, declare
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.restamp import Restamper
from deadline_perception.nodes.service_quality import REPLAY, newest, open_output
from deadline_perception.system.supervision import TRY_AGAIN_STATUS

PARAMETERS = (
    Parameter(
        'bag', '', 'Bag to play: a bag folder, or a bare .mcap or .db3 file.', read_only=True
    ),
    Parameter(
        'rate',
        1.0,
        'Speed of the replay, 2 is twice as fast as it was recorded.',
        '',
        0.01,
        100.0,
        read_only=True,
    ),
    Parameter(
        'camera',
        '',
        'Image topic of the bag that the detector is to see; empty: its only one, or the only one '
        'in colour. Other image topics are played as they are, and nobody has to listen to them.',
        read_only=True,
    ),
    Parameter(
        'image_topic',
        '',
        'Name that the images of the camera are played under; empty: as recorded.',
        read_only=True,
    ),
    Parameter(
        'camera_info_topic',
        '',
        "Name that the camera's calibration, camera_info beside its images in the bag, "
        'is played under; empty: camera_info beside image_topic.',
        read_only=True,
    ),
    Parameter(
        'wait_for_subscribers',
        1,
        'Subscribers that the camera must have before the first message; 0 begins at once.',
        '',
        0,
        100,
        read_only=True,
    ),
    Parameter(
        'wait_timeout_s',
        30.0,
        'Longest time to wait for subscribers; then the node ends with an error.',
        's',
        0.1,
        3600.0,
        read_only=True,
    ),
)
_POLL_S = 0.05
_CLOCK_RATE_HZ = 100.0
_LONGEST_GAP_NS = 10_000_000_000  # longer pauses in a bag are shortened to this
# Without a new subscriber: the middleware takes 3 s to introduce two processes again whose first introduction was lost.
_SETTLE_S = 3.5
_ACKNOWLEDGE_S = (
    4.0  # all topics together; the middleware asks subscribers for it only every few seconds
)


class BagPlayerNode(Node):
    """Plays on a thread of its own; the executor only serves parameters and events.

    Header stamps are moved to the time of their publication. With `use_sim_time` they stay as recorded, and /clock
    carries the time of the bag.
    """

    def __init__(self) -> None:
        super().__init__('bag_player')
        self._values = declare(self, PARAMETERS)
        self._bag = open_bag(self._values['bag'])
        self._keeps_stamps = self.get_parameter('use_sim_time').value
        self._restamper = Restamper(self._bag.store)
        self._outputs: dict[str, Publisher] = {}
        self._camera = choose_camera(self._bag, self._values['camera'])
        self._camera_out: Publisher | None = None
        self._sent = self._sent_images = self._shortened = 0
        self._behind_ms = 0.0
        self._state = 'waiting for subscribers'
        self._stopped = threading.Event()
        self.done: Future = Future()
        renamed = self._renamed()
        for topic in sorted(self._bag.topics, key=lambda topic: topic.name not in renamed):
            if topic.count and not is_excluded(topic.name):
                self._open_topic(topic, renamed.get(topic.name, topic.name))
        if not self._outputs:
            raise BagError(
                f'bag {self._values["bag"]} holds nothing to play but excluded topics: '
                f'{", ".join(sorted(topic.name for topic in self._bag.topics))}'
            )
        if self._bag.ending:
            self.get_logger().warning(self._bag.ending)
        self._clock_out = None
        if self._keeps_stamps:
            self._clock_out = self.create_publisher(ClockMessage, '/clock', newest(10))
        self._health = Health(self, self._report)
        self._thread = threading.Thread(target=self._run, name='bag player')
        self._thread.start()

    def _renamed(self) -> dict[str, str]:
        """Topic of the bag -> other name, for the camera and its calibration: in a namespace the nodes listen there."""
        if self._camera is None:
            return {}
        suffix = '/compressed' if self._camera.is_compressed else ''
        before = self._camera.name.removesuffix(suffix)
        after = self.resolve_topic_name(
            (self._values['image_topic'] or before).removesuffix(suffix)
        )
        info = self._values['camera_info_topic'] or f'{after.rpartition("/")[0]}/camera_info'
        return {self._camera.name: after + suffix, f'{before.rpartition("/")[0]}/camera_info': info}

    def _open_topic(self, topic: BagTopic, name: str) -> None:
        try:
            kind = message_class(topic.msgtype)
        except MessageTypeError as error:
            self.get_logger().warning(f'{topic.name} is not played: {error}')
            return
        taken = {publisher.topic_name: other for other, publisher in self._outputs.items()}
        other = taken.get(self.resolve_topic_name(name))
        if other is not None:
            self.get_logger().warning(f'{topic.name} is not played: {other} takes its name')
            return
        quality = REPLAY if topic.is_image else newest(100, latched=topic.latched)
        publisher = open_output(self, kind, name, quality)
        self._outputs[topic.name] = publisher
        if not self._keeps_stamps:
            self._restamper.prepare(topic.msgtype)
        if topic is self._camera:
            self._camera_out = publisher

    # --- on the player's thread ---

    def _run(self) -> None:
        status = 1
        try:
            status = self._play_all() if self._wait_for_subscribers() else TRY_AGAIN_STATUS
        except BagError as error:
            self.get_logger().error(str(error))
        finally:
            self._state = 'done'
            self._finish(status)

    def _finish(self, status: int) -> None:
        if self._stopped.is_set() or not self.context.ok():
            return
        executor = self.executor
        if executor is None:  # not spun yet
            self.done.set_result(status)
        else:  # which may be waiting for the future
            executor.create_task(lambda: self.done.set_result(status))

    def _wait_for_subscribers(self) -> bool:
        """Blocks until everybody listens; False when nobody came in time or the node is ending."""
        camera_out, wanted = self._camera_out, self._values['wait_for_subscribers']
        if camera_out is None or not wanted:
            return not self._stopped.wait(_POLL_S)
        begun_s = settled_s = time.monotonic()
        counts = None
        while not self._stopped.wait(_POLL_S):
            before, counts = counts, [p.get_subscription_count() for p in self._outputs.values()]
            now_s = time.monotonic()
            if counts != before:
                settled_s = now_s
            is_heard = camera_out.get_subscription_count() >= wanted
            if is_heard and now_s - settled_s >= _SETTLE_S:
                return True
            if now_s - begun_s > self._values['wait_timeout_s']:
                self.get_logger().error(
                    f'after {self._values["wait_timeout_s"]:g} s {camera_out.topic_name} has fewer than {wanted} '
                    f'subscribers; is the detector active? (ros2 topic info -v)'
                )
                return False
        return False

    def _play_all(self) -> int:
        self._state = 'playing'
        begun_ns = now_ns()
        self._play_messages()
        until_s = time.monotonic() + _ACKNOWLEDGE_S
        for publisher in self._outputs.values():
            if not self._stopped.is_set():
                publisher.wait_for_all_acked(Duration(seconds=max(0.0, until_s - time.monotonic())))
        self.get_logger().info(
            f'played {self._sent} messages, {self._sent_images} of them images of the camera, in '
            f'{(now_ns() - begun_ns) / 1e9:.1f} s'
        )
        return 0

    def _play_messages(self) -> None:
        rate = self._values['rate']
        due_ns, before_ns = now_ns(), None
        for topic, msgtype, bag_ns, raw in read_ahead(self._bag, set(self._outputs)):
            if before_ns is not None:
                gap_ns = max(0, bag_ns - before_ns)
                if gap_ns > _LONGEST_GAP_NS:
                    self._shortened += 1
                    self.get_logger().warning(
                        f'a pause of {gap_ns / 1e9:.1f} s in the bag is shortened to '
                        f'{_LONGEST_GAP_NS / 1e9:g} s'
                    )
                due_ns += int(min(gap_ns, _LONGEST_GAP_NS) / rate)
            if not self._wait_until(due_ns, bag_ns, rate):
                return
            before_ns = bag_ns
            self._send(topic, msgtype, bag_ns, raw)

    def _wait_until(self, due_ns: int, bag_ns: int, rate: float) -> bool:
        """Blocks until a message is due, with /clock running on towards it; False when the node is ending."""
        while True:
            left_s = (due_ns - now_ns()) / 1e9
            self._behind_ms = max(0.0, -left_s * 1e3)
            if left_s <= 0:
                return not self._stopped.is_set() and self.context.ok()
            if self._clock_out is None:
                pause_s = left_s
            else:
                self._publish_clock(bag_ns - int(left_s * rate * 1e9))
                pause_s = min(left_s, 1.0 / _CLOCK_RATE_HZ)
            if self._stopped.wait(pause_s):
                return False

    def _send(self, topic: str, msgtype: str, bag_ns: int, raw: bytes) -> None:
        publisher = self._outputs[topic]
        if self._keeps_stamps:
            self._publish_clock(bag_ns)
        else:
            raw = self._restamper.restamp(raw, msgtype, time.time_ns())
        publisher.publish(bytes(raw))
        self._sent += 1
        self._sent_images += publisher is self._camera_out

    def _publish_clock(self, bag_ns: int) -> None:
        if self._clock_out is not None:
            self._clock_out.publish(ClockMessage(clock=ns_to_stamp(max(0, bag_ns))))

    def destroy_node(self) -> None:
        """Ends the player's thread first."""
        self._stopped.set()
        self._thread.join()
        self._bag.close()
        super().destroy_node()

    def _report(self) -> Report:
        values = {
            'state': self._state,
            'messages': self._sent,
            'images': self._sent_images,
            'shortened_pauses': self._shortened,
            'behind_ms': self._behind_ms,
            'stamps': 'as recorded, with /clock'
            if self._keeps_stamps
            else 'moved to the wall clock',
        }
        if self._behind_ms > 100.0:
            return Report(
                Level.WARN,
                f'the replay is {self._behind_ms:.0f} ms behind, the machine is too slow for '
                f'rate {self._values["rate"]:g}',
                values,
            )
        return Report(Level.OK, self._state, values)


def main() -> int:
    return run_node('bag_player', BagPlayerNode, done=lambda node: node.done, sends_images=True)
