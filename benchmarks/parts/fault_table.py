"""The faults of `faults.py`: each a record of what is done to the nodes and what is expected of them all the same."""

from __future__ import annotations

import itertools
import os
import signal
from array import array
from functools import partial

from deadline_perception.msg import ContentionState, TimeBudget
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import ReliabilityPolicy
from sensor_msgs.msg import Image
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.share_folder import DEFAULT_MODEL
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS
from parts.fault_acts import (
    INF,
    NAN,
    Fault,
    Images,
    all_end,
    any_number,
    best_effort_visitor,
    boxes,
    budget_of,
    calibration,
    camera_leaves,
    claiming_jpeg,
    clock,
    done,
    endless,
    fed,
    file_given,
    flood,
    foreign_topic,
    forward,
    frame_of,
    frame_times,
    images_of,
    killed_again_and_again,
    late_comer,
    long_message,
    memory_kept,
    memory_short,
    misfit_reader,
    nan_times,
    other_format,
    padded,
    parameter_file,
    parameters,
    profile,
    program,
    put,
    reader,
    rejected,
    second_camera,
    signalled,
    sized,
    speed_of,
    stamped,
    start_of,
    started,
    state_of,
    step,
    struck,
    turned_while_hung,
    turning_budgets,
    turning_sizes,
    turns,
    two_sources,
    weights,
    with_quality,
)
from parts.fault_repeats import configured_again, default_camera, rewritten_in_place
from parts.node_stand import BUDGET_MS

# What the nodes of each stand are, and their parameters.
STANDS = {
    'detector': {'names': ('detector',)},
    'compressed': {'names': ('detector',), 'compressed': True},
    'points': {'names': ('detector',), 'points': True},
    'inputs': {'names': ('vehicle_speed', 'time_budget', 'contention_monitor', 'path_visualizer')},
    'simulated': {'names': ('detector', 'vehicle_speed', 'time_budget'), 'simulated': True},
    'stepped': {'names': ('detector', 'vehicle_speed', 'time_budget'), 'stepped': True},
    'tasks': {
        'names': ('qos_scheduler',),
        'tasks': {'front': {'model': DEFAULT_MODEL, 'image_topic': 'image', 'periods_ms': [50]}},
    },
    'bringup': {'names': ('bringup',)},
    'start': {'names': ()},
}


_bits = itertools.count()


def turning_slowdowns(state: ContentionState) -> None:
    """Another value with every message."""
    state.slowdown = any_number(next(_bits))


_ALL_NODES = ('vehicle_speed', 'time_budget', 'contention_monitor', 'detector', 'path_visualizer')
_SILENT = {
    'feed': {'images_hz': 0.0, 'frames_hz': 0.0}
}  # the stand's own camera and made-up detector

of_camera = done('images', 'detector', Images.AFTERWARDS, counted=False)
compressed = fed('images', 'compressed', 'image', Images.REJECTED)
turned = done('lifecycle', 'detector', Images.AFTERWARDS, counted=False)
of_reader = done('middleware', 'detector', Images.IN_TIME, lasts_s=0.0)
of_clock = done('clocks', 'simulated', Images.IN_TIME, lasts_s=1.0)
stepped = done('clocks', 'stepped', Images.IN_TIME, lasts_s=1.0, speed='known')
killed = done('kills', 'bringup', Images.AFTERWARDS, counted=False, may_end=True, recovers_s=45.0)

FAULTS = (
    rejected(
        'unknown encoding',
        'images with the encoding vendor_raw12',
        put(encoding='vendor_raw12'),
        says='vendor_raw12',
    ),
    rejected('no encoding', 'images with an empty encoding', put(encoding=''), says='encoding'),
    rejected('zero size', 'images of 0 x 0 px', put(width=0, height=0), says='0 x 0'),
    rejected('no data', 'images without pixels', put(data=array('B')), says='0 bytes'),
    rejected(
        'huge claim',
        'images that claim 4294967295 x 4294967295 px',
        put(width=2**32 - 1, height=2**32 - 1, step=2**32 - 1),
        says='rejected',
    ),
    images_of(
        'large images', '1920 x 1080 px at 5 Hz', put(**sized(1920, 1080)), feed={'images_hz': 5.0}
    ),
    rejected('wrong step', 'rows shorter than their pixels', put(step=100), says='step'),
    rejected(
        'truncated', 'half of the bytes', put(data=array('B', bytes(364800))), says='364800 bytes'
    ),
    rejected(
        'too long', 'more bytes than rows', put(data=array('B', bytes(729601))), says='729601'
    ),
    images_of(
        'changing size', 'another size with every image, one of them 1 x 1 px', turning_sizes
    ),
    images_of('padded rows', 'a step longer than the row', put(**sized(641, 380, padding=61))),
    rejected('odd width', 'yuv422 of 641 px', put(**sized(641, 380, 2, 'yuv422')), says='641 px'),
    images_of(
        'NaN pixels',
        '32FC3 with NaN in every sample',
        put(
            **sized(640, 380, 12, '32FC3')
            | {'data': array('B', array('f', [NAN] * 640 * 380 * 3).tobytes())}
        ),
        images=Images.EITHER,
    ),
    images_of('16 bit', 'mono16 images', put(**sized(640, 380, 2, 'mono16')), images=Images.EITHER),
    images_of(
        'long frame id',
        'a frame of 20,000 letters',
        lambda image, number: setattr(image.header, 'frame_id', f'camera {number} ' + 'ä' * 20_000),
    ),
    images_of(
        'stamp zero',
        'images without a stamp',
        put(header__stamp__sec=0, header__stamp__nanosec=0),
        says='stamp is zero',
    ),
    images_of('stamp negative', 'stamps before 1970', put(header__stamp__sec=-5), says='stamp'),
    images_of('stamp past', 'stamps of an hour ago', stamped(lambda number: -3600.0), says=' old'),
    images_of(
        'stamp future', 'stamps of an hour ahead', stamped(lambda number: 3600.0), says='future'
    ),
    images_of(
        'stamps back',
        'each stamp 50 ms before the last',
        stamped(lambda number: -0.15 * (number % 100)),
        says='went back',
    ),
    images_of(
        'stamps twice', 'two images with each stamp', stamped(lambda number: -0.1 * (number % 2))
    ),
    images_of(
        'late images', 'images that are 500 ms old when they are sent', stamped(lambda number: -0.5)
    ),
    images_of('burst', '100 images a second of 640 x 380 px', feed={'images_hz': 100.0}),
    images_of(
        'large burst',
        '100 images a second of 1280 x 720 px',
        put(**sized(1280, 720)),
        feed={'images_hz': 100.0},
        lasts_s=10.0,
    ),
    images_of('pause', 'no image for 3 s', feed={'images_hz': 0.0}, lasts_s=3.0),
    images_of(
        'camera stops',
        'no image for 12 s',
        feed={'images_hz': 0.0},
        lasts_s=12.0,
        says=r'no image on \S+ for 1\d\.\d s',
    ),
    of_camera('best effort comes and goes', best_effort_visitor),
    of_camera('second camera', second_camera, images=Images.IN_TIME),
    of_camera(
        'default camera',
        default_camera(Detection2DArray, 'detector/detections'),
        'a camera with the default settings of Fast DDS, alone',
        feed={'images_hz': 0.0},
    ),
    of_camera('camera leaves', camera_leaves),
    compressed(
        'image bomb',
        'JPEG of some hundred bytes that states 65,500 x 16,000 px',
        put(data=claiming_jpeg(65_500, 16_000)),
        inflict=memory_kept(2.0),
        lasts_s=0.0,
        says='65500 x 16000 px',
    ),
    compressed(
        'other format',
        'a TIFF that is called a JPEG',
        put(data=other_format()),
        says='expected a JPEG, PNG, BMP or WebP',
    ),
    compressed('padded JPEG', padded.__doc__, padded, images=Images.IN_TIME),
    of_camera('memory short', memory_short, recovers_s=60.0),
    budget_of('budget zero', 'budgets of 0 ms', put(budget_ms=0.0)),
    budget_of('budget negative', 'budgets of -100 ms', put(budget_ms=-100.0)),
    budget_of('budget NaN', 'budgets of NaN', put(budget_ms=NAN)),
    budget_of('budget infinite', 'infinite budgets', put(budget_ms=INF)),
    budget_of('budget 1e300', 'budgets of 1e300 ms', put(budget_ms=1e300)),
    budget_of('budget tiny', 'budgets of 1e-300 ms', put(budget_ms=1e-300)),
    budget_of(
        'budget of a minute', 'budgets of 60,000 ms', put(budget_ms=60_000.0), within_ms=1500.0
    ),
    budget_of(
        'smallest budget NaN',
        'a smallest budget of NaN, and one of 1e300 ms',
        put(min_budget_ms=NAN),
    ),
    budget_of(
        'budget stale',
        'no budget for 3 s',
        feed={'budgets_hz': 0.0},
        lasts_s=3.0,
        says='budget is .* old',
    ),
    budget_of('budget turning', 'a budget of a quarter and the whole in turn', turning_budgets),
    budget_of(
        'budget flood',
        '1000 budgets a second',
        inflict=flood(TimeBudget, 'time_budget/budget', budget_ms=BUDGET_MS, min_budget_ms=100.0),
        lasts_s=0.2,
    ),
    state_of('slowdown NaN', 'a slowdown of NaN', put(slowdown=NAN)),
    state_of('slowdown 0.5', 'a slowdown of 0.5', put(slowdown=0.5)),
    state_of('slowdown 1e300', 'a slowdown of 1e300', put(slowdown=1e300)),
    state_of('slowdown infinite', 'an infinite slowdown', put(slowdown=INF)),
    state_of(
        'slowdown 1000',
        'a slowdown of 1000',
        put(slowdown=1000.0),
        says='slowdown is 1000, expected',
    ),
    state_of(
        'slowdown 1e15',
        'a slowdown of 1e15',
        put(slowdown=1e15),
        says=r'slowdown is 1e\+15, expected',
    ),
    state_of(
        'slowdown of any value',
        'slowdowns of random bits',
        turning_slowdowns,
        lasts_s=10.0,
        says='slowdown is .*, expected',
    ),
    state_of(
        'slowdown stale',
        'no contention state for 4 s',
        feed={'states_hz': 0.0},
        lasts_s=4.5,
        says='contention',
    ),
    state_of(
        'state flood',
        '1000 contention states a second',
        inflict=flood(ContentionState, 'contention_monitor/state', slowdown=1.0),
        lasts_s=0.2,
    ),
    state_of(
        'diagnostics flood',
        '1000 foreign diagnostics a second',
        inflict=flood(DiagnosticArray, '/diagnostics'),
        lasts_s=0.2,
    ),
    *(
        Fault(
            f'{said} without end',
            'floods',
            'detector',
            f'another process publishes {said} as fast as it can',
            Images.AFTERWARDS,
            endless(kind, topic, values),
            counted=False,
            says=f'{topic}: .* messages a second',
        )
        for said, kind, topic, values in (
            ('budgets', 'TimeBudget', 'time_budget/budget', 'budget_ms=200.0, min_budget_ms=100.0'),
            ('states', 'ContentionState', 'contention_monitor/state', 'slowdown=1.0'),
        )
    ),
    Fault(
        'frames without end',
        'floods',
        'inputs',
        'another process publishes latencies as fast as it can',
        Images.NONE,
        endless('FrameLatency', 'detector/latency', 'idle_forecast_ms=9.0, network_ms=9.0'),
        says='detector/latency: .* messages a second',
        speed='known',
        lasts_s=0.5,
    ),
    Fault(
        'long detections',
        'floods',
        'inputs',
        'detections of 100,000 objects',
        Images.NONE,
        long_message(100_000),
        says='bytes, expected at most',
        speed='known',
        lasts_s=0.5,
    ),
    parameters('legal parameter', '', {'min_score': 0.1}),
    parameters('illegal parameter', 'out of range', {'threads': -1}),
    parameters('parameter NaN', 'out of range', {'default_budget_ms': NAN}),
    parameters('parameter of another type', 'expected', {'target_miss_probability': 'often'}),
    parameters('parameter that names nothing', 'expected frontier', {'policy': 'oracle'}),
    parameters(
        'budget parameters that contradict', 'expected', {'min_budget_ms': 900.0}, 'time_budget'
    ),
    parameters('speed parameter NaN', 'out of range', {'time_constant_s': NAN}, 'vehicle_speed'),
    turned('deactivate', turns('deactivate', 'activate'), 'deactivated and activated under load'),
    turned(
        'deactivate often',
        turns('deactivate', 'activate', times=10),
        'deactivated and activated ten times',
    ),
    turned(
        'deactivate in a burst',
        turns('deactivate', 'activate', times=2),
        'deactivated and activated at 100 images a second',
        feed={'images_hz': 100.0},
        lasts_s=0.5,
    ),
    turned(
        'configure anew',
        turns('deactivate', 'cleanup', 'configure', 'activate'),
        'taken through all states under load',
        recovers_s=30.0,
    ),
    turned(
        'configured fifty times',
        configured_again(50),
        'taken through all states 50 times: nothing may grow',
        recovers_s=30.0,
    ),
    turned(
        'illegal transition',
        turns('configure', refused=True),
        'configured while active',
        images=Images.IN_TIME,
        counted=True,
    ),
    of_reader(
        'reader killed', partial(reader, then='kill'), 'a subscriber of everything is killed'
    ),
    of_reader(
        'reader stopped',
        partial(reader, then='stop'),
        'a reliable subscriber is stopped for 4 s, then killed',
    ),
    of_reader('late comer', late_comer),
    of_reader(
        'thirty readers',
        partial(reader, then='stay', each=10),
        'Ten subscribers more to each of three topics, in one process.',
    ),
    of_reader('foreign topic', foreign_topic),
    of_reader('misfit reader', misfit_reader, says='quality of service'),
    Fault(
        'detector stopped',
        'stops',
        'detector',
        'SIGSTOP, and SIGCONT after 2 s',
        Images.AFTERWARDS,
        signalled('detector', signal.SIGSTOP, 2.0),
        lasts_s=0.5,
    ),
    file_given('weights missing', 'model', lambda stand: None, '.safetensors'),
    file_given('weights garbage', 'model', lambda stand: os.urandom(100_000), '.safetensors'),
    file_given('weights empty', 'model', lambda stand: b'', '.safetensors'),
    file_given(
        'weights truncated', 'model', lambda stand: weights(stand)[:5_000_000], '.safetensors'
    ),
    file_given('profile missing', 'profile', lambda stand: None, '.json'),
    file_given('profile garbage', 'profile', lambda stand: b'\x00{]', '.json'),
    file_given(
        'profile foreign',
        'profile',
        partial(profile, change=lambda given: given.update(network_hash='0' * 16)),
        '.json',
    ),
    file_given('profile NaN', 'profile', partial(profile, change=nan_times), '.json'),
    file_given(
        'quality garbage',
        'model',
        lambda stand: with_quality(stand, 'quality_garbage', b'[1, 2'),
        '.safetensors',
    ),
    file_given(
        'quality foreign',
        'model',
        lambda stand: with_quality(
            stand,
            'quality_foreign',
            find_weights(DEFAULT_WEIGHTS)
            .with_suffix('.quality.json')
            .read_bytes()
            .replace(b'"weights_hash": "', b'"weights_hash": "0'),
        ),
        '.safetensors',
    ),
    file_given(
        'calibration of a shell',
        'calibration_file',
        lambda stand: b'export PATH=/usr/bin\n',
        '.bashrc',
        kept=True,
    ),
    file_given(
        'calibration unwritable',
        'calibration_file',
        lambda stand: None,
        '',
        kept=True,
        place='/proc/kept.json',
    ),
    file_given('calibration 1e300', 'calibration_file', calibration, '.json', kept=True, own=True),
    Fault(
        'weights rewritten in place',
        'files',
        'detector',
        'configured 10 times while another program writes over the file',
        Images.AFTERWARDS,
        rewritten_in_place(10),
        counted=False,
        recovers_s=30.0,
    ),
    of_camera(
        'best effort',
        partial(camera_leaves, reliability=ReliabilityPolicy.BEST_EFFORT),
        'a camera that offers best effort only',
    ),
    struck('network hangs briefly', 'one segment takes 1 s', 2.0, network={'hang_s': 1.0}),
    struck(
        'network hangs',
        'one segment takes 12 s',
        12.5,
        network={'hang_s': 12.0},
        says='answered|hang',
    ),
    struck(
        'network slow', 'every segment takes 60 ms more', 4.0, network={'hang_s': 0.06, 'calls': 60}
    ),
    struck('network fails', 'one segment raises', 1.0, network={'error': 'out of memory'}),
    struck(
        'network keeps failing',
        'twenty frames raise',
        3.0,
        network={'error': 'out of memory', 'calls': 20},
        says='out of memory',
    ),
    struck('conversion hangs', 'one conversion takes 4 s', 4.5, conversion={'hang_s': 4.0}),
    struck(
        'conversion fails',
        'one conversion raises what nobody expects',
        1.0,
        conversion={'error': 'broken codec'},
    ),
    struck(
        'publication hangs',
        'one publication of detections takes 4 s',
        4.5,
        publication={'hang_s': 4.0},
    ),
    struck(
        'publication fails',
        'one publication of detections raises',
        1.0,
        publication={'error': 'no middleware'},
    ),
    # Nothing can be heard while the middleware takes nothing: those after it are judged.
    struck(
        'publication keeps failing',
        'ten publications of detections raise',
        3.0,
        images=Images.AFTERWARDS,
        publication={'error': 'no middleware', 'calls': 10},
        says='no middleware',
    ),
    struck('record hangs', 'one publication of the latency takes 4 s', 4.5, record={'hang_s': 4.0}),
    struck(
        'record fails',
        'one publication of the latency raises',
        1.0,
        record={'error': 'no middleware'},
    ),
    *(
        struck(f'{point} exits', f'one {what} calls sys.exit()', 1.0, **{point: {'exits': True}})
        for point, what in (
            ('network', 'segment'),
            ('conversion', 'conversion'),
            ('publication', 'publication of detections'),
            ('record', 'publication of the latency'),
        )
    ),
    Fault(
        'activated while hung',
        'hangs',
        'points',
        turned_while_hung.__doc__,
        Images.AFTERWARDS,
        turned_while_hung,
        counted=False,
        may_end=True,
        recovers_s=30.0,
    ),
    speed_of('speed NaN', 'odometry of NaN', forward(NAN), speed='unknown'),
    speed_of('speed infinite', 'infinite odometry', forward(INF), speed='unknown'),
    speed_of('speed -infinite', 'odometry of minus infinity', forward(-INF), speed='unknown'),
    speed_of('speed absurd', '1e6 m/s', forward(1e6), speed='unknown'),
    speed_of(
        'speed -1 mm/s', 'odometry that trembles at standstill', forward(-0.001), speed='known'
    ),
    speed_of('reversing', '-3 m/s', forward(-3.0), speed='known'),
    speed_of(
        'speed silent',
        'no odometry for 3 s',
        feed={'speeds_hz': 0.0},
        lasts_s=3.0,
        says='old',
        speed='unknown',
    ),
    speed_of(
        'speed stamps zero', 'odometry without stamps', put(header__stamp__sec=0), speed='known'
    ),
    speed_of(
        'odometry flood', '500 odometry messages a second', feed={'speeds_hz': 500.0}, speed='known'
    ),
    Fault(
        'two speeds',
        'speeds',
        'inputs',
        two_sources.__doc__,
        Images.NONE,
        two_sources,
        speed='known',
    ),
    Fault(
        'inputs stopped',
        'stops',
        'inputs',
        'vehicle_speed: SIGSTOP, and SIGCONT after 2 s',
        Images.NONE,
        signalled('vehicle_speed', signal.SIGSTOP, 2.0),
        lasts_s=0.5,
    ),
    frame_of('boxes NaN', 'detections with NaN boxes', boxes(3, NAN)),
    frame_of('boxes infinite', 'detections with infinite boxes', boxes(3, INF)),
    frame_of('many boxes', '2000 boxes per frame', boxes(2000, 20.0)),
    frame_of('frame times NaN', 'latency messages of NaN', frame_times(NAN)),
    frame_of('frame times infinite', 'infinite latency messages', frame_times(INF)),
    frame_of('frame times negative', 'latency messages of -70 ms', frame_times(-70.0)),
    Fault(
        'default camera drawn',
        'drawing',
        'inputs',
        'a camera with the default settings of Fast DDS is drawn on',
        Images.NONE,
        default_camera(Image, 'path_visualizer/image', detects=True),
        **_SILENT,
    ),
    Fault(
        'default camera of tasks',
        'images',
        'tasks',
        'a task has a camera with the default settings',
        Images.NONE,
        default_camera(Detection2DArray, 'qos_scheduler/front/detections'),
        **_SILENT,
    ),
    frame_of(
        'drawn on garbage',
        'images of an unknown encoding while somebody watches',
        image=put(encoding='none'),
    ),
    of_clock('clock stops', clock(0.0), '/clock stands still for 3 s'),
    of_clock('clock gone', None, 'no /clock for 3 s', feed={'clock_hz': 0.0}, lasts_s=3.0),
    of_clock('clock forward', clock(jump_s=60.0), '/clock jumps 60 s ahead'),
    of_clock('clock back', clock(jump_s=-60.0), '/clock jumps 60 s back'),
    of_clock('clock fast', clock(5.0), '/clock runs five times as fast'),
    stepped('system clock back', step(-60), 'the system clock steps back by 60 s'),
    stepped('system clock forward', step(60), 'the system clock steps ahead by 60 s'),
    stepped('system clock an hour back', step(-3600), 'the system clock steps back by an hour'),
    *(
        killed(f'{node} killed', signalled(node, signal.SIGKILL), f'{node} gets SIGKILL')
        for node in _ALL_NODES
    ),
    killed('detector terminated', signalled('detector', signal.SIGTERM), 'detector gets SIGTERM'),
    *(
        Fault(
            f'{node} stopped',
            'stops',
            'bringup',
            f'{node}: SIGSTOP, and SIGCONT after 3 s',
            Images.IN_TIME,
            signalled(node, signal.SIGSTOP, 3.0),
            lasts_s=1.0,
        )
        for node in _ALL_NODES
        if node != 'detector'
    ),
    killed('killed again and again', killed_again_and_again, recovers_s=0.0),
    killed('supervisor killed', all_end),
    start_of(
        'unknown parameter',
        'a parameter file with a misspelt name',
        started(
            'vehicle_speed',
            parameter_file('/**:\n  ros__parameters:\n    timeout: 1.0\n'),
            status=None,
            says='timeout_s meant',
        ),
    ),
    start_of(
        'illegal file value',
        'a parameter file with a value out of range',
        started(
            'vehicle_speed',
            parameter_file('/**:\n  ros__parameters:\n    timeout_s: -4.0\n'),
            status=1,
            says='timeout_s',
        ),
    ),
    start_of(
        'file value of another type',
        'a parameter file with a word for a number',
        started(
            'detector',
            parameter_file('/**:\n  ros__parameters:\n    threads: two\n'),
            status=1,
            says='threads',
        ),
    ),
    start_of(
        'broken parameter file',
        'a parameter file that is no YAML',
        started('time_budget', parameter_file('/**: [\n'), status=1, says='cannot be used'),
    ),
    start_of(
        'parameter file missing',
        'a parameter file that is not there',
        started(
            'time_budget',
            lambda stand: ['--params-file', '/no/such/file.yaml'],
            status=1,
            says='cannot be used',
        ),
    ),
    *(
        start_of(
            f'{number.name} {after_s} s after the start',
            'the detector is told to end while it loads',
            started('detector', lambda stand: [], status=0, says='', end=number, after_s=after_s),
        )
        for number in (signal.SIGINT, signal.SIGTERM)
        for after_s in (2.5, 5.0)
    ),
    start_of(
        'recorder without disk',
        'a recorder whose disk takes 2,000 bytes',
        started(
            'bag_recorder',
            lambda stand: ['-p', f'output:={stand.folder}/full.mcap'],
            status=1,
            says='File too large',
            end=signal.SIGINT,
            after_s=12.0,
            before=('prlimit', '--fsize=2000'),
        ),
    ),
    program(
        'fork',
        'a detector is used in a fork of its process',
        """
child = os.fork()
if not child:
    signal.alarm(30)
    try:
        detector.detect(image, 200.0)
    except Exception as error:
        print(error, flush=True)
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
""",
        status=0,
        says='expected a detector of its own in each process',
    ),
    program(
        'exit in a callback',
        'sys.exit() in the callback of ten images',
        """
with detector.stream(lambda answer: sys.exit(3)) as stream:
    for number in range(1, 11):
        stream.submit(image, number, 1000.0)
        time.sleep(0.2)
print('answered', detector.detect(image, 20000.0).outcome, detector.fault)
""",
        status=0,
        says='answered',
    ),
    program(
        'ends without close',
        'a program ends while the network is at work on a late image',
        'detector.detect(image, 2.0)\n',
        status=0,
        says='',
    ),
    program(
        'error without close',
        'a program fails while the network is at work on a late image',
        "detector.detect(image, 2.0)\nraise ValueError('own error')\n",
        status=1,
        says='own error',
    ),
)
