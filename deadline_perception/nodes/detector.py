"""The lifecycle node `detector`: images in; detections, the path taken, and where the time went, out.

Callbacks only put the newest image into a slot. A thread of its own converts it, runs the network against the
deadline, and publishes; a watchdog publishes in its place when the network does not answer in time.
"""
from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait

import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecyclePublisher, LifecycleState, TransitionCallbackReturn
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image
from vision_msgs.msg import Detection2DArray, LabelInfo, VisionClass

from deadline_perception.datasets.image_message import ImageError, to_bgr
from deadline_perception.runtime.mailbox import Mailbox
from deadline_perception.runtime.tracks import LatePolicy
from deadline_perception.runtime.timed_frame import TimedInference
from deadline_perception.detector.detections import Detections
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.calibration import ForeignFile
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.msg import ContentionState, FrameLatency, PathDecision, TimeBudget
from deadline_perception.nodes import detector_parameters
from deadline_perception.runtime.status import DetectorStatus
from deadline_perception.nodes.frame_messages import frame_latency, path_decision
from deadline_perception.nodes.health import Health, Level, Report
from deadline_perception.runtime.pipeline import Arrival, FramePipeline, FrameRecord
from deadline_perception.nodes.managed_node import ManagedNode
from deadline_perception.nodes.messages import DetectionsMessage, stamp_to_ns
from deadline_perception.runtime.loading import LoadedNetwork, load_network, share_folder
from deadline_perception.nodes.parameters import Value, declare
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import LATCHED, RESULTS, publisher_events, subscription_events
from deadline_perception.runtime.work_thread import WorkThread

STOP_TIMEOUT_S = 3.0
FULL_COLLECTION_FRAMES = 500
CALIBRATION_FRAMES = 200  # a node that is killed loses what the calibration learnt from at most so many
ROOM_FOR_OBJECTS = 100
THROTTLE_S = 10.0
# A thread that returns from a network operation waits so long, by default 5 ms, for one that runs Python meanwhile.
SWITCH_INTERVAL_S = 0.0005


class DetectorNode(ManagedNode):
    """See the module. Parameters that concern frames take force when the node is activated, those that concern the
    network when it is configured."""

    def __init__(self) -> None:
        super().__init__('detector')
        self._values = declare(self, detector_parameters.PARAMETERS, detector_parameters.check)
        self._state, self._refusal = 'unconfigured', ''
        self._worker: WorkThread | None = None
        self._loaded: LoadedNetwork | None = None
        self._slot: Mailbox[Arrival] | None = None
        self._pipeline: FramePipeline | None = None
        self._serving: Future | None = None
        self._keeper: WorkThread | None = None
        self._inputs: list[Subscription] = []
        self._images_in: Subscription | None = None
        self._outputs: list[LifecyclePublisher] = []
        self._status = DetectorStatus()
        self._image_size: tuple[int, int] | None = None
        self._health = Health(self, self._report, period_s=self._values['diagnostics_period_s'])
        self._starter = None
        if self._values['autostart']:
            self._starter = self.create_timer(0.0, self._autostart, clock=Clock(clock_type=ClockType.STEADY_TIME))

    # --- lifecycle ---

    def _autostart(self) -> None:
        self.destroy_timer(self._starter)
        self._starter = None
        if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Loads network, profile and qualities, and warms every segment; blocks for seconds."""
        options = detector_parameters.network_options(self._values.snapshot())
        self._worker = WorkThread('inference')
        try:
            self._loaded = self._worker.submit(lambda: load_network(options, share_folder() / 'models')).result()
        except (DeadlinePerceptionError, ValueError, OSError, RuntimeError) as error:
            return self._refuse(error)
        for warning in (*self._loaded.notices, *self._loaded.degraded):
            self.get_logger().warning(warning)
        self._publish_detections = self._output(Detection2DArray, '~/detections')
        self._publish_path = self._output(PathDecision, '~/path')
        self._publish_latency = self._output(FrameLatency, '~/latency')
        self._publish_labels = self._output(LabelInfo, '~/label_info', LATCHED)
        self._health.hardware_id = str(self._loaded.facts)
        self._state, self._refusal = 'inactive', ''
        self.get_logger().info(f'configured: {self._loaded.network.config_name} on {self._loaded.facts}, '
                               f'{len(self._loaded.path_space)} paths')
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Starts to listen and to work."""
        values, loaded = self._values.snapshot(), self._loaded
        self._status = DetectorStatus()
        self._image_size = None
        self._message = DetectionsMessage(loaded.network.class_names, ROOM_FOR_OBJECTS)
        self._ages = detector_parameters.make_image_age(values)
        self._conditions = detector_parameters.make_conditions(values, loaded.degraded)
        late_policy = LatePolicy(values['late_policy'])
        self._pipeline = FramePipeline(
            inference=TimedInference(loaded.network, loaded.path_space, loaded.policy,
                                     keeps_proposals=late_policy is LatePolicy.PARTIAL), forecast=loaded.forecast,
            calibrator=loaded.calibrator, reserve=detector_parameters.make_reserve(values),
            conditions=self._conditions.now, convert=self._convert, publish=self._publish,
            publish_record=self._publish_record, failed=self._network_failed,
            late_policy=late_policy, late_grace_ms=values['late_grace_ms'],
            max_coasted=values['max_coasted'])
        result = super().on_activate(state)
        self._publish_labels(self._label_info())
        self._slot = Mailbox()
        self._keeper = WorkThread('calibration') if loaded.calibration_file else None
        self._serving = self._worker.submit(lambda: self._serve(self._slot, self._pipeline))
        self._serving.add_done_callback(self._served)
        self._subscribe(values)
        # What is alive now stays alive: looking through it again and again would pause frames for tens of ms.
        gc.collect()
        gc.freeze()
        gc.disable()
        self._state = 'active'
        return result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stops to listen; waits for the frame at work."""
        self._halt()
        self._state = 'inactive'
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Lets go of the network."""
        self._release()
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stops whatever runs and lets go of the network."""
        self._halt()
        self._release()
        self._state = 'finalized'
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Back to unconfigured after an error that nobody expected."""
        self._halt()
        self._release()
        self._refusal = 'a transition failed unexpectedly, see the log'
        return TransitionCallbackReturn.SUCCESS

    def destroy_node(self) -> None:
        """Ends the threads before the node's publishers go."""
        self._halt()
        self._release()
        super().destroy_node()

    def _refuse(self, error: Exception) -> TransitionCallbackReturn:
        again, self._refusal = bool(self._refusal), f'cannot be configured: {str(error) or type(error).__name__}'
        self._release()
        self._health.publish()  # which logs what is new
        if again:
            self.get_logger().error(self._refusal)
        return TransitionCallbackReturn.FAILURE

    def _halt(self) -> None:
        if self._slot is None:
            return
        for subscription in (*self._inputs, self._images_in):
            self.destroy_subscription(subscription)
        self._inputs, self._images_in = [], None
        self._slot.close()
        if wait([self._serving], STOP_TIMEOUT_S).not_done:
            self.get_logger().error(f'the network did not let go of a frame within {STOP_TIMEOUT_S:.0f} s')
        self._pipeline.stop()
        self._status.halt(self._slot)
        self._slot = self._pipeline = self._serving = None
        gc.enable()
        gc.unfreeze()
        self._keep_calibration()
        if self._keeper is not None:
            self._keeper.stop(STOP_TIMEOUT_S)
            self._keeper = None

    def _release(self) -> None:
        for publisher in self._outputs:
            self.destroy_lifecycle_publisher(publisher)
        self._outputs.clear()
        self._loaded = None
        if self._worker is not None:
            self._worker.stop(STOP_TIMEOUT_S)
            self._worker = None
        self._state = 'unconfigured'
        torch = sys.modules.get('torch')
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def _keep_calibration(self) -> None:
        """Leaves the state as it is now to a thread that may wait for the disk."""
        if self._keeper is None:
            return
        place, state = self._loaded.calibration_file, self._loaded.calibrator.state()

        def write() -> None:
            try:
                place.save(state)
            except (OSError, ForeignFile) as error:
                self.get_logger().error(f'calibration_file cannot be written: {error}')

        self._keeper.submit(write)

    # --- topics ---

    def _output(self, kind: type, topic: str, quality: QoSProfile = RESULTS) -> Callable:
        publisher = self.create_lifecycle_publisher(kind, topic, quality,
                                                    event_callbacks=publisher_events(self, topic))
        self._outputs.append(publisher)
        return publisher.publish

    def _subscribe(self, values: Mapping[str, Value]) -> None:
        self._inputs = [self._listen(TimeBudget, 'time_budget/budget', self._on_budget),
                        self._listen(ContentionState, 'contention_monitor/state', self._on_contention)]
        compressed = values['image_transport'] == 'compressed'
        topic = self.resolve_topic_name('image') + ('/compressed' if compressed else '')
        self._subscribe_to_images(CompressedImage if compressed else Image, topic, values['queue_depth'],
                                  values['reliability'])

    def _subscribe_to_images(self, kind: type, topic: str, depth: int, reliability: str) -> None:
        def weaken(_event: object) -> None:
            """Events of one publisher each; the second of them finds the weaker subscription in place."""
            if self._images_in is subscription:
                self.get_logger().info(f'{topic} is offered with best effort only: lost images stay lost')
                self.destroy_subscription(subscription)
                self._subscribe_to_images(kind, topic, depth, 'best_effort')

        events = subscription_events(self, topic, on_lost=self._on_lost)
        if reliability == 'auto':
            events.incompatible_qos = weaken
        quality = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=(
            ReliabilityPolicy.BEST_EFFORT if reliability == 'best_effort' else ReliabilityPolicy.RELIABLE))
        try:
            subscription = self.create_subscription(kind, topic, self._on_image, quality, event_callbacks=events)
        except RuntimeError:  # Humble's Fast DDS cannot tell what it lost: rclpy's UnsupportedEventTypeError
            events.message_lost = None
            subscription = self.create_subscription(kind, topic, self._on_image, quality, event_callbacks=events)
        self._images_in = subscription

    def _listen(self, kind: type, topic: str, callback: Callable) -> Subscription:
        return self.create_subscription(kind, topic, callback, RESULTS,
                                        event_callbacks=subscription_events(self, topic))

    def _on_image(self, message: Image | CompressedImage) -> None:
        arrived_ms = now_ms()
        stamp = self._ages.read(stamp_to_ns(message.header.stamp), self.get_clock().now().nanoseconds)
        if stamp.reason:
            self.get_logger().warning(f'{stamp.reason}; the deadline counts from the arrival',
                                      throttle_duration_sec=THROTTLE_S)
        slot = self._slot
        if slot is not None:
            slot.put(Arrival(message, arrived_ms, stamp))

    def _on_lost(self, count: int) -> None:
        self._status.middleware_lost += max(0, count)

    def _on_budget(self, message: TimeBudget) -> None:
        try:
            reason = (message.reason or 'degraded') if message.degraded else ''
            self._conditions.hear_budget(message.budget_ms, message.min_budget_ms, reason)
        except ValueError as error:
            self.get_logger().warning(f'{error}; left out', throttle_duration_sec=THROTTLE_S)

    def _on_contention(self, message: ContentionState) -> None:
        try:
            self._conditions.hear_contention(message.slowdown, '+'.join(message.sources))
        except ValueError as error:
            self.get_logger().warning(f'{error}; left out', throttle_duration_sec=THROTTLE_S)

    def _label_info(self) -> LabelInfo:
        info = LabelInfo()
        info.header.stamp = self.get_clock().now().to_msg()
        info.class_map = [VisionClass(class_id=number, class_name=name)
                          for number, name in enumerate(self._loaded.network.class_names)]
        return info

    # --- on the inference thread, publication also on the watchdog's ---

    def _serve(self, slot: Mailbox[Arrival], pipeline: FramePipeline) -> None:
        frames = 0
        while not slot.closed:
            taken = slot.take()
            if taken is None:
                continue
            self._status.busy_since_ms = now_ms()
            pipeline.process(*taken)
            self._status.busy_since_ms = None
            frames += 1
            if frames % CALIBRATION_FRAMES == 0:
                self._keep_calibration()
            if not slot.pending:
                gc.collect(2 if frames % FULL_COLLECTION_FRAMES == 0 else 1)

    def _served(self, serving: Future) -> None:
        error = serving.exception()
        if error is not None and self.context.ok():
            self._refusal = f'the inference thread ended: {error}'
            self.get_logger().fatal(''.join(traceback.format_exception(type(error), error, error.__traceback__)))

    def _convert(self, arrival: Arrival) -> np.ndarray | None:
        try:
            image = to_bgr(arrival.message)
        except ImageError as error:
            if self._status.reject(str(error)):
                self.get_logger().warning(f'image rejected: {error}')
            return None
        if self._image_size not in (None, image.shape[:2]):
            self.get_logger().warning(f'image size changed from {self._image_size[1]} x {self._image_size[0]} px to '
                                      f'{image.shape[1]} x {image.shape[0]} px', throttle_duration_sec=THROTTLE_S)
        self._image_size = image.shape[:2]
        return image

    def _publish(self, arrival: Arrival, detections: Detections) -> None:
        self._publish_detections(self._message.fill(detections, arrival.message.header))

    def _publish_record(self, record: FrameRecord) -> None:
        status = self._status
        status.note(record)
        self._publish_latency(frame_latency(
            record, device=str(self._loaded.facts), replaced_total=status.replaced,
            rejected_total=status.rejected_total, lost_total=status.middleware_lost))
        self._publish_path(path_decision(record, policy=self._loaded.policy.name,
                                         target_miss_probability=self._loaded.calibrator.alpha))

    def _network_failed(self, error: Exception) -> None:
        self._status.failures += 1
        self.get_logger().error(f'a frame failed: {type(error).__name__}: {error}', throttle_duration_sec=THROTTLE_S)

    # --- diagnostics ---

    def _report(self) -> Report:
        status = self._status
        values = {'state': self._state, **status.values()}
        problem = self._refusal or status.hanging()
        if problem:
            return Report(Level.ERROR, problem, values)
        degraded = () if self._loaded is None else self._loaded.degraded
        if self._state != 'active':
            return Report(Level.WARN if degraded else Level.OK, '; '.join((self._state, *degraded)), values)
        certificate = self._loaded.calibrator.certificate()
        values |= {'bound_margin': self._loaded.calibrator.factor, 'bound_misses': certificate.misses,
                   'bound_frames': certificate.frames, 'guaranteed_miss_ratio': certificate.guaranteed_miss_ratio}
        concerns = tuple(dict.fromkeys((*status.concerns(), *degraded)))  # the last frame says why it was degraded, too
        if concerns:
            return Report(Level.WARN, '; '.join(concerns), values)
        return Report(Level.OK, 'detecting' if status.frames else 'active, no image yet', values)


def main() -> int:
    """Runs the node as a process."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return run_node('detector', DetectorNode)


if __name__ == '__main__':
    sys.exit(main())
