"""The node `bag_recorder`: what the report needs becomes an mcap file that can be read whatever ends the recording."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

from rclpy.node import Node
from rclpy.qos import QoSReliabilityPolicy
from rclpy.subscription import Subscription
from rclpy.task import Future

from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.nodes.bag_types import message_class
from deadline_perception.nodes.bag_writer import BagWriter, RecordingFailed
from deadline_perception.nodes.health import Health, Level, Report, report_of
from deadline_perception.nodes.parameters import Parameter, declare
from deadline_perception.nodes.periodic_clock import steady_timer
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import newest, subscription_events

# What a run is judged by: the package's own topics, and of the camera all but the images.
TOPICS = {
    'detector/detections': 'vision_msgs/msg/Detection2DArray',
    'detector/path': 'deadline_perception/msg/PathDecision',
    'detector/latency': 'deadline_perception/msg/FrameLatency',
    'detector/label_info': 'vision_msgs/msg/LabelInfo',
    'time_budget/budget': 'deadline_perception/msg/TimeBudget',
    'qos_scheduler/schedule': 'deadline_perception/msg/Schedule',
    'qos_scheduler/jobs': 'deadline_perception/msg/JobReport',
    'contention_monitor/state': 'deadline_perception/msg/ContentionState',
    'vehicle_speed/speed': 'geometry_msgs/msg/TwistStamped',
    '/diagnostics': 'diagnostic_msgs/msg/DiagnosticArray',
    'camera/camera_info': 'sensor_msgs/msg/CameraInfo',
    '/ground_truth': 'vision_msgs/msg/Detection2DArray',
}
LATCHED_TOPICS = ('detector/label_info', 'qos_scheduler/schedule')

PARAMETERS = (
    Parameter(
        'output', 'recording.mcap', 'mcap file to write, which must not exist yet.', read_only=True
    ),
)
_TICK_S = 0.1
_DEPTH = 1000  # messages per topic that the middleware keeps until they are taken
_QUIET_TICKS = 3  # without a message, before a recording that shall end is closed
_LONGEST_END_TICKS = 30


class BagRecorderNode(Node):
    """Takes messages as they are, without decoding them, and hands them to a writer thread.

    It subscribes reliably, and anew with best effort where a publisher offers only that.
    """

    def __init__(self) -> None:
        super().__init__('bag_recorder')
        self._values = declare(self, PARAMETERS)
        self._is_closed = False
        self._topics: dict[str, Subscription] = {}
        self._taken = 0
        self._ending_ticks, self._quiet_ticks, self._taken_before = -1, 0, 0
        self.done: Future = Future()
        self._writer = BagWriter(Path(self._values['output']).expanduser(), message_types())
        for topic, msgtype in TOPICS.items():
            name = self.resolve_topic_name(topic)
            self._writer.add_topic(name, msgtype)
            self._subscribe(name, message_class(msgtype), latched=topic in LATCHED_TOPICS)
        steady_timer(self, _TICK_S, self._tick)
        self._health = Health(self, self._report)
        self.get_logger().info(f'recording {len(self._topics)} topics to {self._values["output"]}')

    def end(self) -> None:
        """Asks for the end: what is still on its way is taken in, then the bag is closed. Safe in a signal handler."""
        self._ending_ticks = max(self._ending_ticks, 0)

    def _subscribe(
        self, name: str, kind: type, *, reliable: bool = True, latched: bool = False
    ) -> None:
        quality = newest(_DEPTH, reliable=reliable, latched=latched)
        events = subscription_events(self, name)
        events.incompatible_qos = lambda _: self._subscribe_weaker(name, kind)
        old = self._topics.get(name)
        self._topics[name] = self.create_subscription(
            kind, name, partial(self._take, name), quality, raw=True, event_callbacks=events
        )
        if old is not None:
            self.destroy_subscription(old)

    def _subscribe_weaker(self, name: str, kind: type) -> None:
        if self._topics[name].qos_profile.reliability != QoSReliabilityPolicy.BEST_EFFORT:
            self.get_logger().info(
                f'{name} is offered with best effort only, so messages may be lost on the way'
            )
            self._subscribe(name, kind, reliable=False)

    def _take(self, name: str, raw: bytes) -> None:
        self._taken += 1
        self._writer.put(name, self.get_clock().now().nanoseconds, raw)

    def _tick(self) -> None:
        """Watches for the end; on the executor, for a signal handler may hardly do anything."""
        self._quiet_ticks = 0 if self._taken != self._taken_before else self._quiet_ticks + 1
        self._taken_before = self._taken
        if self._ending_ticks < 0 or self.done.done():
            return
        self._ending_ticks += 1
        if (
            self._ending_ticks > _QUIET_TICKS <= self._quiet_ticks
            or self._ending_ticks > _LONGEST_END_TICKS
        ):
            self.done.set_result(self._close())

    def _close(self) -> int:
        writer, self._is_closed = self._writer, True
        for subscription in self._topics.values():
            self.destroy_subscription(subscription)
        try:
            writer.close()
        except RecordingFailed as error:
            self.get_logger().error(str(error))
            return 1
        counts = ', '.join(f'{topic} {count}' for topic, count in sorted(writer.written.items()))
        self.get_logger().info(
            f'recorded {sum(writer.written.values())} messages to {self._values["output"]}: '
            f'{counts}'
        )
        return 0

    def destroy_node(self) -> None:
        """Closes the bag whatever ended the node."""
        if not self._is_closed:
            self._close()
        super().destroy_node()

    def _report(self) -> Report:
        if self._is_closed:
            return Report(Level.OK, 'closed')
        values = {
            'messages': self._taken,
            'waiting': self._writer.waiting,
            'dropped': self._writer.dropped,
            **{f'messages {topic}': count for topic, count in self._writer.written.items()},
        }
        dropped, failure = self._writer.dropped, self._writer.failure
        return report_of(
            values,
            f'recording to {self._values["output"]}',
            concerns=[f'{dropped} messages dropped: the disk takes less than comes']
            * bool(dropped),
            faults=[f'messages are not written: {failure}'] * bool(failure),
        )


def main() -> int:
    """Runs the node as a process; signals end the recording in an orderly way."""

    def create() -> BagRecorderNode:
        node = BagRecorderNode()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: node.end())
        return node

    return run_node('bag_recorder', create, own_signals=True, done=lambda node: node.done)
