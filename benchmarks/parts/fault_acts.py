"""What a fault is, and what can be done to the nodes on a stand; the faults themselves are in `fault_table.py`."""

from __future__ import annotations

import os
import random
import resource
import signal
import statistics
import struct
import sys
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import rclpy.time
from deadline_perception.msg import TimeBudget
from rclpy.qos import ReliabilityPolicy
from sensor_msgs.msg import Image

from deadline_perception.core.stopwatch import now_ms
from parts.node_process import NodeProcess
from parts.node_stand import BUDGET_MS, Stand

GROWTH_MB = 40.0  # a network that stayed would be more, each time
ANSWER_S = 120.0


class Images(Enum):
    """What must become of the images that are sent while a fault lasts."""

    IN_TIME = 'answered, or replaced by a newer answered one, within the budget'
    REJECTED = 'rejected and counted'
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
    says: str = ''
    speed: str = ''
    counted: bool = True
    may_end: bool = False
    recovers_s: float = 20.0

    @property
    def expects(self) -> tuple[str, ...]:
        """All that must hold, for a person."""
        expected = (
            '' if self.images is Images.NONE else f'images {self.images.value}',
            self.says and f'it says {self.says!r}',
            self.speed and f'the speed counts as {self.speed}',
            self.inflict and 'what is asked of it is done or refused with a reason',
            'all nodes alive, with their threads and heard',
        )
        return tuple(filter(None, expected))


# --- changes of what goes in ---


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
        stamp_ns = rclpy.time.Time.from_msg(image.header.stamp).nanoseconds
        stamp_ns += int(shift_s(number) * 1e9)
        image.header.stamp = rclpy.time.Time(nanoseconds=max(0, stamp_ns)).to_msg()

    return change


def sized(width: int, height: int) -> dict:
    """Fields of an image of another size."""
    data = array('B', bytes(3 * width * height))
    return {'width': width, 'height': height, 'step': 3 * width, 'data': data}


def turning_sizes(image: Image, number: int) -> None:
    """Another size with every image."""
    put(**(sized(320, 190), sized(960, 540), sized(1, 1), sized(640, 380))[number % 4])(image)


def turning_budgets(message: TimeBudget) -> None:
    """From one budget to quite another."""
    message.budget_ms = BUDGET_MS / 4.0 if int(now_ms() / 200.0) % 2 else BUDGET_MS


def any_slowdown() -> Callable:
    """Random bits as a float64, the same in every run: NaN, infinite, negative, tiny or huge."""
    bits = random.Random(0)
    return lambda state: setattr(state, 'slowdown', struct.unpack('<d', bits.randbytes(8))[0])


# --- what others do; each act returns what was not as expected ---


def publish(
    stand: Stand, kind: type, topic: str, rate_hz: float, make: Callable[[Stand], object]
) -> str:
    """Another publisher sends messages for two seconds, and goes."""
    publisher = stand.node.create_publisher(kind, topic, 10)
    due = time.monotonic()
    until = due + 2.0
    while time.monotonic() < until:
        publisher.publish(make(stand))
        due += 1.0 / rate_hz
        time.sleep(max(0.0, due - time.monotonic()))
    stand.node.destroy_publisher(publisher)
    return ''


def second_camera(stand: Stand) -> str:
    """Another camera publishes on the same topic."""
    image = stand.make_image(0)
    image.header.frame_id = 'another'
    return publish(stand, Image, 'image', 10.0, lambda _: image)


def camera_leaves(stand: Stand, reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE) -> str:
    """The camera's driver ends and comes back."""
    stand.change_camera(reliability)
    time.sleep(3.0)
    return ''


def watched(stand: Stand) -> str:
    """Somebody watches the drawn image meanwhile."""
    watcher = stand.node.create_subscription(Image, 'path_visualizer/image', lambda image: None, 1)
    time.sleep(3.0)
    stand.node.destroy_subscription(watcher)
    return ''


def start_program(stand: Stand, name: str, lines: str) -> NodeProcess:
    """Starts a process with a node `node` in the stand's namespace; returns once its lines have run."""
    program = (
        'import sys, time, rclpy\n'
        'from std_msgs.msg import String\n'
        'from vision_msgs.msg import Detection2DArray\n'
        'from deadline_perception.msg import FrameLatency, PathDecision, TimeBudget\n'
        f'rclpy.init()\nnode = rclpy.create_node("{name}", namespace=sys.argv[1])\n{lines}\n'
        f'print("{name} is ready", flush=True)\nrclpy.spin(node)\n'
    )
    log, ready = stand.folder / f'{name}.log', f'{name} is ready'
    before = log.read_text().count(ready) if log.exists() else 0  # of an earlier fault
    process = NodeProcess(name, (sys.executable, '-c', program, stand.namespace), {}, log)
    stand.wait(lambda: process.output.count(ready) > before, name, 20.0)
    return process


def foreign_topic(stand: Stand) -> str:
    """Messages of another type under the names of the inputs."""
    lines = (
        'outs = [node.create_publisher(String, topic, 10) for topic in ("image", "time_budget/budget")]\n'
        'node.create_timer(0.1, lambda: [out.publish(String(data="not an image")) for out in outs])'
    )
    process = start_program(stand, 'foreigner', lines)
    time.sleep(2.0)
    process.end()
    return ''


def endless(stand: Stand, kind: str, topic: str, values: str) -> str:
    """Another process publishes as fast as it can for four seconds."""
    lines = (
        f'out, message = node.create_publisher({kind}, "{topic}", 1000), {kind}({values})\n'
        'time.sleep(1.0)\nuntil = time.monotonic() + 4.0\n'
        'while time.monotonic() < until:\n    out.publish(message)\ntime.sleep(1.0)'
    )
    start_program(stand, 'flood', lines).end()
    return ''


def stopped_reader(stand: Stand) -> str:
    """Another process that subscribes to everything the detector says is stopped for 4 s, then killed."""
    lines = (
        'for kind, topic in ((Detection2DArray, "detections"), (FrameLatency, "latency"), (PathDecision, "path")):\n'
        '    node.create_subscription(kind, f"detector/{topic}", lambda message: None, 1)'
    )
    process = start_program(stand, 'reader', lines)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(4.0)
    process.process.kill()
    process.process.wait(5.0)
    time.sleep(1.5)
    return ''


# --- what happens to a node ---


def reactivated(stand: Stand) -> str:
    """The detector is deactivated and activated twice."""
    found = stand.turn('detector', *('deactivate', 'activate') * 2)
    return '' if all(found) else f'transitions answered {found}'


def configured_anew(stand: Stand) -> str:
    """The detector is taken through all states."""
    states = 'deactivate', 'cleanup', 'configure', 'activate'
    found = stand.turn('detector', *states, limit_s=ANSWER_S)
    return '' if found == [True] * 4 else f'transitions answered {found}'


def at_work(stand: Stand) -> str:
    """Nothing but the usual images for three seconds."""
    time.sleep(3.0)
    return ''


def again(stand: Stand, times: int, once: Callable[[Stand], str]) -> str:
    """An act as often, as long as it goes well: of the detector's memory, threads and descriptors nothing may grow from
    the second fifth, the first being warm-up, to the last."""
    figures = []
    for number in range(times):
        problem = once(stand)
        if problem:
            return f'round {number + 1}: {problem}'
        figures.append(stand.figures()['detector'])
    before, after = figures[times // 5 : 2 * times // 5], figures[-(times // 5) :]
    first_kb, last_kb = (statistics.median(one.memory_kb for one in x) for x in (before, after))
    grown = []
    if last_kb - first_kb > GROWTH_MB * 1024:
        grown.append(f'memory grew from {first_kb:.0f} to {last_kb:.0f} KiB')
    for name in ('threads', 'descriptors'):
        most = max(getattr(one, name) for one in before)
        fewest = min(getattr(one, name) for one in after)
        if fewest > most:
            grown.append(f'{name} grew from {most} to {fewest}')
    return '; '.join(grown)


def signalled(stand: Stand, name: str, number: signal.Signals, stopped_s: float = 0.0) -> str:
    """Sends a signal to a node; goes on after a while where it stops the process."""
    pid = stand.pids()[name]
    os.kill(pid, number)
    if stopped_s:
        time.sleep(stopped_s)
        os.kill(pid, signal.SIGCONT)
    return ''


def memory_short(stand: Stand) -> str:
    """The detector gets no more than 60 MB of addresses while 8k images come for 4 s; then all it asks for."""
    pid = stand.pids()['detector']
    used = int(Path(f'/proc/{pid}/statm').read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (used + 60 * 2**20, hard))
    large = Image(encoding='bgr8', **sized(7680, 4320))
    publish(stand, Image, 'image', 2.0, lambda _: large)
    time.sleep(2.0)
    if stand.processes['detector'].exit_status is None:
        resource.prlimit(pid, resource.RLIMIT_AS, (hard, hard))
    return ''


def struck(stand: Stand, lasts_s: float, points: Mapping[str, dict]) -> str:
    """The detector hangs or fails at points of `fault_points`."""
    stand.strike(**points)
    time.sleep(lasts_s)
    reached = stand.orders.with_suffix('.struck')
    missing = set(points) - set(reached.read_text().split() if reached.exists() else ())
    reached.unlink(missing_ok=True)
    return f'the fault was not inflicted: {", ".join(missing)} never reached' if missing else ''


def clock(stand: Stand, rate: float = 1.0, jump_s: float = 0.0) -> str:
    """The simulated clock jumps, and runs on at another rate for a while."""
    stand.simulated_ns += int(jump_s * 1e9)
    stand.clock_rate = rate
    time.sleep(3.0)
    stand.clock_rate = 1.0
    return ''


def step(stand: Stand, step_s: int) -> str:
    """The system clock is stepped, and stays so."""
    stand.step_clock(step_s)
    time.sleep(4.0)
    return ''
