"""What a fault is, and what can be done to the nodes on a stand; the faults themselves are in `fault_table.py`."""

from __future__ import annotations

import json
import math
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import cv2
import numpy as np
import rclpy.time
from deadline_perception.msg import TimeBudget
from geometry_msgs.msg import Twist, TwistStamped, Vector3
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image
from vision_msgs.msg import BoundingBox2D, Detection2D, Detection2DArray, LabelInfo

from deadline_perception.core.share_folder import DEFAULT_MODEL
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS
from parts.node_process import NodeProcess
from parts.node_stand import BUDGET_MS, Stand

NAN, INF = math.nan, math.inf
NANOSECONDS = 1_000_000_000
KEPT = QoSProfile(
    depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL
)  # what was said before is heard too


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
        return tuple(
            filter(
                None,
                (
                    '' if self.images is Images.NONE else f'images {self.images.value}',
                    self.says and f'it says {self.says!r}',
                    self.speed and f'the speed counts as {self.speed}',
                    self.inflict and 'what is asked of it is done or refused with a reason',
                    'all nodes alive, with their threads and heard',
                ),
            )
        )


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
        stamp_ns = stamp.sec * NANOSECONDS + stamp.nanosec + int(shift_s(number) * 1e9)
        image.header.stamp = rclpy.time.Time(nanoseconds=max(0, stamp_ns)).to_msg()

    return change


def sized(
    width: int, height: int, channels: int = 3, encoding: str = 'bgr8', padding: int = 0
) -> dict:
    """Fields of an image of another size."""
    step = width * channels + padding
    return {
        'width': width,
        'height': height,
        'step': step,
        'encoding': encoding,
        'data': array('B', bytes(step * height)),
    }


def turning_sizes(image: Image, number: int) -> None:
    """Another size with every image."""
    put(**(sized(320, 190), sized(960, 540), sized(1, 1), sized(640, 380))[number % 4])(image)


def turning_budgets(message: TimeBudget) -> None:
    """From one budget to quite another."""
    message.budget_ms = BUDGET_MS / 4.0 if int(now_ms() / 200.0) % 2 else BUDGET_MS


# --- what is done beyond other messages; each returns what was not as expected ---


def fed(kind: str, stand: str, source: str, images: Images) -> Callable[..., Fault]:
    """Makes faults of one source of the stand's feed: a name, what is done, a change of its messages, and fields of
    `Fault`."""

    def make(name: str, does: str, change: Callable | None = None, **more: object) -> Fault:
        feed = {**({source: change} if change else {}), **more.pop('feed', {})}
        return Fault(name, kind, stand, does, more.pop('images', images), feed=feed, **more)

    return make


def done(kind: str, stand: str, images: Images, **shared: object) -> Callable[..., Fault]:
    """Makes faults of one kind that an act inflicts: a name, the act, what it does where its docstring does not say,
    and fields of `Fault` beside those that are shared."""

    def make(name: str, inflict: Callable | None, does: str = '', **more: object) -> Fault:
        fields = {'images': images, **shared, **more}
        return Fault(name, kind, stand, does or inflict.__doc__, inflict=inflict, **fields)

    return make


images_of = fed('images', 'detector', 'image', Images.IN_TIME)
rejected = fed('images', 'detector', 'image', Images.REJECTED)
budget_of = fed('budgets', 'detector', 'budget', Images.IN_TIME)
state_of = fed('contention', 'detector', 'state', Images.IN_TIME)
speed_of = fed('speeds', 'inputs', 'speed', Images.NONE)


def publish(
    stand: Stand,
    kind: type,
    topic: str,
    rate_hz: float,
    make: Callable[[], object],
    depth: int = 10,
) -> None:
    """Another publisher sends messages for two seconds, and goes."""
    publisher = stand.node.create_publisher(kind, topic, depth)
    due = time.monotonic()
    until = due + 2.0
    while time.monotonic() < until:
        publisher.publish(make())
        due += 1.0 / rate_hz
        time.sleep(max(0.0, due - time.monotonic()))
    stand.node.destroy_publisher(publisher)


def hear(
    stand: Stand, kind: type, topic: str, seconds: float, quality: QoSProfile | int = 1
) -> list:
    """Subscribes for a while; what was heard."""
    heard = []
    subscription = stand.node.create_subscription(kind, topic, heard.append, quality)
    time.sleep(seconds)
    stand.node.destroy_subscription(subscription)
    return heard


def second_camera(stand: Stand) -> str:
    """Another camera publishes on the same topic."""

    def make() -> Image:
        message = stand.make_image(0)
        message.header.frame_id = 'another'
        return message

    publish(stand, Image, 'image', 10.0, make)
    return ''


def best_effort_visitor(stand: Stand) -> str:
    """Another camera publishes with best effort on the same topic, and goes."""
    quality = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = stand.node.create_publisher(Image, 'image', quality)
    time.sleep(2.0)
    stand.node.destroy_publisher(publisher)
    time.sleep(4.0)
    ends = stand.node.get_subscriptions_info_by_topic(f'{stand.namespace}/image')
    weak = [
        end.node_name
        for end in ends
        if end.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT
    ]
    return f'{", ".join(weak)} still subscribes with best effort' if weak else ''


def any_number(number: int) -> float:
    """A float64 of random bits, the same for the same number: NaN, infinite, negative, tiny or huge."""
    return struct.unpack('<d', random.Random(number).randbytes(8))[0]


def camera_leaves(stand: Stand, reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE) -> str:
    """The camera's driver ends and comes back."""
    stand.change_camera(reliability)
    time.sleep(3.0)
    return ''


def parameters(name: str, refused: str, values: dict, node: str = 'detector') -> Fault:
    """Parameters set while it runs; `refused` is a word of the reason, empty when they are taken."""

    def inflict(stand: Stand) -> str:
        reason = stand.set_parameters(node, **values)
        if reason is None or bool(reason) != bool(refused) or refused not in reason:
            return f'parameters {values}: answered {reason!r}, expected {refused or "no refusal"!r}'
        return ''

    on_inputs = node != 'detector'
    return Fault(
        name,
        'parameters',
        'inputs' if on_inputs else 'detector',
        f'{node}: {values} is set',
        Images.NONE if on_inputs else Images.IN_TIME,
        inflict,
        speed='known' if on_inputs else '',
        lasts_s=1.5,
    )


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
    """Deactivated and activated while the network hangs: it is replaced, or that is refused with a word."""
    stand.strike(network={'hang_s': 15.0})
    time.sleep(1.0)
    begun_ms = now_ms()
    taken = stand.turn('detector', 'deactivate', 'activate')
    active_ms = now_ms()
    time.sleep(3.0)
    problem = ''
    if taken == [True, True]:
        sent = [
            number
            for number, image in enumerate(stand.sent)
            if active_ms < image.sent_ms < now_ms() - 1000.0
        ]
        late = [
            number
            for number in sent
            if not any(
                number <= answer and at_ms <= stand.sent[answer].sent_ms + BUDGET_MS + 100.0
                for answer, at_ms in list(stand.heard.answers.items())
            )
        ]
        if len(late) > 1:
            problem = f'active again behind the hung network: {len(late)} of {len(sent)} images unanswered'
    elif stand.processes['detector'].exit_status is None and not stand.heard.problems(begun_ms, 2):
        problem = f'transitions answered {taken}, and no diagnostic is an ERROR'
    if stand.processes['detector'].exit_status is None:
        time.sleep(max(0.0, 15.0 - (now_ms() - begun_ms) / 1000.0))
    stand.revive()
    if taken != [True, True]:
        stand.turn('detector', 'cleanup', 'configure', 'activate')
    return problem


def other_program(
    stand: Stand, lines: str, name: str, environment: Mapping[str, str] | None = None
) -> NodeProcess:
    """Starts a process with a node `node` in the stand's namespace; returns once its lines have run."""
    program = (
        'import sys, time, rclpy\nfrom std_msgs.msg import String\n'
        'from vision_msgs.msg import Detection2DArray\n'
        'from deadline_perception.msg import FrameLatency, PathDecision\nrclpy.init()\n'
        f'node = rclpy.create_node("{name}", namespace=sys.argv[1])\n{lines}\n'
        f'print("{name} is ready", flush=True)\nrclpy.spin(node)\n'
    )
    log, ready = stand.folder / f'{name}.log', f'{name} is ready'
    before = (
        log.read_text().count(ready) if log.exists() else 0
    )  # an earlier fault's has said so too
    process = NodeProcess(
        name, (sys.executable, '-c', program, stand.namespace), environment or {}, log
    )
    stand.wait(lambda: process.output.count(ready) > before, name, 20.0)
    return process


def reader(stand: Stand, *, then: str, each: int = 1) -> str:
    """Another process that subscribes to everything the detector says, `each` times; it is killed, at once or later."""
    process = other_program(
        stand,
        (
            'for kind, topic in ((Detection2DArray, "detections"), (FrameLatency, "latency"), (PathDecision, "path")):\n'
            f'    for _ in range({each}):\n'
            '        node.create_subscription(kind, f"detector/{topic}", lambda message: None, 1)'
        ),
        'reader',
    )
    if then == 'stop':
        os.kill(process.pid, signal.SIGSTOP)
    if then != 'kill':
        time.sleep(4.0)
    process.process.kill()
    process.process.wait(5.0)
    time.sleep(1.5)
    return ''


def late_comer(stand: Stand) -> str:
    """Comes late, and must still hear the names of the classes."""
    heard = hear(stand, LabelInfo, 'detector/label_info', 2.0, KEPT)
    return '' if heard and heard[0].class_map else 'the names of the classes were not heard'


def foreign_topic(stand: Stand) -> str:
    """Messages of another type under the names of the inputs."""
    process = other_program(
        stand,
        (
            'outs = [node.create_publisher(String, topic, 10) for topic in ("image", "time_budget/budget")]\n'
            'node.create_timer(0.1, lambda: [out.publish(String(data="not an image")) for out in outs])'
        ),
        'foreigner',
    )
    time.sleep(2.0)
    process.end()
    return ''


def misfit_reader(stand: Stand) -> str:
    """A subscriber whose quality of service the detector cannot serve."""
    hear(stand, Detection2DArray, 'detector/detections', 2.0, KEPT)
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
    os.kill(pids.pop('bringup'), signal.SIGKILL)
    until = time.monotonic() + 15.0
    while left := [name for name, pid in pids.items() if os.path.exists(f'/proc/{pid}')]:
        if time.monotonic() > until:
            break
        stand.processes['bringup'].process.poll()
        time.sleep(0.1)
    for name in left:
        os.kill(pids[name], signal.SIGKILL)
    stand.revive()
    return f'{", ".join(left)} outlived the supervisor' if left else ''


def file_given(
    name: str,
    parameter: str,
    make: Callable[[Stand], bytes | None],
    suffix: str,
    *,
    kept: bool = False,
    own: bool = False,
    place: str = '',
) -> Fault:
    """Another file, to be refused with a reason; or, `kept`, to be named and, unless `own`, left as it is."""

    def inflict(stand: Stand) -> str:
        file = Path(place or stand.folder / f'{name.replace(" ", "_")}{suffix}')
        content = make(stand)
        if content is not None:
            file.write_bytes(content)
        usual = {'profile': str(stand.profile), 'model': DEFAULT_MODEL}.get(parameter, '')
        begun_ms = now_ms()
        stand.turn('detector', 'deactivate', 'cleanup')
        reason = stand.set_parameters('detector', **{parameter: str(file)})
        found = stand.turn('detector', 'configure') if not reason else [False]
        refused = found == [False]
        said = reason or ''.join(stand.heard.problems(begun_ms, 2)[-1:])
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
        if content is not None and not own and file.read_bytes() != content:
            return f'{file.name} was overwritten'
        if kept:
            return '' if file.name in said else f'{file.name} is not named: {said[-200:]!r}'
        return (
            ''
            if refused and said
            else f'configure answered {found}, diagnostics said {said[-200:]!r}'
        )

    return Fault(
        name,
        'files',
        'detector',
        f'{parameter} is set to a file: {name}',
        Images.AFTERWARDS,
        inflict,
        counted=False,
        recovers_s=30.0,
    )


def weights(_stand: Stand) -> bytes:
    """The shipped ones."""
    return find_weights(DEFAULT_WEIGHTS).read_bytes()


def with_quality(stand: Stand, name: str, table: bytes) -> bytes:
    """The shipped weights, for a file of this name that has another table of qualities beside it."""
    (stand.folder / f'{name}.quality.json').write_bytes(table)
    return weights(stand)


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
    stand.turn(
        'detector', 'configure', 'activate', 'deactivate', 'cleanup', 'configure', 'activate'
    )
    content = json.loads(file.read_text()) if file.exists() else {}
    return json.dumps({**content, 'initial_log_factor': 690.0, 'score_width': 700.0}).encode()


def started(
    node: str,
    words: Callable[[Stand], list[str]],
    *,
    status: int | None,
    says: str,
    end: signal.Signals | None = None,
    after_s: float = 4.0,
    before: tuple[str, ...] = (),
) -> Callable[[Stand], str]:
    """Starts a node with further arguments; it must end with a status (None: run on), say something, and no traceback.

    Args:
        node: its name.
        words: ROS arguments.
        status: exit status; None when it must still run after a while.
        says: a word of its output.
        end: signal that it is sent after a while, instead of nothing.
        after_s: the while; a process that is to end by itself has longer on a busy machine.
        before: command that starts the node's.
    """

    def inflict(stand: Stand) -> str:
        command, environment = stand.order(node)
        log = stand.folder / f'start{time.monotonic_ns()}.log'
        process = NodeProcess(node, (*before, *command, *words(stand)), environment, log)
        found = None
        try:
            found = process.process.wait(25.0 if end is None and status is not None else after_s)
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


def forward(speed_mps: float) -> Callable:
    """An odometry with this forward speed."""
    return put(twist__twist__linear__x=speed_mps)


def two_sources(stand: Stand) -> str:
    """Twists say something else than the odometry."""
    publish(
        stand,
        TwistStamped,
        'vehicle/speed',
        20.0,
        lambda: TwistStamped(twist=Twist(linear=Vector3(x=25.0))),
    )
    heard = {
        round(speed_mps) for _, speed_mps in stand.heard.speeds[-20:] if not math.isnan(speed_mps)
    }
    return '' if heard <= {5} else f'speeds of two sources were mixed: {sorted(heard)}'


def watched(stand: Stand) -> str:
    """Somebody watches the drawn image meanwhile."""
    hear(stand, Image, 'path_visualizer/image', 3.0)
    return ''


def frame_of(
    name: str,
    does: str,
    frame: Callable | None = None,
    image: Callable | None = None,
) -> Fault:
    """Other frames or cameras than usual, for the visualizer and the contention monitor."""
    given = {'frame': frame, 'image': image}
    return Fault(
        name,
        'drawing',
        'inputs',
        does,
        Images.NONE,
        watched,
        speed='known',
        lasts_s=0.5,
        feed={key: value for key, value in given.items() if value is not None},
    )


def boxes(number: int, value: float) -> Callable:
    """Detections with as many boxes of one size."""

    def change(_latency: object, found: Detection2DArray) -> None:
        found.detections = [
            Detection2D(bbox=BoundingBox2D(size_x=value, size_y=value)) for _ in range(number)
        ]

    return change


def frame_times(value: float) -> Callable:
    """A latency message of this time."""
    return put(network_ms=value, total_ms=value, bound_ms=value, idle_forecast_ms=value)


def flood(kind: type, topic: str, **values: object) -> Callable[[Stand], str]:
    """A thousand messages a second for two seconds."""

    def inflict(stand: Stand) -> str:
        publish(stand, kind, topic, 1000.0, lambda: kind(**values), depth=100)
        return ''

    return inflict


def endless(kind: str, topic: str, values: str) -> Callable[[Stand], str]:
    """Another process publishes as fast as it can for four seconds."""
    lines = (
        f'from deadline_perception.msg import {kind}\n'
        f'out, message = node.create_publisher({kind}, "{topic}", 1000), {kind}({values})\n'
        'time.sleep(1.0)\nuntil = time.monotonic() + 4.0\n'
        'while time.monotonic() < until:\n    out.publish(message)\ntime.sleep(1.0)'
    )

    def inflict(stand: Stand) -> str:
        other_program(stand, lines, 'flood').end()
        return ''

    return inflict


def long_message(count: int) -> Callable[[Stand], str]:
    """Detections of so many objects, ten times in two seconds."""

    def inflict(stand: Stand) -> str:
        raw = serialize_message(Detection2DArray(detections=[Detection2D()] * count))
        publish(stand, Detection2DArray, 'detector/detections', 5.0, lambda: raw)
        return ''

    return inflict


def claiming_jpeg(width: int, height: int) -> array:
    """A JPEG of some hundred bytes that states so many pixels."""
    content = cv2.imencode('.jpg', np.zeros((16, 16, 3), np.uint8))[1].tobytes()
    at = content.find(b'\xff\xc0')
    return array('B', content[: at + 5] + struct.pack('>HH', height, width) + content[at + 9 :])


def other_format() -> array:
    """A TIFF, which no camera publishes."""
    return array('B', cv2.imencode('.tiff', np.zeros((16, 16, 3), np.uint8))[1].tobytes())


def padded(image: object, _number: int) -> None:
    """The whole buffer of a driver, with zeros behind the JPEG."""
    image.data = array('B', bytes(image.data) + bytes(4096))


def memory_kept(seconds: float, most_mb: float = 300.0) -> Callable[[Stand], str]:
    """The detector's memory must stay where it is meanwhile."""

    def inflict(stand: Stand) -> str:
        before_kb = most_kb = stand.figures()['detector'].memory_kb
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            most_kb = max(most_kb, stand.figures()['detector'].memory_kb)
            time.sleep(0.05)
        grown_mb = (most_kb - before_kb) / 1024.0
        return f'memory grew by {grown_mb:.0f} MB' if grown_mb > most_mb else ''

    return inflict


def memory_short(stand: Stand) -> str:
    """The detector gets no more than 60 MB of addresses while 8k images come for 4 s; then all it asks for."""
    pid = stand.pids()['detector']
    used = int(Path(f'/proc/{pid}/statm').read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (used + 60 * 2**20, hard))
    large = Image(**sized(7680, 4320))
    publish(stand, Image, 'image', 2.0, lambda: large)
    time.sleep(2.0)
    if stand.processes['detector'].exit_status is None:
        resource.prlimit(pid, resource.RLIMIT_AS, (hard, hard))
    return ''


_PROGRAM = """
import os, signal, sys, time
import numpy as np
from deadline_perception.deadline_detector import DeadlineDetector
image = np.zeros((380, 640, 3), np.uint8)
detector = DeadlineDetector(sys.argv[1])
detector.detect(image, 20000.0)
"""


def program(name: str, does: str, lines: str, *, status: int, says: str) -> Fault:
    """A program of Python with a detector, which does something and ends with a status and a word."""

    def inflict(stand: Stand) -> str:
        command = [sys.executable, '-c', _PROGRAM + lines, DEFAULT_MODEL]
        try:
            found = subprocess.run(
                command, cwd=stand.folder, capture_output=True, text=True, timeout=240.0
            )
        except subprocess.TimeoutExpired:
            return 'it does not end within 240 s'
        said = found.stdout + found.stderr
        if found.returncode != status or 'terminate called' in said:
            return f'ended with {found.returncode}, expected {status}: {said[-200:]!r}'
        return '' if says in said else f'{says!r} is missing in {said[-300:]!r}'

    return Fault(name, 'programs', 'start', does, Images.NONE, inflict, lasts_s=0.0)


def struck(
    name: str,
    does: str,
    lasts_s: float,
    *,
    images: Images = Images.IN_TIME,
    says: str = '',
    **points: dict,
) -> Fault:
    """The detector hangs or fails at a point of `fault_points`."""

    def inflict(stand: Stand) -> str:
        stand.strike(**points)
        time.sleep(lasts_s)
        reached = stand.orders.with_suffix('.struck')
        missing = set(points) - set(reached.read_text().split() if reached.exists() else ())
        reached.unlink(missing_ok=True)
        return f'the fault was not inflicted: {", ".join(missing)} never reached' if missing else ''

    return Fault(
        name,
        'hangs' if any('hang_s' in order for order in points.values()) else 'errors',
        'points',
        does,
        images,
        inflict,
        lasts_s=0.5,
        says=says,
    )


def clock(rate: float = 1.0, jump_s: float = 0.0) -> Callable[[Stand], str]:
    """The simulated clock jumps, and runs on at another rate for a while."""

    def inflict(stand: Stand) -> str:
        stand.simulated_ns += int(jump_s * 1e9)
        stand.clock_rate = rate
        time.sleep(3.0)
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
