"""Node processes on a test stand: a camera, a speed, budgets and contention go in, what comes out is noted with its time.

The nodes are those of the package, started as its own table of nodes starts them, each in a process, and heard over DDS.
"""
from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import rclpy
import yaml
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from nav_msgs.msg import Odometry
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image
from vision_msgs.msg import Detection2DArray
from visualization_msgs.msg import MarkerArray
from geometry_msgs.msg import TwistStamped

from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.msg import ContentionState, FrameLatency, TimeBudget
from deadline_perception.nodes.bringup import NODES, process_order, read_values
from deadline_perception.nodes.middleware import make_room_for_images
from deadline_perception.rendering.drive import render_drive
from deadline_perception.runtime.loading import share_folder
from deadline_perception.tools.profile_at_hand import ensure_profile
from deadline_perception.tools.weights_file import DEFAULT_WEIGHTS, find_weights

HERE = Path(__file__).parent
BUDGET_MS, MIN_BUDGET_MS = 200.0, 100.0
IMAGES = 10  # different ones, shown in turn
TURNS = {'configure': Transition.TRANSITION_CONFIGURE, 'activate': Transition.TRANSITION_ACTIVATE,
         'deactivate': Transition.TRANSITION_DEACTIVATE, 'cleanup': Transition.TRANSITION_CLEANUP}
START_LIMIT_S = 120.0
_PR_SET_PDEATHSIG = 1


class StandError(DeadlinePerceptionError):
    """The stand cannot be used: a node did not start, or did not answer."""


@dataclass(frozen=True)
class ProcessFigures:
    """What a process holds.

    Attributes:
        memory_kb: resident memory.
        threads: threads of the operating system.
        descriptors: open files and sockets.
    """

    memory_kb: int
    threads: int
    descriptors: int


def process_figures(pid: int) -> ProcessFigures:
    """Figures of a running process.

    Raises:
        OSError: it is gone.
    """
    status = Path(f'/proc/{pid}/status').read_text()
    found = {key: int(re.search(rf'^{key}:\s+(\d+)', status, re.MULTILINE)[1]) for key in ('VmRSS', 'Threads')}
    return ProcessFigures(found['VmRSS'], found['Threads'], len(os.listdir(f'/proc/{pid}/fd')))


def children(pid: int) -> dict[int, str]:
    """The living processes that a process has started, each with its command line."""
    found = {}
    for place in Path('/proc').glob('[0-9]*'):
        try:
            state, parent = place.joinpath('stat').read_text().rpartition(')')[2].split()[:2]
            if int(parent) == pid and state != 'Z':
                found[int(place.name)] = place.joinpath('cmdline').read_text().replace('\0', ' ')
        except OSError:  # it ended meanwhile
            pass
    return found


class NodeProcess:
    """A process that writes what it says into a file, and dies with this one.

    Args:
        name: of the node.
        command: program and arguments.
        environment: variables beyond this process's own.
        log: file; what an earlier process said stays in it.
    """

    def __init__(self, name: str, command: tuple[str, ...], environment: Mapping[str, str], log: Path) -> None:
        self.name, self.log, self.command, self.environment = name, log, command, environment
        self.start()

    def start(self) -> None:
        """Starts it, for the first time or anew."""
        with self.log.open('a') as stream:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, 'RCUTILS_COLORIZED_OUTPUT': '0', 'PYTHONUNBUFFERED': '1', **self.environment},
                preexec_fn=lambda: ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL))

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self.process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    @property
    def output(self) -> str:
        """All that it has said."""
        return self.log.read_text(encoding='utf-8', errors='replace')

    def end(self) -> None:
        """Asks it to end, and kills it when it does not."""
        for number, wait_s in ((signal.SIGCONT, 0.0), (signal.SIGINT, 6.0), (signal.SIGKILL, 5.0)):
            if self.process.poll() is None:
                self.process.send_signal(number)
                try:
                    self.process.wait(wait_s)
                except subprocess.TimeoutExpired:
                    pass


@dataclass(frozen=True)
class Feed:
    """What goes into the nodes, each with a rate in Hz (0: nothing), and a change that is made to every message."""

    images_hz: float = 10.0
    budgets_hz: float = 5.0
    states_hz: float = 3.0
    speeds_hz: float = 20.0
    frames_hz: float = 0.0
    clock_hz: float = 0.0
    image: Callable[[Image, int], object] | None = None
    budget: Callable[[TimeBudget], object] | None = None
    state: Callable[[ContentionState], object] | None = None
    speed: Callable[[Odometry], object] | None = None
    camera_info: Callable[[CameraInfo], object] | None = None
    frame: Callable[[FrameLatency, Detection2DArray], object] | None = None


@dataclass(frozen=True)
class SentImage:
    """One image that was published; its number is its place in `Stand.sent`."""

    sent_ms: float
    within_ms: float


@dataclass(frozen=True)
class HeardFrame:
    """What a latency message said, and when it was heard."""

    heard_ms: float
    number: int
    outcome: int
    met: bool
    replaced: int
    rejected: int
    lost: int


@dataclass
class Heard:
    """All that came out of the nodes."""

    answers: dict[int, float] = field(default_factory=dict)  # image -> when its detections were heard first
    frames: list[HeardFrame] = field(default_factory=list)
    diagnostics: list[tuple[float, str, int, str]] = field(default_factory=list)  # when, node, level, message
    budgets: list[tuple[float, float, bool]] = field(default_factory=list)  # when, ms, degraded
    speeds: list[tuple[float, float]] = field(default_factory=list)
    states: list[tuple[float, float]] = field(default_factory=list)
    markers: list[float] = field(default_factory=list)
    not_finite: list[tuple[float, str]] = field(default_factory=list)  # when, topic


def free_domain() -> int:
    """A ROS domain whose discovery ports nobody on this machine uses."""
    for domain in random.SystemRandom().sample(range(1, 102), 101):
        try:
            for port in (7400 + 250 * domain, 7410 + 250 * domain):  # DDS-RTPS 2.5, section 9.6.2.4
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                    probe.bind(('', port))
            return domain
        except OSError:
            continue
    raise StandError('no ROS domain from 1 to 101 is free on this machine')


def keep_to_this_machine() -> None:
    """Takes a domain of its own, heard on this machine alone, unless one is given; before anything joins ROS."""
    os.environ.setdefault('ROS_DOMAIN_ID', str(free_domain()))
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    make_room_for_images()


def profile_for(given: Path | None) -> Path:
    """A latency profile of the shipped weights: the given one, this device's own, or one that is measured quickly."""
    if given is not None:
        return given
    return ensure_profile(find_weights(DEFAULT_WEIGHTS), 'cpu', 1, share_folder() / 'models' / 'profiles').file


class Stand:
    """Nodes in processes of their own, fed and listened to. A context: all processes end with it.

    Args:
        names: the nodes; ('bringup',) starts all of them, under the package's own supervision.
        folder: for logs and parameter files.
        profile: latency profile of the shipped weights on this machine.
        parameters: of all nodes that have them.
        feed: what goes in.
        points: the detector runs behind `fault_points`.
        stepped: the processes' system clock can be stepped.
        simulated: the nodes take their time from /clock.
    """

    def __init__(self, names: tuple[str, ...], folder: Path, profile: Path, *, feed: Feed = Feed(),
                 parameters: Mapping[str, object] | None = None, points: bool = False, stepped: bool = False,
                 simulated: bool = False) -> None:
        self.names, self.folder, self.usual, self.feed = names, folder, feed, feed
        self.namespace = f'/stand{os.getpid()}'
        self.heard, self.sent = Heard(), []
        self.within_ms = BUDGET_MS
        self.processes: dict[str, NodeProcess] = {}
        self.orders = folder / 'orders.json' if points else None
        self.profile = profile
        self.simulated_ns: int | None = 1_000_000_000_000 if simulated else None
        self.clock_rate = 1.0
        self._step = self._stepped_clock() if stepped else None
        file = folder / 'parameters.yaml'
        file.write_text(yaml.safe_dump({'/**': {'ros__parameters': dict(parameters or {})}} if parameters else {}))
        self.values = read_values({
            'namespace': self.namespace, 'image_topic': f'{self.namespace}/image', 'profile': str(profile),
            'params_file': str(file), 'use_sim_time': str(simulated)})
        self._running = True
        self._images: list[array] = []

    # --- processes ---

    def __enter__(self) -> Stand:
        frames = render_drive(seconds=IMAGES / 10, rate_hz=10.0).frames
        self._images = [array('B', frame.load_bgr().tobytes()) for frame in frames]
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node('stand', namespace=self.namespace, context=self.context)
        self._connect()
        self._threads = [threading.Thread(target=call, daemon=True) for call in (self._listen, self._send)]
        for thread in self._threads:
            thread.start()
        try:
            for name in self.names:
                self.launch(name)
            if 'detector' in self.names or 'bringup' in self.names:
                self.wait(lambda: self.recovered(0.0), 'the first answer', START_LIMIT_S)
            for name in self.names:
                if name != 'bringup':
                    self.wait(lambda: any(said[1] == name for said in self.heard.diagnostics), f'{name}',  # noqa: B023
                              START_LIMIT_S)
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
            words = [word for key, value in self.values.items() if value != '' and not isinstance(value, bool)
                     for word in ('--' + key.replace('_', '-'), str(value))]
            return (sys.executable, '-m', 'deadline_perception.nodes.bringup', *words), {}
        order = process_order(next(entry for entry in NODES if entry.name == name), self.values)
        command, environment = list(order.command), dict(order.environment)
        if self.orders is not None and name == 'detector':
            place = command.index('-m')
            command[place:place + 2] = [str(HERE / 'fault_points.py')]
            environment['FAULT_ORDERS'] = str(self.orders)
        if self._step is not None:
            environment |= {'LD_PRELOAD': str(self.folder / 'stepped_clock.so'),
                            'STEPPED_CLOCK': str(self.folder / 'step')}
        return tuple(command), environment

    def pids(self) -> dict[str, int]:
        """Process of every node that runs."""
        if 'bringup' in self.names:
            found = {name: pid for pid, line in children(self.processes['bringup'].pid).items()
                     for name in [entry.name for entry in NODES] if f'nodes.{name} ' in line}
            return found | {'bringup': self.processes['bringup'].pid}
        return {name: process.pid for name, process in self.processes.items() if process.exit_status is None}

    def figures(self) -> dict[str, ProcessFigures]:
        """What every running node holds now."""
        found = {}
        for name, pid in self.pids().items():
            try:
                found[name] = process_figures(pid)
            except (OSError, TypeError):  # it ended meanwhile
                pass
        return found

    def revive(self) -> dict[str, int]:
        """Starts anew what has died, as a launch file with respawn does. Returns names and exit statuses."""
        died = {name: process.exit_status for name, process in self.processes.items()
                if process.exit_status is not None}
        for name in died:
            self.processes[name].start()
        return died

    def output(self) -> str:
        """All that the nodes have said."""
        return ''.join(process.output for process in self.processes.values())

    # --- what goes in ---

    def now_ns(self) -> int:
        """The time that the nodes have, too."""
        if self.simulated_ns is not None:
            return self.simulated_ns
        return time.time_ns() + (0 if self._step is None else struct.unpack('l', self._step[:8])[0] * 1_000_000_000)

    def step_clock(self, step_s: int) -> None:
        """Moves the system clock of the nodes, from where the kernel has it."""
        self._step[:8] = struct.pack('l', step_s)

    def strike(self, **points: dict) -> None:
        """Orders hangs and failures, see `fault_points`."""
        orders = {point: {'calls': 1, 'hang_s': 0.0, 'error': ''} | order for point, order in points.items()}
        draft = self.orders.with_suffix('.draft')
        draft.write_text(json.dumps(orders))
        draft.replace(self.orders)

    def feed_for(self, seconds: float, **changes: object) -> None:
        """Blocks while something else goes in."""
        self.feed = replace(self.feed, **changes)
        time.sleep(seconds)

    def publisher(self, kind: type, topic: str, quality: object = 10):
        """A publisher of the stand, in its namespace."""
        return self.node.create_publisher(kind, topic, quality)

    def make_image(self, number: int) -> Image:
        """An image as the camera gives it; its number stands in its frame, whatever becomes of its stamp."""
        image = Image(height=380, width=640, encoding='bgr8', step=1920, data=self._images[number % IMAGES])
        image.header.frame_id = f'camera {number}'
        image.header.stamp = rclpy.time.Time(nanoseconds=self.now_ns()).to_msg()
        return image

    def send_image(self) -> None:
        """Publishes the next image."""
        number = len(self.sent)
        image = self.make_image(number)
        if self.feed.image is not None:
            self.feed.image(image, number)
        self.sent.append(SentImage(now_ms(), self.within_ms))
        self.image_out.publish(image)

    def connect_camera(self, reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE) -> None:
        """Takes another camera's place."""
        if hasattr(self, 'image_out'):
            self.node.destroy_publisher(self.image_out)
        self.image_out = self.publisher(Image, 'image', QoSProfile(depth=10, reliability=reliability))

    def _connect(self) -> None:
        self.connect_camera()
        node = self.node
        self._outs = {kind: node.create_publisher(kind, topic, 10) for kind, topic in (
            (TimeBudget, 'time_budget/budget'), (ContentionState, 'contention_monitor/state'),
            (FrameLatency, 'detector/latency'), (Detection2DArray, 'detector/detections'),
            (CameraInfo, 'camera_info'), (Clock, '/clock')) if self._is_fed(kind)}
        self._odometry = [node.create_publisher(Odometry, topic, 10) for topic in ('/odom', 'odom')]
        for kind, topic, callback in (
                (Detection2DArray, 'detector/detections', self._on_detections),
                (FrameLatency, 'detector/latency', self._on_latency), (DiagnosticArray, '/diagnostics', self._on_status),
                (TimeBudget, 'time_budget/budget', self._on_budget), (TwistStamped, 'vehicle_speed/speed', self._on_speed),
                (ContentionState, 'contention_monitor/state', self._on_state),
                (MarkerArray, 'path_visualizer/markers', self._on_markers)):
            node.create_subscription(kind, topic, callback, 200)

    def _is_fed(self, kind: type) -> bool:
        own = {TimeBudget: 'time_budget', ContentionState: 'contention_monitor', FrameLatency: 'detector',
               Detection2DArray: 'detector'}
        return 'bringup' not in self.names and own.get(kind) not in self.names or kind is CameraInfo

    def _send(self) -> None:
        sources = {'clock_hz': self._send_clock, 'images_hz': self._send_image, 'budgets_hz': self._send_budget,
                   'states_hz': self._send_state, 'speeds_hz': self._send_speed, 'frames_hz': self._send_frame}
        due_ms = dict.fromkeys(sources, now_ms())
        while self._running and self.context.ok():
            for rate, send in sources.items():
                hz = getattr(self.feed, rate)
                due_ms[rate] = min(due_ms[rate], now_ms() + 1000.0 / hz) if hz else now_ms() + 50.0
                if hz and now_ms() >= due_ms[rate]:
                    try:
                        send()
                    except Exception:  # the thread's outermost frame: a publisher that a fault takes away
                        if self._running and self.context.ok() and not self.swapping:
                            raise
                    due_ms[rate] = max(due_ms[rate] + 1000.0 / hz, now_ms() - 100.0)
            time.sleep(min(max(0.0, (min(due_ms.values()) - now_ms()) / 1000.0), 0.02))

    swapping = False  # a fault takes the camera away

    def _send_image(self) -> None:
        self.send_image()

    def _send_clock(self) -> None:
        if self.simulated_ns is not None and self.clock_rate:
            self.simulated_ns += int(1e9 / self.feed.clock_hz * self.clock_rate)
            self._outs[Clock].publish(Clock(clock=rclpy.time.Time(nanoseconds=self.simulated_ns).to_msg()))

    def _publish(self, message: object, change: Callable | None) -> None:
        if hasattr(message, 'header'):
            message.header.stamp = rclpy.time.Time(nanoseconds=self.now_ns()).to_msg()
        if change is not None:
            change(message)
        if type(message) in self._outs:
            self._outs[type(message)].publish(message)

    def _send_budget(self) -> None:
        self._publish(TimeBudget(budget_ms=BUDGET_MS, min_budget_ms=MIN_BUDGET_MS, max_budget_ms=400.0, speed_mps=5.0,
                                 policy='table'), self.feed.budget)

    def _send_state(self) -> None:
        self._publish(ContentionState(slowdown=1.0, sources=['stand']), self.feed.state)

    def _send_speed(self) -> None:
        message = Odometry()
        message.header.stamp = rclpy.time.Time(nanoseconds=self.now_ns()).to_msg()
        message.twist.twist.linear.x = 5.0
        if self.feed.speed is not None:
            self.feed.speed(message)
        for publisher in self._odometry:
            publisher.publish(message)
        self._publish(CameraInfo(height=380, width=640, k=[500.0, 0.0, 320.0, 0.0, 500.0, 190.0, 0.0, 0.0, 1.0]),
                      self.feed.camera_info)

    def _send_frame(self) -> None:
        """What a detector says, where none runs."""
        latency = FrameLatency(path='made up', budget_ms=BUDGET_MS, total_ms=80.0, network_ms=70.0, bound_ms=90.0,
                               idle_forecast_ms=70.0, deadline_met=True)
        found = Detection2DArray()
        for message in (latency, found):
            message.header.stamp = rclpy.time.Time(nanoseconds=self.now_ns()).to_msg()
        if self.feed.frame is not None:
            self.feed.frame(latency, found)
        for message in (found, latency):
            self._outs[type(message)].publish(message)

    def _stepped_clock(self) -> mmap.mmap:
        library, step = self.folder / 'stepped_clock.so', self.folder / 'step'
        try:
            subprocess.run(['cc', '-O2', '-shared', '-fPIC', '-o', str(library), str(HERE / 'stepped_clock.c'), '-ldl'],
                           check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise StandError(f'stepped_clock.c cannot be compiled ({error}), expected a C compiler named cc') from error
        step.write_bytes(bytes(8))
        with step.open('r+b') as stream:
            return mmap.mmap(stream.fileno(), 8)

    # --- what comes out ---

    def _listen(self) -> None:
        executor = SingleThreadedExecutor(context=self.context)
        executor.add_node(self.node)
        try:
            executor.spin()
        except ExternalShutdownException:
            pass

    def _on_detections(self, message: Detection2DArray) -> None:
        at_ms = now_ms()
        self.heard.answers.setdefault(_number(message), at_ms)
        numbers = [value for found in message.detections for value in (
            found.bbox.center.position.x, found.bbox.center.position.y, found.bbox.size_x, found.bbox.size_y)]
        self._check_finite('detections', numbers)

    def _on_latency(self, message: FrameLatency) -> None:
        self.heard.frames.append(HeardFrame(
            now_ms(), _number(message), message.outcome, message.deadline_met, message.replaced_frames_total,
            message.rejected_frames_total, message.middleware_lost_total))

    def _on_status(self, message: DiagnosticArray) -> None:
        for status in message.status:
            namespace, _, name = status.name.rpartition('/')
            if namespace == self.namespace.strip('/'):
                self.heard.diagnostics.append((now_ms(), name, status.level[0], status.message))

    def _on_budget(self, message: TimeBudget) -> None:
        self.heard.budgets.append((now_ms(), message.budget_ms, message.degraded))
        if 'time_budget' in self.names:
            self._check_finite('budget', [message.budget_ms, message.min_budget_ms])

    def _on_speed(self, message: TwistStamped) -> None:
        self.heard.speeds.append((now_ms(), message.twist.linear.x))
        if math.isinf(message.twist.linear.x):
            self._check_finite('speed', [message.twist.linear.x])

    def _on_state(self, message: ContentionState) -> None:
        self.heard.states.append((now_ms(), message.slowdown))
        if 'contention_monitor' in self.names:
            self._check_finite('slowdown', [message.slowdown])

    def _on_markers(self, message: MarkerArray) -> None:
        self.heard.markers.append(now_ms())
        self._check_finite('markers', [value for marker in message.markers for point in (
            marker.pose.position, marker.scale, *marker.points) for value in (point.x, point.y, point.z)])

    def _check_finite(self, topic: str, numbers: list[float]) -> None:
        if not all(map(math.isfinite, numbers)):
            self.heard.not_finite.append((now_ms(), topic))

    def recovered(self, since_ms: float) -> bool:
        """The network has found objects in time in an image sent after that."""
        return any(frame.outcome == FrameLatency.DETECTED and frame.met and 0 <= frame.number < len(self.sent)
                   and self.sent[frame.number].sent_ms > since_ms for frame in reversed(self.heard.frames[-50:]))

    def wait(self, condition: Callable[[], bool], what: str, limit_s: float) -> None:
        """Blocks until something holds.

        Raises:
            StandError: it did not within the limit.
        """
        until = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > until:
                raise StandError(f'waited {limit_s:.0f} s for {what}; the nodes said last: {self.output()[-500:]}')
            time.sleep(0.02)

    # --- services ---

    def call(self, kind: type, service: str, request: object, limit_s: float = 10.0) -> object | None:
        """The answer of a service; None when there is none in time."""
        client = self.node.create_client(kind, service)
        try:
            until = time.monotonic() + limit_s
            if not client.wait_for_service(limit_s):
                return None
            future = client.call_async(request)
            while not future.done() and time.monotonic() < until:
                time.sleep(0.01)
            return future.result() if future.done() else None
        finally:
            self.node.destroy_client(client)

    def turn(self, name: str, *transitions: str, limit_s: float = 40.0) -> list[bool | None]:
        """Asks for transitions of a lifecycle node, one after the other. Returns whether each succeeded, None: no answer."""
        found = []
        for transition in transitions:
            answer = self.call(ChangeState, f'{name}/change_state', ChangeState.Request(
                transition=Transition(id=TURNS[transition])), limit_s)
            found.append(None if answer is None else answer.success)
        return found

    def set_parameters(self, name: str, **values: object) -> str | None:
        """Sets parameters together. Returns the reason of a refusal, empty when they were taken, None: no answer."""
        request = SetParametersAtomically.Request(
            parameters=[Parameter(key, value=value).to_parameter_msg() for key, value in values.items()])
        answer = self.call(SetParametersAtomically, f'{name}/set_parameters_atomically', request)
        if answer is None:
            return None
        return '' if answer.result.successful else answer.result.reason or 'refused'


def _number(message: object) -> int:
    """Number of the image that a message answers; -1 for another camera's."""
    found = re.match(r'camera (\d+)', message.header.frame_id)
    return int(found[1]) if found else -1
