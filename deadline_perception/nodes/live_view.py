"""The node `live_view`: what the detector sees and decides, live in a browser; needs the Rerun SDK."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rclpy.node import Node
from sensor_msgs.msg import Image
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.images.image_message import ImageError
from deadline_perception.core.operator_record import OperatorRecord
from deadline_perception.extras.report.live_view import LiveView, ViewedFrame
from deadline_perception.msg import FrameLatency, PathDecision
from deadline_perception.nodes.frame_join import FrameJoin, Parts
from deadline_perception.nodes.health import Health, Report, report_of
from deadline_perception.nodes.image_input import RELIABILITY, TRANSPORT, ImageInput
from deadline_perception.nodes.message_intake import MessageIntake
from deadline_perception.nodes.messages import message_to_detections, stamp_to_ns, to_bgr
from deadline_perception.nodes.parameters import Parameter, declare
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import RESULTS
from deadline_perception.runtime.job import Outcome

PARAMETERS = (
    replace(TRANSPORT, read_only=True),
    replace(RELIABILITY, read_only=True),
    Parameter('min_score', 0.3, 'Detections with a lower score are not shown.', '', 0.0, 1.0),
    Parameter(
        'web_port', 9090, 'Port of the page on this machine.', '', 1024, 65535, read_only=True
    ),
    Parameter(
        'data_port',
        9876,
        'Port that the page gets its data from.',
        '',
        1024,
        65535,
        read_only=True,
    ),
)
_IMAGE_DEPTH = 10
_SAID = (Detection2DArray, FrameLatency, PathDecision)


class LiveViewNode(Node):
    """Shows every image of which the detector has said all it says."""

    def __init__(self) -> None:
        super().__init__('live_view')
        values = self._values = declare(self, PARAMETERS)
        self._view = LiveView(grpc_port=values['data_port'], web_port=values['web_port'])
        self._view.wait()
        self.get_logger().info(f'live view: {self._view.address}')
        self._frames = FrameJoin(len(_SAID) + 1)
        self._shown, self._problem = 0, ''
        self._intake = MessageIntake(self)
        for kind, topic in zip(_SAID, ('detections', 'latency', 'path')):
            self._intake.listen(kind, f'detector/{topic}', self._on_part, RESULTS)
        self._images = ImageInput(
            self,
            'image',
            values['image_transport'],
            values['reliability'],
            on_image=lambda message, waited_ns, left_out: self._on_part(message),
            depth=_IMAGE_DEPTH,
        )
        self._health = Health(self, self._report)

    def _on_part(self, message: Any) -> None:
        parts = self._frames.join(message)
        if parts is None:
            return
        try:
            self._view.show(self._frame(parts))
            self._shown += 1
        except (ImageError, ValueError) as error:
            self._problem = f'a frame cannot be shown: {error}'

    def _frame(self, parts: Parts) -> ViewedFrame:
        found, latency, path = (parts[kind] for kind in _SAID)
        detections, names = message_to_detections(found)
        kept = detections.scores >= self._values['min_score']
        ids = [one.id for one, shown in zip(found.detections, kept.tolist()) if shown]
        return ViewedFrame(
            time_s=stamp_to_ns(parts[Image].header.stamp) / 1e9,
            image_bgr=to_bgr(parts[Image]),
            detections=detections.with_score(self._values['min_score']),
            class_names=names,
            ids=ids if any(ids) else (),
            budget_ms=latency.budget_ms,
            bound_ms=latency.total_ms - latency.network_ms + latency.bound_ms,
            latency_ms=latency.total_ms,
            path=latency.path,
            outcome=Outcome(latency.outcome).name.lower(),
            in_time=latency.deadline_met and latency.outcome == Outcome.DETECTED.value,
            operators=[_operator(one) for one in path.operators],
            reason=path.reason,
        )

    def destroy_node(self) -> None:
        """Closes the page's data first."""
        self._view.close()
        super().destroy_node()

    def _report(self) -> Report:
        values = {'shown': self._shown, 'address': self._view.address}
        problem, self._problem = self._problem, ''
        return report_of(values, self._view.address, concerns=(problem, self._intake.concern))


def _operator(message: Any) -> OperatorRecord:
    names = OperatorRecord.__dataclass_fields__
    return OperatorRecord(**{name: getattr(message, name) for name in names})


def main() -> int:
    return run_node('live_view', LiveViewNode)
