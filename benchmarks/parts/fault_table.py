"""The faults of `faults.py`: each a record of what is done to the nodes and what is expected of them all the same.

One for each path through the code, or kind of consequence. What a single message, file or call does to the part that
takes it is asked in `test/`: of encodings, sizes and stamps of images, bounds of topics, which one way in holds all
messages against (`test_message_intake.py`), parameters, files, signals.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial

from rclpy.qos import ReliabilityPolicy

from parts import fault_acts as acts
from parts.fault_acts import Fault, Images
from parts.node_stand import Stand

# What the nodes of each stand are, and their parameters.
STANDS = {
    'detector': {'names': ('detector',)},
    'points': {'names': ('detector',), 'points': True},
    'inputs': {'names': ('vehicle_speed', 'time_budget', 'contention_monitor', 'path_visualizer')},
    'simulated': {'names': ('detector', 'vehicle_speed', 'time_budget'), 'simulated': True},
    'stepped': {'names': ('detector', 'vehicle_speed', 'time_budget'), 'stepped': True},
    'bringup': {'names': ('bringup',)},
}
IN_TIME, REJECTED, AFTERWARDS, NONE = Images
NODES = ('vehicle_speed', 'time_budget', 'contention_monitor', 'detector', 'path_visualizer')


def fed(name: str, does: str, change: Callable | None = None, *, source: str, **more) -> Fault:
    """A fault of one source of the stand's feed: its messages are changed, or `more` says what comes otherwise."""
    feed = more.pop('feed', {}) | ({source: change} if change else {})
    return Fault(name=name, does=does, feed=feed, **more)


def act(name: str, does: str, inflict: Callable[[Stand], str], **more) -> Fault:
    """A fault that is an act, against the detector where `more` names no other stand."""
    return Fault(name=name, does=does, inflict=inflict, **{'stand': 'detector', **more})


def of_point(name: str, does: str, lasts_s: float, images=IN_TIME, says='', **points) -> Fault:
    """A hang or an error at points within the detector."""
    kind = 'hangs' if any('hang_s' in order for order in points.values()) else 'errors'
    inflict = partial(acts.struck, lasts_s=lasts_s, points=points)
    return Fault(name, kind, 'points', does, images, inflict, lasts_s=0.5, says=says)


image = partial(fed, kind='images', stand='detector', images=IN_TIME, source='image')
refused = partial(image, images=REJECTED)
budget = partial(fed, kind='budgets', stand='detector', images=IN_TIME, source='budget')
state = partial(fed, kind='contention', stand='detector', images=IN_TIME, source='state')
of_inputs = partial(fed, stand='inputs', images=NONE)
speed = partial(of_inputs, kind='speeds', source='speed', speed='unknown')
frame = partial(
    of_inputs, kind='drawing', source='frame', inflict=acts.watched, speed='known', lasts_s=0.5
)
camera = partial(act, kind='images', images=AFTERWARDS, counted=False)
flood = partial(act, kind='floods', stand='inputs', images=NONE, speed='known', lasts_s=0.5)
turned = partial(act, kind='lifecycle', images=AFTERWARDS, counted=False)
middleware = partial(act, kind='middleware', images=IN_TIME, lasts_s=0.0)
of_clock = partial(act, kind='clocks', stand='simulated', images=IN_TIME, lasts_s=1.0)
stepped = partial(of_clock, stand='stepped', speed='known')
killed = partial(act, kind='kills', stand='bringup', images=AFTERWARDS, counted=False, may_end=True)
stopped = partial(act, kind='stops', stand='bringup', images=IN_TIME, lasts_s=1.0)

FAULTS = (
    refused(
        'unknown encoding',
        'images with the encoding vendor_raw12',
        acts.put(encoding='vendor_raw12'),
        says='vendor_raw12',
    ),
    image(
        'changing size', 'another size with every image, one of them 1 x 1 px', acts.turning_sizes
    ),
    image(
        'stamp zero',
        'images without a stamp',
        acts.put(header__stamp__sec=0, header__stamp__nanosec=0),
        says='stamp is zero',
    ),
    image('stamp future', 'stamps of an hour ahead', acts.stamped(lambda n: 3600.0), says='future'),
    image(
        'stamps back',
        'each stamp 50 ms before the last',
        acts.stamped(lambda number: -0.15 * (number % 100)),
        says='went back',
    ),
    image(
        'late images',
        'images that are 500 ms old when they are sent',
        acts.stamped(lambda number: -0.5),
    ),
    image(
        'large burst',
        '100 images a second of 1280 x 720 px',
        acts.put(**acts.sized(1280, 720)),
        feed={'images_hz': 100.0},
        lasts_s=10.0,
    ),
    image(
        'camera stops',
        'no image for 12 s',
        feed={'images_hz': 0.0},
        lasts_s=12.0,
        says=r'no image on \S+ for 1\d\.\d s',
    ),
    image('pause', 'no image for 3 s', feed={'images_hz': 0.0}, lasts_s=3.0),
    camera('second camera', acts.second_camera.__doc__, acts.second_camera, images=IN_TIME),
    camera('camera leaves', acts.camera_leaves.__doc__, acts.camera_leaves),
    camera('memory short', acts.memory_short.__doc__, acts.memory_short, recovers_s=60.0),
    budget(
        'budget stale',
        'no budget for 3 s',
        feed={'budgets_hz': 0.0},
        lasts_s=3.0,
        says='budget is .* old',
    ),
    budget('budget turning', 'a budget of a quarter and the whole in turn', acts.turning_budgets),
    state(
        'slowdown of any value',
        'slowdowns of random bits',
        acts.any_slowdown(),
        lasts_s=10.0,
        says='slowdown is .*, expected',
    ),
    state(
        'slowdown stale',
        'no contention state for 4 s',
        feed={'states_hz': 0.0},
        lasts_s=4.5,
        says='contention',
    ),
    flood(
        'budgets without end',
        'another process publishes budgets as fast as it can',
        partial(
            acts.endless,
            kind='TimeBudget',
            topic='time_budget/budget',
            values='budget_ms=200.0, min_budget_ms=100.0',
        ),
        stand='detector',
        images=AFTERWARDS,
        counted=False,
        speed='',
        lasts_s=2.0,
        says='time_budget/budget: .* messages a second',
    ),
    flood(
        'frames without end',
        'another process publishes latencies as fast as it can',
        partial(
            acts.endless,
            kind='FrameLatency',
            topic='detector/latency',
            values='idle_forecast_ms=9.0, network_ms=9.0',
        ),
        says='detector/latency: .* messages a second',
    ),
    turned(
        'deactivate in a burst',
        'deactivated and activated at 100 images a second',
        acts.reactivated,
        feed={'images_hz': 100.0},
        lasts_s=0.5,
    ),
    turned(
        'configured fifty times',
        'taken through all states 50 times: nothing may grow',
        partial(acts.again, times=50, once=acts.configured_anew),
        recovers_s=30.0,
    ),
    turned(
        'three minutes of work',
        'ten images a second for three minutes: nothing may grow',
        partial(acts.again, times=60, once=acts.at_work),
        images=IN_TIME,
        counted=True,
    ),
    middleware(
        'reader stopped',
        'a reliable subscriber is stopped for 4 s, then killed',
        acts.stopped_reader,
    ),
    middleware('foreign topic', acts.foreign_topic.__doc__, acts.foreign_topic),
    stopped(
        'detector stopped',
        'SIGSTOP, and SIGCONT after 2 s',
        partial(acts.signalled, name='detector', number=signal.SIGSTOP, stopped_s=2.0),
        stand='detector',
        images=AFTERWARDS,
        lasts_s=0.5,
    ),
    camera(
        'best effort',
        'a camera that offers best effort only',
        partial(acts.camera_leaves, reliability=ReliabilityPolicy.BEST_EFFORT),
    ),
    of_point(
        'network hangs',
        'one segment takes 12 s',
        12.5,
        network={'hang_s': 12.0},
        says='answered|hang',
    ),
    of_point(
        'network slow',
        'every segment takes 60 ms more',
        4.0,
        network={'hang_s': 0.06, 'calls': 60},
    ),
    of_point(
        'network keeps failing',
        'twenty frames raise',
        3.0,
        network={'error': 'out of memory', 'calls': 20},
        says='out of memory',
    ),
    of_point('conversion hangs', 'one conversion takes 4 s', 4.5, conversion={'hang_s': 4.0}),
    of_point(
        'conversion fails',
        'one conversion raises what nobody expects',
        1.0,
        conversion={'error': 'broken codec'},
    ),
    of_point(
        'publication hangs',
        'one publication of detections takes 4 s',
        4.5,
        publication={'hang_s': 4.0},
    ),
    # Nothing can be heard while the middleware takes nothing: those after it are judged.
    of_point(
        'publication keeps failing',
        'ten publications of detections raise',
        3.0,
        AFTERWARDS,
        publication={'error': 'no middleware', 'calls': 10},
        says='no middleware',
    ),
    of_point(
        'record hangs', 'one publication of the latency takes 4 s', 4.5, record={'hang_s': 4.0}
    ),
    *(
        of_point(f'{point} exits', f'one {what} calls sys.exit()', 1.0, **{point: {'exits': True}})
        for point, what in (
            ('network', 'segment'),
            ('conversion', 'conversion'),
            ('publication', 'publication of detections'),
            ('record', 'publication of the latency'),
        )
    ),
    speed('speed silent', 'no odometry for 3 s', feed={'speeds_hz': 0.0}, lasts_s=3.0, says='old'),
    frame(
        'drawn on garbage',
        'images of an unknown encoding while somebody watches',
        feed={'image': acts.put(encoding='none')},
    ),
    of_clock('clock stops', '/clock stands still for 3 s', partial(acts.clock, rate=0.0)),
    of_clock('clock back', '/clock jumps 60 s back', partial(acts.clock, jump_s=-60.0)),
    of_clock('clock fast', '/clock runs five times as fast', partial(acts.clock, rate=5.0)),
    stepped(
        'system clock back', 'the system clock steps back by 60 s', partial(acts.step, step_s=-60)
    ),
    stepped(
        'system clock forward',
        'the system clock steps ahead by 60 s',
        partial(acts.step, step_s=60),
    ),
    *(
        killed(
            f'{node} killed',
            f'{node} gets SIGKILL',
            partial(acts.signalled, name=node, number=signal.SIGKILL),
            recovers_s=45.0,
        )
        for node in NODES
    ),
    *(
        stopped(
            f'{node} stopped',
            f'{node}: SIGSTOP, and SIGCONT after 3 s',
            partial(acts.signalled, name=node, number=signal.SIGSTOP, stopped_s=3.0),
        )
        for node in NODES
        if node != 'detector'
    ),
)
