"""The faults of `faults.py`: each a record of what is done to the nodes and what is expected of them all the same.

One for each path through the code, or kind of consequence. What a single message, file or call does to the part that
takes it is asked in `test/`: of encodings, sizes and stamps of images, bounds of topics, which one way in holds all
messages against (`test_message_intake.py`), parameters, files, signals, a system clock that steps
(`test_vehicle_speed.py`), a speed that is not known (`test_time_budget.py`), the death of each node under supervision
(`test_bringup.py`).
"""

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
from functools import partial
from pathlib import Path

import rclpy.time
from rclpy.qos import ReliabilityPolicy
from sensor_msgs.msg import Image

from parts.node_process import NodeProcess
from parts.node_stand import Stand

GROWTH_MB = 40.0  # a network that stayed would be more, each time
ANSWER_S = 120.0
# What the nodes of each stand are, and their parameters.
STANDS = {
    'detector': {'names': ('detector',)},
    'points': {'names': ('detector',), 'points': True},
    'simulated': {'names': ('detector',), 'simulated': True},
    'bringup': {'names': ('bringup',)},
}


class Images(Enum):
    """What must become of the images that are sent while a fault lasts."""

    IN_TIME = 'answered, or replaced by a newer answered one, within the budget'
    REJECTED = 'rejected and counted'
    AFTERWARDS = 'those after it answered within the budget'


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: for the command line.
        does: what is done.
        kind: part of the system that it meets.
        stand: nodes that it meets, a key of `STANDS`.
        images: what must become of images.
        inflict: does it; returns what was not as expected, empty when all was.
        feed: changes of what goes in while it lasts, see `node_stand.Feed`.
        lasts_s: time that it lasts beyond `inflict`.
        says: pattern that a diagnostic other than OK, or the log, must match meanwhile.
        counted: every image is in a count, from before the fault to after it.
        may_end: the process may end and be started anew.
        recovers_s: longest time until everything is as before.
    """

    name: str
    does: str
    kind: str
    stand: str = 'detector'
    images: Images = Images.IN_TIME
    inflict: Callable[[Stand], str] | None = None
    feed: Mapping[str, object] = field(default_factory=dict)
    lasts_s: float = 2.0
    says: str = ''
    counted: bool = True
    may_end: bool = False
    recovers_s: float = 20.0

    @property
    def expects(self) -> tuple[str, ...]:
        """All that must hold, for a person."""
        expected = (
            f'images {self.images.value}',
            self.says and f'it says {self.says!r}',
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


def any_slowdown() -> Callable:
    """Random bits as a float64, the same in every run: NaN, infinite, negative, tiny or huge."""
    bits = random.Random(0)
    return lambda state: setattr(state, 'slowdown', struct.unpack('<d', bits.randbytes(8))[0])


# --- what others do; each act returns what was not as expected ---


def camera_leaves(stand: Stand) -> str:
    """The camera's driver ends, one comes that offers best effort only, and then the first again."""
    for reliability in (ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE):
        stand.change_camera(reliability)
        time.sleep(3.0)
    return ''


def start_program(stand: Stand, name: str, lines: str) -> NodeProcess:
    """Starts a process with a node `node` in the stand's namespace; returns once its lines have run."""
    program = (
        'import sys, time, rclpy\n'
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


def endless(stand: Stand) -> str:
    """Another process publishes budgets as fast as it can for four seconds."""
    lines = (
        'out = node.create_publisher(TimeBudget, "time_budget/budget", 1000)\n'
        'message = TimeBudget(budget_ms=200.0, min_budget_ms=100.0)\n'
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
    found = stand.turn(*('deactivate', 'activate') * 2)
    return '' if all(found) else f'transitions answered {found}'


def configured_anew(stand: Stand) -> str:
    """The detector is taken through all states."""
    states = 'deactivate', 'cleanup', 'configure', 'activate'
    found = stand.turn(*states, limit_s=ANSWER_S)
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
    publisher = stand.node.create_publisher(Image, 'image', 10)
    for _ in range(4):
        publisher.publish(large)
        time.sleep(1.0)
    stand.node.destroy_publisher(publisher)
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


# --- the table ---


def fed(name: str, does: str, kind: str, says: str = '', lasts_s: float = 2.0, **feed) -> Fault:
    """Something else goes in."""
    return Fault(name, does, kind, lasts_s=lasts_s, says=says, feed=feed)


def act(name: str, inflict: Callable[[Stand], str], kind: str, does: str = '', **more) -> Fault:
    """Something is done; images after it are judged, and counts may begin anew."""
    does = does or inflict.__doc__
    judged = {'images': Images.AFTERWARDS, 'counted': False}
    return Fault(name, does, kind, inflict=inflict, **judged | more)


def of_point(name: str, does: str, lasts_s: float, says: str = '', **points) -> Fault:
    """A hang or an error at points within the detector."""
    kind = 'hangs' if any('hang_s' in order for order in points.values()) else 'errors'
    # Nothing can be heard while the middleware takes nothing: those after it are judged.
    images = Images.AFTERWARDS if points.get('publication', {}).get('calls') else Images.IN_TIME
    inflict = partial(struck, lasts_s=lasts_s, points=points)
    return Fault(name, does, kind, 'points', images, inflict, lasts_s=0.5, says=says)


def of_clock(name: str, does: str, **change) -> Fault:
    """The simulated time goes otherwise."""
    inflict = partial(clock, **change)
    return Fault(name, does, 'clocks', 'simulated', inflict=inflict, lasts_s=1.0)


IN_TIME = {'images': Images.IN_TIME, 'counted': True}
FAULTS = (
    Fault(
        'unknown encoding',
        'images with the encoding vendor_raw12',
        'images',
        images=Images.REJECTED,
        feed={'image': put(encoding='vendor_raw12')},
        says='vendor_raw12',
    ),
    fed('changing size', 'another size with every image', 'images', image=turning_sizes),
    fed(
        'stamp zero',
        'images without a stamp',
        'images',
        'stamp is zero',
        image=put(header__stamp__sec=0, header__stamp__nanosec=0),
    ),
    fed('stamp future', 'an hour ahead', 'images', 'future', image=stamped(lambda number: 3600.0)),
    fed(
        'stamps back',
        'each stamp 50 ms before the last',
        'images',
        'went back',
        image=stamped(lambda number: -0.15 * (number % 100)),
    ),
    fed('late images', '500 ms old when sent', 'images', image=stamped(lambda number: -0.5)),
    fed(
        'large burst',
        '100 images a second of 1280 x 720 px',
        'images',
        lasts_s=10.0,
        images_hz=100.0,
        image=put(**sized(1280, 720)),
    ),
    fed(
        'camera stops',
        'no image for 12 s',
        'images',
        r'no image on \S+ for 1\d',
        12.0,
        images_hz=0.0,
    ),
    act('camera leaves', camera_leaves, 'images'),
    act('memory short', memory_short, 'images', recovers_s=60.0),
    fed('budget stale', 'no budget for 3 s', 'budgets', 'budget is .* old', 3.0, budgets_hz=0.0),
    fed(
        'slowdown of any value',
        'slowdowns of random bits',
        'contention',
        'slowdown is .*, expected',
        10.0,
        state=any_slowdown(),
    ),
    fed('slowdown stale', 'no state for 4.5 s', 'contention', 'contention', 4.5, states_hz=0.0),
    act('budgets without end', endless, 'floods', says='time_budget/budget: .* messages a second'),
    act('deactivate in a burst', reactivated, 'lifecycle', feed={'images_hz': 100.0}, lasts_s=0.5),
    act(
        'configured fifty times',
        partial(again, times=50, once=configured_anew),
        'lifecycle',
        'taken through all states 50 times: nothing may grow',
        recovers_s=30.0,
    ),
    act(
        'three minutes of work',
        partial(again, times=60, once=at_work),
        'lifecycle',
        'ten images a second for three minutes: nothing may grow',
        **IN_TIME,
    ),
    act('reader stopped', stopped_reader, 'middleware', lasts_s=0.0, **IN_TIME),
    act(
        'detector stopped',
        partial(signalled, name='detector', number=signal.SIGSTOP, stopped_s=2.0),
        'stops',
        'SIGSTOP, and SIGCONT after 2 s',
        lasts_s=0.5,
        counted=True,
    ),
    of_point(
        'network hangs', 'a segment takes 12 s', 12.5, 'answered|hang', network={'hang_s': 12.0}
    ),
    of_point('network slow', '60 ms a segment', 4.0, network={'hang_s': 0.06, 'calls': 60}),
    of_point(
        'network keeps failing',
        'twenty frames raise',
        3.0,
        'out of memory',
        network={'error': 'out of memory', 'calls': 20},
    ),
    of_point('conversion hangs', 'one takes 4 s', 4.5, conversion={'hang_s': 4.0}),
    of_point('conversion fails', 'one raises', 1.0, conversion={'error': 'broken codec'}),
    of_point('publication hangs', 'one of detections takes 4 s', 4.5, publication={'hang_s': 4.0}),
    of_point(
        'publication keeps failing',
        'ten publications of detections raise',
        3.0,
        'no middleware',
        publication={'error': 'no middleware', 'calls': 10},
    ),
    of_point(
        'record hangs', 'one publication of the latency takes 4 s', 4.5, record={'hang_s': 4.0}
    ),
    *(
        of_point(f'{point} exits', f'one {point} calls sys.exit()', 1.0, **{point: {'exits': True}})
        for point in ('network', 'conversion', 'publication', 'record')
    ),
    of_clock('clock stops', '/clock stands still for 3 s', rate=0.0),
    of_clock('clock back', '/clock jumps 60 s back', jump_s=-60.0),
    of_clock('clock fast', '/clock runs five times as fast', rate=5.0),
    act(
        'detector killed',
        partial(signalled, name='detector', number=signal.SIGKILL),
        'kills',
        'SIGKILL under supervision',
        stand='bringup',
        may_end=True,
        recovers_s=45.0,
    ),
)
