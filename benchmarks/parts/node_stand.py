"""Node processes on a test stand: a camera, a speed, budgets and contention go in, what comes out is noted.

The nodes are the package's, each in a process, started as its own table of nodes starts them, and heard over DDS.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import rclpy
from builtin_interfaces.msg import Time
from deadline_perception.msg import ContentionState, FrameLatency, TimeBudget
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from nav_msgs.msg import Odometry
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.nodes.bringup import NODES_PACKAGE, process_order
from deadline_perception.nodes.launch_arguments import read_values
from deadline_perception.nodes.node_table import NODES
from parts.node_listener import NodeListener
from parts.node_process import NodeProcess, ProcessFigures, StandError, children, process_figures

HERE = Path(__file__).parent
BUDGET_MS, MIN_BUDGET_MS = 200.0, 100.0
IMAGES = 10  # different ones, shown in turn
TURNS = {
    'configure': Transition.TRANSITION_CONFIGURE,
    'activate': Transition.TRANSITION_ACTIVATE,
    'deactivate': Transition.TRANSITION_DEACTIVATE,
    'cleanup': Transition.TRANSITION_CLEANUP,
}
START_LIMIT_S = 120.0
# Fast DDS drops an answer where the server has not met the client's reader 100 ms after the request (ros2/rmw_fastrtps,
# issue 842), and nobody tells whether it has.
MEETING_S = 1.0


@dataclass(frozen=True)
class Feed:
    """What goes into the nodes, each with a rate in Hz (0: nothing), and a change that is made to every message."""

    images_hz: float = 10.0
    budgets_hz: float = 5.0
    states_hz: float = 3.0
    speeds_hz: float = 20.0
    clock_hz: float = 100.0
    image: Callable[[Image, int], object] | None = None
    budget: Callable[[TimeBudget], object] | None = None
    state: Callable[[ContentionState], object] | None = None


class Stand:
    """Nodes in processes of their own, fed and listened to. A context: all processes end with it.

    Args:
        names: the nodes; ('bringup',) starts all of them, under the package's own supervision.
        folder: for logs and files.
        profile: latency profile of the shipped weights on this machine; None: the nodes find one, or scale another's.
        feed: what goes in.
        points: the detector runs behind `fault_points`.
        simulated: the nodes take their time from /clock.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        folder: Path,
        profile: Path | None,
        *,
        feed: Feed = Feed(),
        points: bool = False,
        simulated: bool = False,
    ) -> None:
        self.names, self.folder, self.usual, self.feed = names, folder, feed, feed
        self.namespace = f'/stand{os.getpid()}'
        self.sent: list[float] = []  # when each image was, ms; its number is its place
        self.processes: dict[str, NodeProcess] = {}
        # Of every process, by the name that the operating system has.
        self.first_threads: dict[int, Counter] = {}
        self.orders = folder / 'orders.json' if points else None
        self.profile = profile
        self.simulated_ns: int | None = 1_000_000_000_000 if simulated else None
        self.clock_rate = 1.0
        self.values = read_values(
            {
                'namespace': self.namespace,
                'image_topic': f'{self.namespace}/image',
                'profile': str(profile or ''),
                'use_sim_time': str(simulated),
            }
        )
        self._running = True
        self._camera, self._image_out = threading.Lock(), None
        self._images: list[array] = []

    # --- processes ---

    def __enter__(self) -> Stand:
        frames = render_drive(seconds=IMAGES / 10, rate_hz=10.0).frames
        self._images = [array('B', frame.load_bgr().tobytes()) for frame in frames]
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node('stand', namespace=self.namespace, context=self.context)
        self._connect()
        self._threads = [
            threading.Thread(target=call, daemon=True) for call in (self._listen, self._send)
        ]
        for thread in self._threads:
            thread.start()
        try:
            for name in self.names:
                self.launch(name)
            self.wait(
                lambda: self.recovered(0.0) or self.refusal, 'the first answer', START_LIMIT_S
            )
            if self.refusal:
                raise StandError(f'a node of the stand refuses: {self.refusal}')
            own = set(self.names) - {'bringup'}
            self.wait(
                lambda: own <= {name for _, name, _, _ in self.heard.diagnostics},
                'diagnostics of all nodes',
                START_LIMIT_S,
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._running = False
        for process in self.processes.values():
            process.end()
        for thread in self._threads:
            thread.join(5.0)
        self.context.try_shutdown()
        self.node.destroy_node()

    def launch(self, name: str) -> NodeProcess:
        """Starts a node as its table says."""
        self.processes[name] = NodeProcess(name, *self.order(name), self.folder / f'{name}.log')
        return self.processes[name]

    def order(self, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
        """Command and environment of a node."""
        if name == 'bringup':
            words = []
            for key, value in self.values.items():
                if value != '' and not isinstance(value, bool):
                    words += ['--' + key.replace('_', '-'), str(value)]
            return (sys.executable, '-m', 'deadline_perception.nodes', 'bringup', *words), {}
        order = process_order(next(entry for entry in NODES if entry.name == name), self.values)
        command, environment = list(order.command), dict(order.environment)
        if self.orders is not None and name == 'detector':
            command[1 : command.index(NODES_PACKAGE) + 1] = [str(HERE / 'fault_points.py')]
            environment['FAULT_ORDERS'] = str(self.orders)
        return tuple(command), environment

    def pids(self) -> dict[str, int]:
        """Process of every node that runs."""
        found = {
            name: process.pid
            for name, process in self.processes.items()
            if process.exit_status is None
        }
        for pid, line in children(found.get('bringup', 0)).items():
            found |= {
                entry.name: pid
                for entry in NODES
                if f'deadline_perception.nodes {entry.name} ' in line
            }
        return found

    def figures(self) -> dict[str, ProcessFigures]:
        """What every running node holds now."""
        found = {}
        for name, pid in self.pids().items():
            with suppress(OSError, psutil.Error):  # it ended meanwhile
                found[name] = process_figures(pid)
        return found

    def revive(self) -> dict[str, int]:
        """Starts anew what has died, as a launch file with respawn does. Returns names and exit statuses."""
        died = {
            name: process.exit_status
            for name, process in self.processes.items()
            if process.exit_status is not None
        }
        for name in died:
            self.processes[name].start()
        return died

    def output(self) -> str:
        """All that the nodes have said."""
        return ''.join(process.output for process in self.processes.values())

    # --- what goes in ---

    def now_ns(self) -> int:
        """The time that the nodes have, too."""
        return time.time_ns() if self.simulated_ns is None else self.simulated_ns

    def stamp(self) -> Time:
        """That time in a message."""
        return rclpy.time.Time(nanoseconds=self.now_ns()).to_msg()

    def strike(self, **points: dict) -> None:
        """Orders hangs and failures, see `fault_points`."""
        orders = {
            point: {'calls': 1, 'hang_s': 0.0, 'error': '', 'exits': False} | order
            for point, order in points.items()
        }
        draft = self.orders.with_suffix('.draft')
        draft.write_text(json.dumps(orders))
        draft.replace(self.orders)

    def feed_for(self, seconds: float, **changes: object) -> None:
        """Blocks while something else goes in."""
        self.feed = replace(self.feed, **changes)
        time.sleep(seconds)

    def make_image(self, number: int) -> Image:
        """An image as the camera gives it; its number stands in its frame, whatever becomes of its stamp."""
        data = self._images[number % IMAGES]
        image = Image(height=380, width=640, encoding='bgr8', step=1920, data=data)
        image.header.frame_id = f'camera {number}'
        image.header.stamp = self.stamp()
        return image

    def change_camera(self, reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE) -> None:
        """Ends the camera's driver, and starts another in its place."""
        with self._camera:
            if self._image_out is not None:
                self.node.destroy_publisher(self._image_out)
            quality = QoSProfile(depth=10, reliability=reliability)
            self._image_out = self.node.create_publisher(Image, 'image', quality)

    def _connect(self) -> None:
        self.change_camera()
        node = self.node
        fed = {Clock: '/clock'} if self.simulated_ns is not None else {}
        if 'bringup' not in self.names:
            fed |= {TimeBudget: 'time_budget/budget', ContentionState: 'contention_monitor/state'}
        if 'contention_monitor' in self.names:
            del fed[ContentionState]
        self._outs = {kind: node.create_publisher(kind, topic, 10) for kind, topic in fed.items()}
        self._odometry = node.create_publisher(Odometry, '/odom', 10)
        self._turns = node.create_client(ChangeState, 'detector/change_state')
        self.heard = NodeListener(node)

    def _send(self) -> None:
        sources = {
            'images_hz': self._send_image,
            'budgets_hz': self._send_budget,
            'states_hz': self._send_state,
            'speeds_hz': self._send_speed,
        }
        if self.simulated_ns is not None:
            sources['clock_hz'] = self._send_clock
        due_ms = dict.fromkeys(sources, now_ms())
        while self._running and self.context.ok():
            for rate, send in sources.items():
                hz = getattr(self.feed, rate)
                due_ms[rate] = min(due_ms[rate], now_ms() + 1000.0 / hz) if hz else now_ms() + 50.0
                if hz and now_ms() >= due_ms[rate]:
                    send()
                    due_ms[rate] = max(due_ms[rate] + 1000.0 / hz, now_ms() - 100.0)
            time.sleep(min(max(0.0, (min(due_ms.values()) - now_ms()) / 1000.0), 0.02))

    def _send_image(self) -> None:
        number = len(self.sent)
        image = self.make_image(number)
        if self.feed.image is not None:
            self.feed.image(image, number)
        self.sent.append(now_ms())
        with self._camera:
            self._image_out.publish(image)

    def _send_clock(self) -> None:
        if self.clock_rate:
            self.simulated_ns += int(1e9 / self.feed.clock_hz * self.clock_rate)
            self._outs[Clock].publish(Clock(clock=self.stamp()))

    def _publish(self, message: object, change: Callable | None) -> None:
        if hasattr(message, 'header'):
            message.header.stamp = self.stamp()
        if change is not None:
            change(message)
        if type(message) in self._outs:
            self._outs[type(message)].publish(message)

    def _send_budget(self) -> None:
        budget = TimeBudget(budget_ms=BUDGET_MS, min_budget_ms=MIN_BUDGET_MS, max_budget_ms=400.0)
        self._publish(budget, self.feed.budget)

    def _send_state(self) -> None:
        self._publish(ContentionState(slowdown=1.0, sources=['stand']), self.feed.state)

    def _send_speed(self) -> None:
        message = Odometry()
        message.header.stamp = self.stamp()
        message.twist.twist.linear.x = 5.0
        self._odometry.publish(message)

    # --- what comes out ---

    def _listen(self) -> None:
        executor = SingleThreadedExecutor(context=self.context)
        executor.add_node(self.node)
        while self.context.ok():
            try:
                executor.spin()
            except ExternalShutdownException:
                return
            except InvalidHandle:  # of a publisher that a fault has just destroyed
                pass

    @property
    def refusal(self) -> str:
        """Why a node cannot be configured, empty when none has said so."""
        said = self.heard.problems()
        return next((text for text in said if text.startswith('cannot be configured')), '')

    def recovered(self, since_ms: float) -> bool:
        """The network has found objects in time in an image sent after that."""
        return any(
            frame.outcome == FrameLatency.DETECTED
            and frame.met
            and 0 <= frame.number < len(self.sent)
            and self.sent[frame.number] > since_ms
            for frame in reversed(self.heard.frames[-50:])
        )

    def wait(self, condition: Callable[[], object], what: str, limit_s: float) -> None:
        """Blocks until something holds.

        Raises:
            StandError: it did not within the limit.
        """
        until = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > until:
                said = self.output()[-500:]
                raise StandError(f'waited {limit_s:.0f} s for {what}; the nodes said last: {said}')
            time.sleep(0.02)

    # --- services ---

    def turn(self, *transitions: str, limit_s: float = 40.0) -> list[bool | None]:
        """Asks the detector for transitions, one after the other: whether each succeeded, None where there is no answer."""
        found: list[bool | None] = []
        if not self._turns.service_is_ready():
            self._turns.wait_for_service(limit_s)
            time.sleep(MEETING_S)
        for transition in transitions:
            until = time.monotonic() + limit_s
            request = ChangeState.Request(transition=Transition(id=TURNS[transition]))
            future = self._turns.call_async(request)
            while not future.done() and time.monotonic() < until:
                time.sleep(0.01)
            found.append(future.result().success if future.done() else None)
        return found
