"""The lifecycle node `contention_monitor`: how busy the machine is, and by what factor that stretches a frame."""

from __future__ import annotations

import math
from itertools import chain, takewhile

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.subscription import Subscription
from rclpy.timer import Timer

from deadline_perception.core.device import gpu_index
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.msg import ContentionState, FrameLatency
from deadline_perception.nodes.health import Level, Report, report_of
from deadline_perception.nodes.image_input import WhileWanted
from deadline_perception.nodes.managed_node import ManagedNode
from deadline_perception.nodes.message_intake import MessageIntake
from deadline_perception.nodes.messages import bounded
from deadline_perception.nodes.parameters import Parameter, declare
from deadline_perception.nodes.periodic_clock import steady_timer
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import FRAMES
from deadline_perception.system.priority import MODES, Role, ThreadPriority
from deadline_perception.timing.contention.probe import Probe, probe_pause_ms
from deadline_perception.timing.contention.sensors import (
    JETSON_GPU_LOADS,
    Nvml,
    Readings,
    SensorAbsent,
    find_jetson_gpu,
    open_nvml,
    read_contention,
)
from deadline_perception.timing.contention.slowdown import SlowdownEstimator

RATE_HZ = 3.0
PARAMETERS = (
    Parameter('autostart', True, 'Configure and activate without being asked.', read_only=True),
    Parameter(
        'device',
        'cpu',
        'Processor that the detector runs on, such as cpu, cuda or cuda:1; GPU sensors are read '
        'in any case.',
        read_only=True,
    ),
    Parameter(
        'priority',
        'auto',
        "Niceness of the probe; set it as the detector's parameter of that name. Raised "
        'frames hardly wait for other programs, and a probe that does would say that they do.',
        choices=MODES,
        read_only=True,
    ),
    Parameter(
        'gpu_load_files',
        [''],
        "Where a Jetson's GPU shows its load, 0 to 1000, below / and with * and ?; the "
        "first that exists when the node is configured is read; [''] where the boards known so far have it.",
        read_only=True,
    ),
)


def observe_frame(estimator: SlowdownEstimator, message: FrameLatency) -> None:
    """Lets the estimator learn from one frame, whichever way its path was changed as it ran.

    A frame that was answered before its network had ended counts as far as it came. If it ended after all, it is reported
    again as late, and counts in full instead.
    """
    observe = {
        FrameLatency.COASTED: estimator.observe_unfinished,
        FrameLatency.LATE: estimator.observe_late,
    }.get(message.outcome, estimator.observe_frame)
    observe(message.idle_forecast_ms, message.network_ms, message.bound_ms)


def take_waiting(subscription: Subscription) -> list[tuple[bytes, dict[str, int]]]:
    """Messages that wait with what the middleware says of each, no more than the queue holds.

    Whoever publishes faster than they are taken would keep the node at it.
    """
    handle = subscription.handle
    with handle:
        found = (handle.take_message(subscription.msg_type, True) for _ in range(FRAMES.depth))
        return list(takewhile(lambda one: one is not None, found))


class ContentionMonitorNode(ManagedNode):
    """While active, publishes `~/state` by timer. No sensor has to exist.

    The detector itself moves a state by what its frames say until the next one, see `runtime/conditions.py`.
    """

    def __init__(self) -> None:
        super().__init__('contention_monitor')
        self._values = declare(self, PARAMETERS, lambda values: gpu_index(values['device']))
        self._nvml: Nvml | None = None
        self._readings = Readings()
        self._timer: Timer | None = None
        self._frames_in: list[Subscription] = []
        self._flooded: list[str] = []  # topics with more frames than their queue holds
        # `_take_frames` takes them, and they wake no executor: for each, rclpy would make a wait set of all that the
        # node has, which takes longer than all that is done with a frame (measured:
        # benchmarks/monitor_cost.py of commit a7507dff).
        self._taken = WhileWanted(lambda: False)
        self._intake = MessageIntake(self)
        self._begin(self._values['autostart'], self._values['device'])

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Opens the sensors that exist and prepares the probe."""
        try:
            self._nvml = open_nvml(gpu_index(self._values['device']))
        except SensorAbsent:
            self._nvml = None
        self._gpu_file = find_jetson_gpu(
            files=[file.lstrip('/') for file in self._values['gpu_load_files'] if file]
            or JETSON_GPU_LOADS
        )
        self._sources: set[str] = set()
        self._probe = Probe()
        self._estimator = SlowdownEstimator()
        self._probe_ms = math.nan
        self._probed_ms = 0.0
        self._probing_ms = 0.0
        self._frames_came = False  # before the last look
        self._publish = self._output(ContentionState, '~/state')
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Starts to measure and to publish."""
        self._priority = ThreadPriority(self._values['priority'], lock_memory=False)
        self._priority.raise_thread(Role.SUPPORTING)
        self._frames_in = [
            self.create_subscription(
                FrameLatency,
                topic,
                lambda raw: None,
                FRAMES,
                callback_group=self._taken,
                raw=True,
            )
            for topic in ('detector/latency', 'detector/late')
        ]
        # The steady clock: the machine is busy by its own clock, whatever a simulated clock says.
        self._timer = steady_timer(self, 1.0 / RATE_HZ, self._measure)
        return super().on_activate(state)

    def _halt(self) -> None:
        if self._timer is not None:
            self.destroy_timer(self._timer)
            for subscription in self._frames_in:
                self.destroy_subscription(subscription)
            self._timer = None
            self._frames_in = []
            self._priority.restore()

    def _release(self) -> None:
        super()._release()
        self._nvml = None

    def _take_frames(self) -> bool:
        """Takes in the frames that came since the last call, as the executor would have. Returns whether any came."""
        waiting = {entry.topic_name: take_waiting(entry) for entry in self._frames_in}
        self._flooded = [topic for topic, found in waiting.items() if len(found) == FRAMES.depth]
        # In the order in which they were reported: a late frame takes the place of what was said of it just before.
        in_order = sorted(chain(*waiting.values()), key=lambda one: one[1]['source_timestamp'])
        for raw, _ in in_order:
            message = self._intake.message_in(raw, FrameLatency, 'detector/latency')
            if message is not None:
                observe_frame(self._estimator, message)
        return any(waiting.values())

    def _measure(self) -> None:
        self._run_probe()
        self._frames_came = self._take_frames()
        self._readings = read_contention(
            before=self._readings.cpu_times,
            nvml=self._nvml,
            gpu_file=self._gpu_file,
            expected=self._sources,
        )
        self._sources |= set(self._readings.sources)
        self._publish_state()

    def _publish_state(self) -> None:
        slowdown = self._estimator.slowdown
        message = ContentionState(
            slowdown=slowdown,
            probe_ms=self._probe_ms,
            probe_idle_ms=self._probe.idle_ms,
            sources=[*self._readings.sources, *self._estimator.sources],
            degraded=bool(self._readings.reason),
            reason=bounded(self._readings.reason),
            **{
                name: getattr(self._readings, name)
                for name in (
                    'cpu_utilisation',
                    'cpu_pressure',
                    'memory_pressure',
                    'gpu_utilisation',
                    'gpu_memory_used',
                )
            },
        )
        message.header.stamp = self.get_clock().now().to_msg()
        message.header.frame_id = 'base_link'
        self._publish(message)

    def _run_probe(self) -> None:
        """Runs the probe when its share of the time allows it; a slow probe makes the next one wait longer."""
        begun_ms = now_ms()
        pause_ms = probe_pause_ms(self._probing_ms, beside_frames=self._frames_came)
        if begun_ms < self._probed_ms + pause_ms:
            return
        self._probe_ms = self._probe.run()
        self._probed_ms = begun_ms
        self._probing_ms = now_ms() - begun_ms
        self._estimator.observe_probe(self._probe_ms, self._probe.idle_ms)

    def _report(self) -> Report:
        if self._state != 'active':
            return Report(Level.OK, self._state, {'state': self._state})
        readings = self._readings
        slowdown = self._estimator.slowdown
        values = {
            'state': self._state,
            'slowdown': slowdown,
            'probe_ms': self._probe_ms,
            'contention_source': '+'.join((*readings.sources, *self._estimator.sources)),
            'cpu_utilisation': readings.cpu_utilisation,
            'gpu_utilisation': readings.gpu_utilisation,
            'refused_messages': self._intake.refused,
            'priority': self._priority.in_force,
        }
        floods = [
            f'{topic}: more than {FRAMES.depth * RATE_HZ:.0f} messages a second'
            for topic in self._flooded
        ]
        return report_of(
            values,
            f'slowdown {slowdown:.2f}',
            concerns=(readings.reason, self._intake.concern, *floods),
        )


def main() -> int:
    return run_node('contention_monitor', ContentionMonitorNode)
