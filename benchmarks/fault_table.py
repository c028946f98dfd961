"""The faults of `faults.py`: each a record of what is done to the nodes and what is expected of them all the same."""
from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path

import rclpy.time
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image
from std_msgs.msg import String
from vision_msgs.msg import BoundingBox2D, Detection2D, Detection2DArray, LabelInfo

from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.msg import ContentionState, TimeBudget
from deadline_perception.tools.weights_file import DEFAULT_WEIGHTS, find_weights
from node_stand import BUDGET_MS, NodeProcess, Stand

NAN, INF = math.nan, math.inf
NANOSECONDS = 1_000_000_000


class Images(Enum):
    """What must become of the images that are sent while a fault lasts."""

    IN_TIME = 'answered, or replaced by a newer answered one, within the budget'
    REJECTED = 'rejected and counted'
    EITHER = 'answered or rejected, and counted'
    AFTERWARDS = 'those after it answered within the budget'
    NONE = 'none are sent'


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: for the command line.
        kind: part of the system that it meets.
        stand: nodes that it meets, a key of `STANDS`.
        does: what is done.
        images: what must become of images.
        inflict: does it; returns what was not as expected, empty when all was.
        feed: changes of what goes in while it lasts, see `node_stand.Feed`.
        lasts_s: time that it lasts beyond `inflict`.
        within_ms: time within which images must be answered.
        says: pattern that a diagnostic other than OK, or the log, must match meanwhile.
        speed: `known` or `unknown` for the budgets meanwhile, empty where it does not matter.
        counted: every image is in a count, from before the fault to after it.
        may_end: the process may end and be started anew.
        recovers_s: longest time until everything is as before.
    """

    name: str
    kind: str
    stand: str
    does: str
    images: Images
    inflict: Callable[[Stand], str] | None = None
    feed: Mapping[str, object] = field(default_factory=dict)
    lasts_s: float = 2.0
    within_ms: float = BUDGET_MS
    says: str = ''
    speed: str = ''
    counted: bool = True
    may_end: bool = False
    recovers_s: float = 20.0

    @property
    def expects(self) -> tuple[str, ...]:
        """All that must hold, for a person."""
        return tuple(filter(None, (
            '' if self.images is Images.NONE else f'images {self.images.value}',
            self.says and f'it says {self.says!r}', self.speed and f'the speed counts as {self.speed}',
            self.inflict and 'what is asked of it is done or refused with a reason',
            'all nodes alive, with their threads and heard')))


# What the nodes of each stand are, and their parameters.
STANDS = {'detector': {'names': ('detector',)}, 'points': {'names': ('detector',), 'points': True},
          'inputs': {'names': ('vehicle_speed', 'time_budget', 'contention_monitor', 'path_visualizer')},
          'simulated': {'names': ('detector', 'vehicle_speed', 'time_budget'), 'simulated': True},
          'stepped': {'names': ('detector', 'vehicle_speed', 'time_budget'), 'stepped': True},
          'bringup': {'names': ('bringup',)}, 'start': {'names': ()}}


def put(**values: object) -> Callable:
    """Changes fields of a message; `a__b` is field b of field a."""
    def change(message: object, *_: object) -> None:
        for name, value in values.items():
            place = message
            *outer, last = name.split('__')
            for part in outer:
                place = getattr(place, part)
            setattr(place, last, value)
    return change


def stamped(shift_s: Callable[[int], float]) -> Callable:
    """Moves an image's stamp by a time that depends on its number."""
    def change(image: Image, number: int) -> None:
        stamp = image.header.stamp
        moved = rclpy.time.Time(nanoseconds=max(0, stamp.sec * NANOSECONDS + stamp.nanosec + int(shift_s(number) * 1e9)))
        image.header.stamp = moved.to_msg()
    return change


def sized(width: int, height: int, channels: int = 3, encoding: str = 'bgr8', padding: int = 0) -> dict:
    """Fields of an image of another size."""
    step = width * channels + padding
    return {'width': width, 'height': height, 'step': step, 'encoding': encoding, 'data': array('B', bytes(step * height))}


def turning_sizes(image: Image, number: int) -> None:
    """Another size with every image."""
    put(**(sized(320, 190), sized(960, 540), sized(1, 1), sized(640, 380))[number % 4])(image)


def turning_budgets(message: TimeBudget) -> None:
    """From one budget to quite another."""
    message.budget_ms = BUDGET_MS / 4.0 if int(now_ms() / 200.0) % 2 else BUDGET_MS


# --- what is done beyond other messages; each returns what was not as expected ---

def images_of(name: str, does: str, images: Images, change: Callable, **more: object) -> Fault:
    """Other images than the camera's."""
    feed = {'image': change, **more.pop('feed', {})}
    return Fault(name, 'images', 'detector', does, images, feed=feed, **more)


def second_camera(stand: Stand) -> str:
    """Another camera publishes on the same topic."""
    publisher = stand.publisher(Image, 'image')
    for _ in range(20):
        message = stand.make_image(0)
        message.header.frame_id = 'another'
        publisher.publish(message)
        time.sleep(0.1)
    stand.node.destroy_publisher(publisher)
    return ''


def camera_leaves(stand: Stand, reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE) -> str:
    """The camera's driver ends and comes back."""
    stand.swapping = True
    stand.connect_camera(reliability)
    time.sleep(1.0)
    stand.swapping = False
    time.sleep(2.0)
    return ''


def parameters(name: str, refused: str, values: dict, node: str = 'detector') -> Fault:
    """Parameters set while it runs; `refused` is a word of the reason, empty when they are taken."""
    def inflict(stand: Stand) -> str:
        reason = stand.set_parameters(node, **values)
        if reason is None or bool(reason) != bool(refused) or refused not in reason:
            return f'parameters {values}: answered {reason!r}, expected {refused or "no refusal"!r}'
        return ''
    on_inputs = node != 'detector'
    return Fault(name, 'parameters', 'inputs' if on_inputs else 'detector', f'{node}: {values} is set',
                 Images.NONE if on_inputs else Images.IN_TIME, inflict, speed='known' if on_inputs else '', lasts_s=1.5)


def turns(*transitions: str, times: int = 1, refused: bool = False) -> Callable[[Stand], str]:
    """Asks the detector for transitions, which must succeed, or be refused."""
    def inflict(stand: Stand) -> str:
        for _ in range(times):
            found = stand.turn('detector', *transitions)
            if found != [not refused] * len(transitions):
                return f'transitions {", ".join(transitions)} answered {found}'
        return ''
    return inflict


def turned_while_hung(stand: Stand) -> str:
    """Deactivated and activated while the network hangs: it must be replaced, or the activation refused and that said."""
    stand.strike(network={'hang_s': 15.0})
    time.sleep(1.0)
    begun_ms = now_ms()
    taken = stand.turn('detector', 'deactivate', 'activate')
    active_ms = now_ms()
    time.sleep(3.0)
    problem = ''
    if taken == [True, True]:
        sent = [number for number, image in enumerate(stand.sent) if active_ms < image.sent_ms < now_ms() - 1000.0]
        late = [number for number in sent if not any(
            number <= answer and at_ms <= stand.sent[answer].sent_ms + BUDGET_MS + 100.0
            for answer, at_ms in list(stand.heard.answers.items()))]
        if len(late) > 1:
            problem = f'active again behind the hung network: {len(late)} of {len(sent)} images unanswered'
    elif stand.processes['detector'].exit_status is None and not any(
            at_ms > begun_ms and level == 2 for at_ms, _, level, _ in stand.heard.diagnostics):
        problem = f'transitions answered {taken}, and no diagnostic is an ERROR'
    time.sleep(max(0.0, 15.0 - (now_ms() - begun_ms) / 1000.0))
    stand.revive()
    if taken != [True, True]:
        stand.turn('detector', 'cleanup', 'configure', 'activate')
    return problem


def reader(stand: Stand, *, then: str) -> str:
    """Another process that subscribes to everything the detector says, and is killed, or stopped for a while."""
    program = (
        'import sys, rclpy\nfrom vision_msgs.msg import Detection2DArray\nfrom deadline_perception.msg import '
        'FrameLatency, PathDecision\nrclpy.init()\nnode = rclpy.create_node("reader")\n'
        'for kind, topic in ((Detection2DArray, "detections"), (FrameLatency, "latency"), (PathDecision, "path")):\n'
        '    node.create_subscription(kind, f"{sys.argv[1]}/detector/{topic}", lambda message: None, 1)\n'
        'rclpy.spin(node)\n')
    process = NodeProcess('reader', (sys.executable, '-c', program, stand.namespace), {}, stand.folder / 'reader.log')
    topic = f'{stand.namespace}/detector/detections'
    stand.wait(lambda: stand.node.count_subscribers(topic) >= 2, 'the reader', 20.0)
    if then == 'stop':
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(4.0)
    process.process.kill()
    process.process.wait(5.0)
    time.sleep(1.5)
    return ''


def late_comer(stand: Stand) -> str:
    """Comes late, and must still hear the names of the classes."""
    heard = []
    quality = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    subscription = stand.node.create_subscription(LabelInfo, 'detector/label_info', heard.append, quality)
    time.sleep(2.0)
    stand.node.destroy_subscription(subscription)
    return '' if heard and heard[0].class_map else 'the names of the classes were not heard'


def many_readers(stand: Stand) -> str:
    """Thirty subscribers more."""
    subscriptions = [stand.node.create_subscription(Detection2DArray, 'detector/detections', lambda message: None, 5)
                     for _ in range(30)]
    time.sleep(3.0)
    for subscription in subscriptions:
        stand.node.destroy_subscription(subscription)
    return ''


def foreign_topic(stand: Stand) -> str:
    """Messages of another type under the names of the inputs."""
    publishers = [stand.publisher(String, topic) for topic in ('image', 'time_budget/budget')]
    for _ in range(20):
        for publisher in publishers:
            publisher.publish(String(data='not an image'))
        time.sleep(0.1)
    for publisher in publishers:
        stand.node.destroy_publisher(publisher)
    return ''


def misfit_reader(stand: Stand) -> str:
    """A subscriber whose quality of service the detector cannot serve."""
    quality = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    subscription = stand.node.create_subscription(Detection2DArray, 'detector/detections', lambda message: None, quality)
    time.sleep(2.0)
    stand.node.destroy_subscription(subscription)
    return ''


def signalled(name: str, number: signal.Signals, stopped_s: float = 0.0) -> Callable[[Stand], str]:
    """Sends a signal to a node; goes on after a while where it stops the process."""
    def inflict(stand: Stand) -> str:
        pid = stand.pids()[name]
        os.kill(pid, number)
        if stopped_s:
            time.sleep(stopped_s)
            os.kill(pid, signal.SIGCONT)
        return ''
    return inflict


def killed_again_and_again(stand: Stand) -> str:
    """A node that dies at once, whenever it is started: given up, with a word."""
    until = time.monotonic() + 45.0
    while time.monotonic() < until and 'stays down' not in stand.output():
        pid = stand.pids().get('vehicle_speed')
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.3)
    return '' if 'stays down' in stand.output() else 'nobody says that vehicle_speed stays down'


def all_end(stand: Stand) -> str:
    """The supervisor is killed: nothing may outlive it."""
    pids = stand.pids()
    os.kill(pids['bringup'], signal.SIGKILL)
    until = time.monotonic() + 15.0
    while time.monotonic() < until and any(os.path.exists(f'/proc/{pid}') for pid in list(pids.values())[1:]):
        stand.processes['bringup'].process.poll()
        time.sleep(0.1)
    left = [name for name, pid in pids.items() if name != 'bringup' and os.path.exists(f'/proc/{pid}')]
    for name in left:
        os.kill(pids[name], signal.SIGKILL)
    stand.revive()
    return f'{", ".join(left)} outlived the supervisor' if left else ''


def file_given(name: str, parameter: str, make: Callable[[Stand], bytes | None], suffix: str, *, kept: bool = False,
               place: str = '') -> Fault:
    """The detector is configured with another file, which it must refuse with a reason; `kept`: name it and not change it."""
    def inflict(stand: Stand) -> str:
        file, content = Path(place) if place else stand.folder / f'{name.replace(" ", "_")}{suffix}', make(stand)
        if content is not None:
            file.write_bytes(content)
        usual = str(stand.profile) if parameter == 'profile' else 'compact' if parameter == 'model' else ''
        begun_ms = now_ms()
        stand.turn('detector', 'deactivate', 'cleanup')
        reason = stand.set_parameters('detector', **{parameter: str(file)})
        found = stand.turn('detector', 'configure') if not reason else [False]
        refused = found == [False]
        said = reason or next((message for at_ms, _, level, message in reversed(stand.heard.diagnostics)
                               if at_ms > begun_ms and level == 2), '')
        if not refused:
            stand.turn('detector', 'activate')
            time.sleep(1.0)
            stand.turn('detector', 'deactivate', 'cleanup')
            said = stand.output()[-4000:]
        stand.revive()
        stand.set_parameters('detector', **{parameter: usual})
        back = stand.turn('detector', 'configure', 'activate')
        if back != [True, True]:
            return f'with the usual file again, transitions answered {back}'
        if content is not None and file.read_bytes() != content:
            return f'{file.name} was overwritten'
        if kept:
            return '' if file.name in said else f'{file.name} is not named: {said[-200:]!r}'
        return '' if refused and said else f'configure answered {found}, diagnostics said {said[-200:]!r}'
    return Fault(name, 'files', 'detector', f'{parameter} is set to a file: {name}', Images.AFTERWARDS, inflict,
                 counted=False, recovers_s=30.0)


def weights(_stand: Stand) -> bytes:
    """The shipped ones."""
    return find_weights(DEFAULT_WEIGHTS).read_bytes()


def profile(stand: Stand, change: Callable[[dict], object]) -> bytes:
    """The profile in force, changed."""
    content = json.loads(stand.profile.read_text())
    change(content)
    return json.dumps(content).encode()


def nan_times(content: dict) -> None:
    """A profile of no times."""
    for row in content['segments'].values():
        row.update({key: NAN for key in row if key != 'count'})


def calibration(stand: Stand) -> bytes:
    """A file as the detector writes it, but with a factor from forecast to bound of 1e300."""
    file = stand.folder / 'calibration_own.json'
    stand.turn('detector', 'deactivate', 'cleanup')
    stand.set_parameters('detector', calibration_file=str(file))
    stand.turn('detector', 'configure', 'activate', 'deactivate', 'cleanup', 'configure', 'activate')
    content = json.loads(file.read_text()) if file.exists() else {}
    return json.dumps({**content, 'initial_log_margin': 690.0, 'score_width': 700.0}).encode()


def started(node: str, words: Callable[[Stand], list[str]], *, status: int | None, says: str,
            end: signal.Signals | None = None, after_s: float = 4.0) -> Callable[[Stand], str]:
    """Starts a node with further arguments; it must end with a status (None: run on), say something, and no traceback.

    Args:
        node: its name.
        words: ROS arguments.
        status: exit status; None when it must still run after a while.
        says: a word of its output.
        end: signal that it is sent after a while, instead of nothing.
        after_s: the while.
    """
    def inflict(stand: Stand) -> str:
        command, environment = stand.order(node)
        log = stand.folder / f'start{time.monotonic_ns()}.log'
        process = NodeProcess(node, (*command, *words(stand)), environment, log)
        found = None
        try:
            found = process.process.wait(after_s)
        except subprocess.TimeoutExpired:
            if end is not None:
                os.kill(process.pid, end)
                try:
                    found = process.process.wait(25.0)
                except subprocess.TimeoutExpired:
                    found = 'still running'
        process.end()
        said = process.output
        if found != status:
            return f'ended with {found}, expected {status}: {said[-200:]!r}'
        for word in ('Traceback', 'terminate called'):
            if word in said:
                return f'{word} in what it says: {said[-200:]!r}'
        return '' if says in said else f'{says!r} is missing in {said[-300:]!r}'
    return inflict


def start_of(name: str, does: str, inflict: Callable[[Stand], str]) -> Fault:
    """A fault of a process that is being started."""
    return Fault(name, 'start', 'start', does, Images.NONE, inflict, lasts_s=0.0)


def parameter_file(text: str) -> Callable[[Stand], list[str]]:
    """Arguments that name a parameter file of this text."""
    def words(stand: Stand) -> list[str]:
        file = stand.folder / f'given{time.monotonic_ns()}.yaml'
        file.write_text(text)
        return ['--params-file', str(file)]
    return words


def speed_of(name: str, does: str, speed: str, change: Callable | None = None, **more: object) -> Fault:
    """Another speed than the vehicle's."""
    feed = {**({'speed': change} if change else {}), **more.pop('feed', {})}
    return Fault(name, 'speeds', 'inputs', does, Images.NONE, feed=feed, speed=speed, **more)


def forward(speed_mps: float) -> Callable:
    """An odometry with this forward speed."""
    return put(twist__twist__linear__x=speed_mps)


def two_sources(stand: Stand) -> str:
    """Twists say something else than the odometry."""
    from geometry_msgs.msg import TwistStamped

    publisher = stand.publisher(TwistStamped, 'vehicle/speed')
    for _ in range(40):
        message = TwistStamped()
        message.twist.linear.x = 25.0
        publisher.publish(message)
        time.sleep(0.05)
    stand.node.destroy_publisher(publisher)
    heard = {round(speed_mps) for _, speed_mps in stand.heard.speeds[-20:] if not math.isnan(speed_mps)}
    return '' if heard <= {5} else f'speeds of two sources were mixed: {sorted(heard)}'


def watched(stand: Stand, seconds: float = 2.0) -> str:
    """Somebody watches the drawn image meanwhile."""
    images = []
    subscription = stand.node.create_subscription(Image, 'path_visualizer/image', images.append, 1)
    time.sleep(1.0 + seconds)
    stand.node.destroy_subscription(subscription)
    return ''


def frame_of(name: str, does: str, frame: Callable | None = None, camera_info: Callable | None = None,
             image: Callable | None = None) -> Fault:
    """Other frames or cameras than usual, for the visualizer and the contention monitor."""
    given = {'frame': frame, 'camera_info': camera_info, 'image': image}
    return Fault(name, 'drawing', 'inputs', does, Images.NONE, watched, speed='known', lasts_s=0.5, feed={
        key: value for key, value in given.items() if value is not None})


def boxes(number: int, value: float) -> Callable:
    """Detections with as many boxes of one size."""
    def change(_latency: object, found: Detection2DArray) -> None:
        found.detections = [Detection2D(bbox=BoundingBox2D(size_x=value, size_y=value)) for _ in range(number)]
    return change


def frame_times(value: float) -> Callable:
    """A latency message of this time."""
    return put(network_ms=value, total_ms=value, bound_ms=value, idle_forecast_ms=value)


def budget_of(name: str, does: str, change: Callable | None = None, **more: object) -> Fault:
    """Other budgets than the node's."""
    feed = {**({'budget': change} if change else {}), **more.pop('feed', {})}
    return Fault(name, 'budgets', 'detector', does, Images.IN_TIME, feed=feed, **more)


def state_of(name: str, does: str, change: Callable | None = None, **more: object) -> Fault:
    """Other contention messages than the monitor's."""
    feed = {**({'state': change} if change else {}), **more.pop('feed', {})}
    return Fault(name, 'contention', 'detector', does, Images.IN_TIME, feed=feed, **more)


def flood(kind: type, topic: str, **values: object) -> Callable[[Stand], str]:
    """A thousand messages a second for two seconds."""
    def inflict(stand: Stand) -> str:
        publisher = stand.publisher(kind, topic, 100)
        until, due = time.monotonic() + 2.0, time.monotonic()
        while time.monotonic() < until:
            publisher.publish(kind(**values))
            due += 0.001
            time.sleep(max(0.0, due - time.monotonic()))
        stand.node.destroy_publisher(publisher)
        return ''
    return inflict


def struck(name: str, does: str, lasts_s: float, *, says: str = '', **points: dict) -> Fault:
    """The detector hangs or fails at a point of `fault_points`."""
    def inflict(stand: Stand) -> str:
        stand.strike(**points)
        time.sleep(lasts_s)
        reached = stand.orders.with_suffix('.struck')
        missing = set(points) - set(reached.read_text().split() if reached.exists() else ())
        reached.unlink(missing_ok=True)
        return f'the fault was not inflicted: {", ".join(missing)} never reached' if missing else ''
    return Fault(name, 'hangs' if any('hang_s' in order for order in points.values()) else 'errors', 'points', does,
                 Images.IN_TIME, inflict, lasts_s=0.5, says=says)


def clock(rate: float = 1.0, jump_s: float = 0.0, seconds: float = 3.0) -> Callable[[Stand], str]:
    """The simulated clock jumps, and runs on at another rate for a while."""
    def inflict(stand: Stand) -> str:
        stand.simulated_ns += int(jump_s * 1e9)
        stand.clock_rate = rate
        time.sleep(seconds)
        stand.clock_rate = 1.0
        return ''
    return inflict


def step(step_s: int) -> Callable[[Stand], str]:
    """The system clock is stepped, and stays so."""
    def inflict(stand: Stand) -> str:
        stand.step_clock(step_s)
        time.sleep(4.0)
        return ''
    return inflict


_MANY = 10_000  # calls: all, until the orders change
_KILLED = {'images': Images.AFTERWARDS, 'counted': False, 'may_end': True, 'recovers_s': 45.0, 'lasts_s': 2.0}
_ALL_NODES = ('vehicle_speed', 'time_budget', 'contention_monitor', 'detector', 'path_visualizer')
_WHOLE = {'images': Images.IN_TIME, 'lasts_s': 1.0}

FAULTS = (
    images_of('unknown encoding', 'images with the encoding vendor_raw12', Images.REJECTED, put(encoding='vendor_raw12'),
              says='vendor_raw12'),
    images_of('no encoding', 'images with an empty encoding', Images.REJECTED, put(encoding=''), says='encoding'),
    images_of('zero size', 'images of 0 x 0 px', Images.REJECTED, put(width=0, height=0), says='0 x 0'),
    images_of('no data', 'images without pixels', Images.REJECTED, put(data=array('B')), says='0 bytes'),
    images_of('huge claim', 'images that claim 4294967295 x 4294967295 px', Images.REJECTED,
              put(width=2**32 - 1, height=2**32 - 1, step=2**32 - 1), says='rejected'),
    images_of('large images', '1920 x 1080 px at 5 Hz', Images.IN_TIME, put(**sized(1920, 1080)), feed={'images_hz': 5.0}),
    images_of('wrong step', 'rows shorter than their pixels', Images.REJECTED, put(step=100), says='step'),
    images_of('truncated', 'half of the bytes', Images.REJECTED, put(data=array('B', bytes(364800))), says='364800 bytes'),
    images_of('too long', 'more bytes than rows', Images.REJECTED, put(data=array('B', bytes(729601))), says='729601'),
    images_of('changing size', 'another size with every image, one of them 1 x 1 px', Images.IN_TIME, turning_sizes),
    images_of('padded rows', 'a step longer than the row', Images.IN_TIME, put(**sized(641, 380, padding=61))),
    images_of('odd width', 'yuv422 of 641 px', Images.REJECTED, put(**sized(641, 380, 2, 'yuv422')), says='641 px'),
    images_of('NaN pixels', '32FC3 with NaN in every sample', Images.EITHER, put(
        **sized(640, 380, 12, '32FC3') | {'data': array('B', array('f', [NAN] * 640 * 380 * 3).tobytes())})),
    images_of('16 bit', 'mono16 images', Images.EITHER, put(**sized(640, 380, 2, 'mono16'))),
    images_of('long frame id', 'a frame of 20,000 letters', Images.IN_TIME,
              lambda image, number: setattr(image.header, 'frame_id', f'camera {number} ' + 'ä' * 20_000)),
    images_of('stamp zero', 'images without a stamp', Images.IN_TIME, put(header__stamp__sec=0, header__stamp__nanosec=0),
              says='stamp is zero'),
    images_of('stamp negative', 'stamps before 1970', Images.IN_TIME, put(header__stamp__sec=-5), says='stamp'),
    images_of('stamp past', 'stamps of an hour ago', Images.IN_TIME, stamped(lambda number: -3600.0), says=' old'),
    images_of('stamp future', 'stamps of an hour ahead', Images.IN_TIME, stamped(lambda number: 3600.0), says='future'),
    images_of('stamps back', 'each stamp 50 ms before the last', Images.IN_TIME,
              stamped(lambda number: -0.15 * (number % 100)), says='went back'),
    images_of('stamps twice', 'two images with each stamp', Images.IN_TIME, stamped(lambda number: -0.1 * (number % 2))),
    images_of('late images', 'images that are 500 ms old when they are sent', Images.IN_TIME, stamped(lambda number: -0.5)),
    images_of('burst', '100 images a second of 640 x 380 px', Images.IN_TIME, None, feed={'images_hz': 100.0}),
    images_of('large burst', '100 images a second of 1280 x 720 px', Images.IN_TIME, put(**sized(1280, 720)),
              feed={'images_hz': 100.0}, lasts_s=4.0),
    images_of('pause', 'no image for 3 s', Images.IN_TIME, None, feed={'images_hz': 0.0}, lasts_s=3.0),
    Fault('second camera', 'images', 'detector', second_camera.__doc__, Images.IN_TIME, second_camera, counted=False),
    Fault('camera leaves', 'images', 'detector', camera_leaves.__doc__, Images.AFTERWARDS, camera_leaves, counted=False),

    budget_of('budget zero', 'budgets of 0 ms', put(budget_ms=0.0)),
    budget_of('budget negative', 'budgets of -100 ms', put(budget_ms=-100.0)),
    budget_of('budget NaN', 'budgets of NaN', put(budget_ms=NAN)),
    budget_of('budget infinite', 'infinite budgets', put(budget_ms=INF)),
    budget_of('budget 1e300', 'budgets of 1e300 ms', put(budget_ms=1e300)),
    budget_of('budget tiny', 'budgets of 1e-300 ms', put(budget_ms=1e-300)),
    budget_of('budget of a minute', 'budgets of 60,000 ms', put(budget_ms=60_000.0), within_ms=1500.0),
    budget_of('smallest budget NaN', 'a smallest budget of NaN, and one of 1e300 ms', put(min_budget_ms=NAN)),
    budget_of('budget stale', 'no budget for 3 s', feed={'budgets_hz': 0.0}, lasts_s=3.0, says='budget is .* old'),
    budget_of('budget turning', 'a budget of a quarter and the whole in turn', turning_budgets),
    budget_of('budget flood', '1000 budgets a second', inflict=flood(
        TimeBudget, 'time_budget/budget', budget_ms=BUDGET_MS, min_budget_ms=100.0), lasts_s=0.2),

    state_of('slowdown NaN', 'a slowdown of NaN', put(slowdown=NAN)),
    state_of('slowdown 0.5', 'a slowdown of 0.5', put(slowdown=0.5)),
    state_of('slowdown 1e300', 'a slowdown of 1e300', put(slowdown=1e300)),
    state_of('slowdown infinite', 'an infinite slowdown', put(slowdown=INF)),
    state_of('slowdown 1000', 'a slowdown of 1000', put(slowdown=1000.0)),
    state_of('slowdown stale', 'no contention state for 4 s', feed={'states_hz': 0.0}, lasts_s=4.5, says='contention'),
    state_of('state flood', '1000 contention states a second', inflict=flood(
        ContentionState, 'contention_monitor/state', slowdown=1.0), lasts_s=0.2),
    state_of('diagnostics flood', "1000 foreign diagnostics a second", inflict=flood(DiagnosticArray, '/diagnostics'),
             lasts_s=0.2),

    parameters('legal parameter', '', {'late_grace_ms': 900.0}),
    parameters('illegal parameter', 'expected', {'queue_depth': 0}),
    parameters('parameter NaN', 'expected', {'default_budget_ms': NAN}),
    parameters('parameter of another type', 'expected', {'target_miss_probability': 'often'}),
    parameters('parameters that contradict', 'reserve', {'reserve_floor_ms': 50.0, 'reserve_ceiling_ms': 5.0}),
    parameters('budget parameters that contradict', 'expected', {'min_budget_ms': 900.0}, 'time_budget'),
    parameters('speed parameter NaN', 'expected', {'time_constant_s': NAN}, 'vehicle_speed'),

    Fault('deactivate', 'lifecycle', 'detector', 'deactivated and activated under load', Images.AFTERWARDS,
          turns('deactivate', 'activate'), counted=False),
    Fault('deactivate often', 'lifecycle', 'detector', 'deactivated and activated ten times', Images.AFTERWARDS,
          turns('deactivate', 'activate', times=10), counted=False),
    Fault('deactivate in a burst', 'lifecycle', 'detector', 'deactivated and activated at 100 images a second',
          Images.AFTERWARDS, turns('deactivate', 'activate', times=2), feed={'images_hz': 100.0}, counted=False,
          lasts_s=0.5),
    Fault('configure anew', 'lifecycle', 'detector', 'taken through all states under load', Images.AFTERWARDS,
          turns('deactivate', 'cleanup', 'configure', 'activate'), counted=False, recovers_s=30.0),
    Fault('illegal transition', 'lifecycle', 'detector', 'configured while active', Images.IN_TIME,
          turns('configure', refused=True)),

    Fault('reader killed', 'middleware', 'detector', 'a subscriber of everything is killed', Images.IN_TIME,
          partial(reader, then='kill'), lasts_s=0.0),
    Fault('reader stopped', 'middleware', 'detector', 'a reliable subscriber is stopped for 4 s, then killed',
          Images.IN_TIME, partial(reader, then='stop'), lasts_s=0.0),
    Fault('late comer', 'middleware', 'detector', late_comer.__doc__, Images.IN_TIME, late_comer, lasts_s=0.0),
    Fault('thirty readers', 'middleware', 'detector', many_readers.__doc__, Images.IN_TIME, many_readers, lasts_s=0.0),
    Fault('foreign topic', 'middleware', 'detector', foreign_topic.__doc__, Images.IN_TIME, foreign_topic, lasts_s=0.0),
    Fault('misfit reader', 'middleware', 'detector', misfit_reader.__doc__, Images.IN_TIME, misfit_reader, lasts_s=0.0,
          says='quality of service'),

    Fault('detector stopped', 'stops', 'detector', 'SIGSTOP, and SIGCONT after 2 s', Images.AFTERWARDS,
          signalled('detector', signal.SIGSTOP, 2.0), lasts_s=0.5),

    file_given('weights missing', 'model', lambda stand: None, '.safetensors'),
    file_given('weights garbage', 'model', lambda stand: os.urandom(100_000), '.safetensors'),
    file_given('weights empty', 'model', lambda stand: b'', '.safetensors'),
    file_given('weights truncated', 'model', lambda stand: weights(stand)[:5_000_000], '.safetensors'),
    file_given('profile missing', 'profile', lambda stand: None, '.json'),
    file_given('profile garbage', 'profile', lambda stand: b'\x00{]', '.json'),
    file_given('profile foreign', 'profile', partial(profile, change=lambda given: given.update(network_hash='0' * 16)),
               '.json'),
    file_given('profile NaN', 'profile', partial(profile, change=nan_times), '.json'),
    file_given('quality garbage', 'quality', lambda stand: b'[1, 2', '.json'),
    file_given('quality foreign', 'quality', lambda stand: find_weights(DEFAULT_WEIGHTS).with_suffix(
        '.quality.json').read_bytes().replace(b'"weights_hash": "', b'"weights_hash": "0'), '.json'),
    file_given('calibration of a shell', 'calibration_file', lambda stand: b'export PATH=/usr/bin\n', '.bashrc', kept=True),
    file_given('calibration unwritable', 'calibration_file', lambda stand: None, '', kept=True, place='/proc/kept.json'),
    file_given('calibration 1e300', 'calibration_file', calibration, '.json', kept=True),
    # Last: afterwards the detector hears with best effort.
    Fault('best effort', 'images', 'detector', 'a camera that offers best effort only', Images.AFTERWARDS,
          partial(camera_leaves, reliability=ReliabilityPolicy.BEST_EFFORT), counted=False),

    struck('network hangs briefly', 'one segment takes 1 s', 2.0, network={'hang_s': 1.0}),
    struck('network hangs', 'one segment takes 12 s', 12.5, network={'hang_s': 12.0}, says='answered|hang'),
    struck('network slow', 'every segment takes 60 ms more', 4.0, network={'hang_s': 0.06, 'calls': 60}),
    struck('network fails', 'one segment raises', 1.0, network={'error': 'out of memory'}),
    struck('network keeps failing', 'twenty frames raise', 3.0, network={'error': 'out of memory', 'calls': 20},
           says='out of memory'),
    struck('conversion hangs', 'one conversion takes 4 s', 4.5, conversion={'hang_s': 4.0}),
    struck('conversion fails', 'one conversion raises what nobody expects', 1.0, conversion={'error': 'broken codec'}),
    struck('publication hangs', 'one publication of detections takes 4 s', 4.5, publication={'hang_s': 4.0}),
    struck('publication fails', 'one publication of detections raises', 1.0, publication={'error': 'no middleware'}),
    struck('publication keeps failing', 'ten publications of detections raise', 3.0,
           publication={'error': 'no middleware', 'calls': 10}, says='no middleware'),
    struck('record hangs', 'one publication of the latency takes 4 s', 4.5, record={'hang_s': 4.0}),
    struck('record fails', 'one publication of the latency raises', 1.0, record={'error': 'no middleware'}),
    Fault('activated while hung', 'hangs', 'points', turned_while_hung.__doc__, Images.AFTERWARDS, turned_while_hung,
          counted=False, may_end=True, recovers_s=30.0),

    speed_of('speed NaN', 'odometry of NaN', 'unknown', forward(NAN)),
    speed_of('speed infinite', 'infinite odometry', 'unknown', forward(INF)),
    speed_of('speed -infinite', 'odometry of minus infinity', 'unknown', forward(-INF)),
    speed_of('speed absurd', '1e6 m/s', 'unknown', forward(1e6)),
    speed_of('speed -1 mm/s', 'odometry that trembles at standstill', 'known', forward(-0.001)),
    speed_of('reversing', '-3 m/s', 'known', forward(-3.0)),
    speed_of('speed silent', 'no odometry for 3 s', 'unknown', feed={'speeds_hz': 0.0}, lasts_s=3.0, says='old'),
    speed_of('speed stamps zero', 'odometry without stamps', 'known', put(header__stamp__sec=0)),
    speed_of('odometry flood', '500 odometry messages a second', 'known', feed={'speeds_hz': 500.0}),
    Fault('two speeds', 'speeds', 'inputs', two_sources.__doc__, Images.NONE, two_sources, speed='known'),
    Fault('inputs stopped', 'stops', 'inputs', 'vehicle_speed: SIGSTOP, and SIGCONT after 2 s', Images.NONE,
          signalled('vehicle_speed', signal.SIGSTOP, 2.0), lasts_s=0.5),
    frame_of('focal length infinite', 'camera_info with infinite focal lengths', camera_info=put(k=[INF] * 9)),
    frame_of('focal length tiny', 'camera_info with focal lengths of 1e-300 px', camera_info=put(k=[1e-300] * 9),
             frame=boxes(3, 20.0)),
    frame_of('focal length zero', 'camera_info without calibration', camera_info=put(k=[0.0] * 9)),
    frame_of('boxes NaN', 'detections with NaN boxes', boxes(3, NAN)),
    frame_of('boxes infinite', 'detections with infinite boxes', boxes(3, INF)),
    frame_of('many boxes', '2000 boxes per frame', boxes(2000, 20.0)),
    frame_of('frame times NaN', 'latency messages of NaN', frame_times(NAN)),
    frame_of('frame times infinite', 'infinite latency messages', frame_times(INF)),
    frame_of('frame times negative', 'latency messages of -70 ms', frame_times(-70.0)),
    frame_of('drawn on garbage', 'images of an unknown encoding while somebody watches', image=put(encoding='none')),

    Fault('clock stops', 'clocks', 'simulated', '/clock stands still for 3 s', inflict=clock(0.0), **_WHOLE),
    Fault('clock gone', 'clocks', 'simulated', 'no /clock for 3 s', feed={'clock_hz': 0.0}, images=Images.IN_TIME, lasts_s=3.0),
    Fault('clock forward', 'clocks', 'simulated', '/clock jumps 60 s ahead', inflict=clock(jump_s=60.0), **_WHOLE),
    Fault('clock back', 'clocks', 'simulated', '/clock jumps 60 s back', inflict=clock(jump_s=-60.0), **_WHOLE),
    Fault('clock fast', 'clocks', 'simulated', '/clock runs five times as fast', inflict=clock(5.0), **_WHOLE),
    Fault('system clock back', 'clocks', 'stepped', 'the system clock steps back by 60 s', inflict=step(-60), speed='known',
          **_WHOLE),
    Fault('system clock forward', 'clocks', 'stepped', 'the system clock steps ahead by 60 s', inflict=step(0),
          speed='known', **_WHOLE),
    Fault('system clock an hour back', 'clocks', 'stepped', 'the system clock steps back by an hour', inflict=step(-3600),
          speed='known', **_WHOLE),

    *(Fault(f'{node} killed', 'kills', 'bringup', f'{node} gets SIGKILL', inflict=signalled(node, signal.SIGKILL), **_KILLED)
      for node in _ALL_NODES),
    Fault('detector terminated', 'kills', 'bringup', 'detector gets SIGTERM', inflict=signalled('detector', signal.SIGTERM),
          **_KILLED),
    *(Fault(f'{node} stopped', 'stops', 'bringup', f'{node}: SIGSTOP, and SIGCONT after 3 s',
            inflict=signalled(node, signal.SIGSTOP, 3.0), **_WHOLE) for node in _ALL_NODES if node != 'detector'),
    Fault('killed again and again', 'kills', 'bringup', killed_again_and_again.__doc__, inflict=killed_again_and_again,
          **_KILLED | {'recovers_s': 0.0}),
    Fault('supervisor killed', 'kills', 'bringup', all_end.__doc__, inflict=all_end, **_KILLED),

    start_of('unknown parameter', 'a parameter file with a misspelt name', started('vehicle_speed', parameter_file(
        '/**:\n  ros__parameters:\n    timeout: 1.0\n'), status=None, says='timeout_s meant')),
    start_of('illegal file value', 'a parameter file with a value out of range', started('vehicle_speed', parameter_file(
        '/**:\n  ros__parameters:\n    rate_hz: -4.0\n'), status=1, says='rate_hz')),
    start_of('file value of another type', 'a parameter file with a word for a number', started('detector', parameter_file(
        '/**:\n  ros__parameters:\n    threads: two\n'), status=1, says='threads')),
    start_of('broken parameter file', 'a parameter file that is no YAML', started('time_budget', parameter_file(
        '/**: [\n'), status=1, says='cannot be used')),
    start_of('parameter file missing', 'a parameter file that is not there', started('time_budget', lambda stand: [
        '--params-file', '/no/such/file.yaml'], status=1, says='cannot be used')),
    *(start_of(f'{number.name} {after_s} s after the start', 'the detector is told to end while it loads', started(
        'detector', lambda stand: [], status=0, says='', end=number, after_s=after_s))
      for number in (signal.SIGINT, signal.SIGTERM) for after_s in (2.5, 5.0)),
)
