"""What a node says about itself on /diagnostics, by timer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from deadline_perception.nodes.periodic_clock import steady_timer
from deadline_perception.nodes.service_quality import DIAGNOSTICS

_PERIOD_S = 1.0  # between two reports


class Level(IntEnum):
    """How well a node does, as in diagnostic_msgs."""

    OK = 0
    WARN = 1
    ERROR = 2


@dataclass(frozen=True)
class Report:
    """How a node does now.

    `message` is one line for a person, `values` are details by key; decimal numbers are shown with six digits.
    """

    level: Level
    message: str
    values: Mapping[str, object] = field(default_factory=dict)


def report_of(
    values: Mapping[str, object],
    fine: str,
    *,
    concerns: Iterable[str],
    faults: Iterable[str] = (),
) -> Report:
    """An error with all faults, else a warning with all concerns, else that it is fine; empty texts do not count."""
    for level, texts in ((Level.ERROR, faults), (Level.WARN, concerns)):
        message = '; '.join(filter(None, texts))
        if message:
            return Report(level, message, values)
    return Report(Level.OK, fine, values)


def as_text(value: object) -> str:
    """A detail as diagnostic tools show it."""
    if isinstance(value, bool):
        return 'true' if value else 'false'
    return f'{value:.6g}' if isinstance(value, float) else str(value)


class Health:
    """Publishes a node's report on /diagnostics, named `NODE: status` as usual, and logs it when its level changes.

    The timer runs on the steady clock, so a node whose simulated clock stands still is heard all the same. `read` is
    called on the executor; `hardware_id` is the device that the report is about.
    """

    def __init__(
        self,
        node: Node,
        read: Callable[[], Report],
        *,
        hardware_id: str = '',
    ) -> None:
        self._node = node
        self._read = read
        self.hardware_id = hardware_id
        self._logged = Level.OK
        self._publisher = node.create_publisher(DiagnosticArray, '/diagnostics', DIAGNOSTICS)
        steady_timer(node, _PERIOD_S, self.publish)

    def publish(self) -> None:
        """Publishes the report now."""
        report = self._read()
        self._log(report)
        status = DiagnosticStatus(
            level=bytes([report.level]),
            name=f'{self._node.get_fully_qualified_name().lstrip("/")}: status',
            message=report.message,
            hardware_id=self.hardware_id,
            values=[
                KeyValue(key=key, value=as_text(value)) for key, value in report.values.items()
            ],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)

    def _log(self, report: Report) -> None:
        before = self._logged
        self._logged = report.level
        if report.level == before:
            return
        logger = self._node.get_logger()
        if report.level == Level.OK:
            logger.info(f'in order again: {report.message}')
        elif report.level == Level.WARN:
            logger.warning(report.message)
        else:
            logger.error(report.message)
