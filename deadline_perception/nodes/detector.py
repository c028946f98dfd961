"""The lifecycle node `detector`: images in; results of a network, the path taken, and where the time went, out.

A callback only leaves the image for a thread of its own, which converts it, runs the network against the deadline, and
publishes; a watchdog publishes in its place when that does not answer in time. While an image is at work, or waits, no
other is taken off the middleware, which keeps the newest: taking one costs time of Python that the frame at work needs.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from sensor_msgs.msg import CompressedImage, Image
from vision_msgs.msg import LabelInfo

from deadline_perception.core.images.image_message import ImageError
from deadline_perception.core.stopwatch import ms_from_ns, now_ms
from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.msg import FrameLatency, PathDecision
from deadline_perception.nodes.detector_parameters import (
    PARAMETERS,
    camera_name,
    check,
    make_rules,
    network_options,
)
from deadline_perception.nodes.frame_messages import (
    RESULT_KINDS,
    frame_latency,
    label_info,
    path_decision,
)
from deadline_perception.nodes.health import Level, Report, report_of
from deadline_perception.nodes.image_input import ImageInput
from deadline_perception.nodes.managed_node import ManagedNode
from deadline_perception.nodes.message_intake import THROTTLE_S, MessageIntake
from deadline_perception.nodes.messages import stamp_to_ns, to_bgr
from deadline_perception.nodes.parameters import declare
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import LATCHED
from deadline_perception.runtime.conditions import ConditionTracker
from deadline_perception.runtime.image_flow import ImageAge, ImageFlow, RateLimit
from deadline_perception.runtime.job import Conditions, Job, JobRecord
from deadline_perception.runtime.loading import SetupError
from deadline_perception.runtime.pipeline import FramePipeline
from deadline_perception.runtime.status import DetectorStatus
from deadline_perception.system.kernel_thread import parse_cores
from deadline_perception.system.preparation import prepare_segments
from deadline_perception.system.priority import Role, ThreadPriority

# The one that receives an image stands aside for so long, so that inference begins at once: after 0.08 ms in place of
# 0.66, the interval and what a thread takes to wake.
STANDS_ASIDE_S = 0.0001


class _ResultMessages(threading.local):
    """A message to fill for each thread that publishes, so that none changes what another is publishing."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.result = make()


class DetectorNode(ManagedNode):
    """See the module. Parameters that concern frames take force when the node is activated, those that concern the
    network when it is configured.

    Args:
        topic: of the images.
        first: the node of the first camera, whose parameters and network it shares; None: it is that.

    Attributes:
        further: nodes of further cameras.
    """

    def __init__(self, topic: str = 'image', first: DetectorNode | None = None) -> None:
        self._topic = topic
        if first is None:
            super().__init__('detector')
        else:
            super().__init__(f'detector_{camera_name(topic)}', parameter_overrides=_as_of(first))
        self._values = declare(self, PARAMETERS, check)
        topics = filter(None, self._values['further_cameras'])
        self.further = [DetectorNode(further, self) for further in topics]
        self._detector: DeadlineDetector | None = None
        self._hung: DeadlineDetector | None = None
        self._pipeline: FramePipeline | None = None
        self._images: ImageInput | None = None
        self._flow = ImageFlow(topic)  # of the last activation
        self._dropped = 0  # images, since the last one that was taken
        self._rate = RateLimit()
        self._intake = MessageIntake(self)
        self._status = DetectorStatus()
        self._begin(self._values['autostart'])

    # --- lifecycle ---

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Loads network, profile and qualities, and warms every segment; blocks for seconds, on a device that nobody
        prepared for a minute."""
        options = network_options(self._values.snapshot())
        try:
            self._detector = DeadlineDetector(options, measures=False, prepare=self._prepare)
            loaded = self._detector.loaded
            network = loaded.task.network
            kind = RESULT_KINDS.get(network.result_type)
            if kind is None:
                raise SetupError(
                    f'network gives {network.result_type.__name__}, expected one of '
                    f'{", ".join(known.__name__ for known in RESULT_KINDS)}'
                )
        except (Exception, SystemExit) as error:  # whatever a network does as it is loaded
            return self._refuse(error)
        for warning in (*loaded.notices, *loaded.degraded):
            self.get_logger().warning(warning)
        self._messages = _ResultMessages(partial(kind.maker, network.class_names))
        self._publish_result = self._output(kind.message, kind.topic)
        self._publish_path = self._output(PathDecision, '~/path')
        self._path_message = partial(
            path_decision,
            policy=loaded.task.policy.name,
            target_miss_probability=loaded.task.times.calibrator.alpha,
        )
        self._publish_latency = self._output(FrameLatency, '~/latency')
        self._publish_late_latency = self._output(FrameLatency, '~/late')
        self._publish_labels = self._output(LabelInfo, '~/label_info', LATCHED)
        self._health.hardware_id = str(loaded.facts)
        self.get_logger().info(
            f'configured: {network.config_name} on {loaded.facts}, '
            f'{loaded.ready_paths} of {len(network.path_space)} paths ready'
        )
        return super().on_configure(state)

    def _prepare(self, weights: Path) -> None:
        """Called on the inference thread, while `on_configure` waits for it."""

        def report(progress: str) -> None:
            self.get_logger().info(progress)
            self._state = progress
            self._health.publish()

        report(f'prepares the segments of {weights} for this device, once, in about a minute')
        failure = prepare_segments(weights, self._values['threads'], report)
        if failure:
            self.get_logger().warning(f'segments stay unprepared, and run eagerly: {failure}')
        self._state = 'unconfigured'

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Starts to listen and to work."""
        detector = self._detector
        assert detector is not None  # configured
        values = self._values.snapshot()
        loaded = detector.loaded
        self._status = DetectorStatus()
        self._ages = ImageAge(self.get_parameter('use_sim_time').value)
        self._rate = RateLimit()
        self._dropped = 0
        self._conditions = ConditionTracker(
            default_budget_ms=values['default_budget_ms'],
            budget_timeout_ms=values['budget_timeout_ms'],
            standing=loaded.degraded,
        )
        # No locked memory with a GPU, whose driver maps more than there is.
        priority = ThreadPriority(
            values['priority'],
            cores=parse_cores(values['cores']),
            lock_memory=loaded.facts.kind == 'cpu',
        )
        priority.raise_thread(Role.SUPPORTING)
        result = super().on_activate(state)
        self._publish_labels(
            label_info(loaded.task.network.class_names, self.get_clock().now().to_msg())
        )
        self._pipeline = detector.open(
            self,
            make_rules(values),
            priority=priority,
            prepare=lambda: self._messages.result,
            collects_garbage=True,
        )
        self.get_logger().info(
            '; '.join((f'inference runs with {priority.in_force}', *priority.refusals))
        )
        self._intake.listen_to_conditions(self._conditions)
        self._images = ImageInput(
            self,
            self._topic,
            values['image_transport'],
            values['reliability'],
            on_image=self._on_image,
            is_wanted=lambda: self._pipeline is None or self._pipeline.wants_image,
        )
        self._flow = self._images.flow
        return result

    def _still_hangs(self) -> bool:
        """See `ManagedNode`."""
        return self._hung is not None and self._hung.hangs

    def _halt(self) -> None:
        pipeline = self._pipeline
        detector = self._detector
        if pipeline is None or detector is None:
            return
        self._intake.close()
        if self._images is not None:
            self._images.close()
        self._images = None
        if not detector.halt():
            self._hung = detector
            self.get_logger().error('the network did not let go of a frame in time')
        self._status.halt(pipeline)
        self._pipeline = None

    def destroy_node(self) -> None:
        """See `ManagedNode`; those of further cameras go with it."""
        for node in self.further:
            node.destroy_node()
        super().destroy_node()

    def _release(self) -> None:
        super()._release()
        if self._detector is not None:
            self._detector.close()
            self._detector = None
        cuda = getattr(
            sys.modules.get('torch'), 'cuda', None
        )  # none while torch is still being imported
        if cuda is not None and cuda.is_initialized():
            cuda.empty_cache()

    # --- topics ---

    def _on_image(
        self,
        message: Image | CompressedImage,
        waited_ns: int,
        dropped: int,
    ) -> None:
        arrival_ms = now_ms() - ms_from_ns(waited_ns)
        stamp = self._ages.read(
            stamp_to_ns(message.header.stamp), self.get_clock().now().nanoseconds - waited_ns
        )
        if stamp.reason:
            self.get_logger().warning(
                f'{stamp.reason}; the deadline counts from the arrival',
                throttle_duration_sec=THROTTLE_S,
            )
        self._dropped += dropped
        pipeline = self._pipeline
        if pipeline is not None and self._rate.takes(arrival_ms, self._values['max_rate_hz']):
            pipeline.arrive(Job(message, arrival_ms, stamp, self._dropped))
            self._dropped = 0
            time.sleep(STANDS_ASIDE_S)

    # --- FrameClient: on the inference thread, publication also on the watchdog's ---

    def conditions(self, job: Job) -> Conditions:
        return self._conditions.now()

    def convert(self, job: Job) -> np.ndarray | None:
        try:
            return to_bgr(job.message)
        except ImageError as error:
            self._status.reject(str(error))
            self.get_logger().warning(f'image rejected: {error}', throttle_duration_sec=THROTTLE_S)
            return None

    def publish(self, job: Job, result: object) -> None:
        self._publish_result(self._messages.result.fill(result, job.message.header))

    def on_record(self, record: JobRecord) -> None:
        self._status.note(record)
        self._conditions.on_frame(record)
        self._publish_latency(self._latency_message(record))
        self._publish_path(self._path_message(record))

    def on_late_record(self, record: JobRecord) -> None:
        self._conditions.on_frame(record)
        self._publish_late_latency(self._latency_message(record))

    def _latency_message(self, record: JobRecord) -> FrameLatency:
        status = self._status
        return frame_latency(
            record,
            device=self._health.hardware_id,
            replaced_total=status.replaced,
            rejected_total=status.rejected,
            lost_total=self._flow.lost,
        )

    def on_ready(self) -> None:
        images = self._images
        if images is not None:
            images.wake()

    def on_failure(self, error: BaseException) -> None:
        self._status.fail(error)
        if self.context.ok():
            self.get_logger().error(
                f'a frame failed: {type(error).__name__}: {error}', throttle_duration_sec=THROTTLE_S
            )

    def on_notice(self, words: str) -> None:
        self.get_logger().error(words)

    # --- diagnostics ---

    def _report(self) -> Report:
        status = self._status
        detector = self._detector
        pipeline = self._pipeline
        images = self._images
        values = {
            'state': self._state,
            **status.values(),
            'middleware_lost': self._flow.lost,
            'left_out_by_rate': self._rate.left_out,
            'refused_messages': self._intake.refused,
        }
        if detector is None:
            return Report(Level.OK, self._state, values)
        loaded = detector.loaded
        degraded = loaded.degraded
        if pipeline is None or images is None:
            return Report(
                Level.WARN if degraded else Level.OK, '; '.join((self._state, *degraded)), values
            )
        if detector.fault:
            return Report(Level.ERROR, detector.fault, values)
        times = loaded.task.times
        priority = detector.priority
        certificate = times.calibrator.certificate()
        values |= {
            'late_results': pipeline.late_results,
            'calibration_factor': times.whole.factor,
            'interruption_ms': times.whole.interruption_ms,
            'bound_misses': certificate.misses,
            'bound_exceeded_in_time': certificate.exceeded_in_time,
            'bound_frames': certificate.frames,
            'guaranteed_miss_ratio': certificate.guaranteed_miss_ratio,
            'feasible_frames': times.promised_frames,
            'late_feasible_frames': times.late_frames,
            'unpublished_frames': pipeline.unpublished,
            'ready_paths': loaded.ready_paths,
            'engine': loaded.task.network.engine.identity,
            'priority': priority.in_force,
            'priority_refused': '; '.join(priority.refusals),
        }
        # Each once: the last frame says why it was degraded, too.
        concerns = dict.fromkeys(
            (*images.concerns, *status.concerns(), self._intake.concern, *degraded)
        )
        return report_of(
            values,
            'detecting' if status.frames else 'active, no image yet',
            concerns=concerns,
            faults=(images.fault,),
        )


def _as_of(first: DetectorNode) -> list[Parameter]:
    """Parameters of the node of a further camera, whose calibration begins anew at each start."""
    values = {**first._values, 'further_cameras': [''], 'calibration_file': ''}
    return [Parameter(key, value=value) for key, value in values.items()]


def main() -> int:
    return run_node('detector', DetectorNode)
