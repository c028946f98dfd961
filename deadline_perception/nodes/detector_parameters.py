"""The parameters of the detector node, and what they are turned into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.core.share_folder import DEFAULT_MODEL
from deadline_perception.engines.choice import ENGINES
from deadline_perception.nodes.image_input import RELIABILITY, TRANSPORT
from deadline_perception.nodes.parameters import Parameter, Value
from deadline_perception.runtime.job import LatePolicy
from deadline_perception.runtime.loading import NetworkOptions, check_policy
from deadline_perception.runtime.pipeline import FrameRules
from deadline_perception.system.kernel_thread import parse_cores
from deadline_perception.system.priority import MODES
from deadline_perception.timing.time_model import BOUNDS, CALIBRATED

_TABLE = (
    Parameter(
        'autostart',
        True,
        'Configure and activate without waiting for a lifecycle manager.',
        read_only=True,
    ),
    Parameter(
        'further_cameras',
        [''],
        'Image topics of further cameras, such as rear/image_raw. Each has a node of its own in this process, such as '
        'detector_rear, which begins with the parameters of this one and shares its network in memory.',
        read_only=True,
    ),
    TRANSPORT,
    RELIABILITY,
    Parameter(
        'model',
        DEFAULT_MODEL,
        'Weights: a safetensors file, or the name of one in models/. Or a set of own '
        'models: the set.yaml that `deadline-perception adopt` wrote. Or any network: package.module:callable, '
        'called with the device.',
    ),
    Parameter(
        'profile', '', "Latency profile; empty: this device's own, or the one in models/profiles."
    ),
    Parameter('device', 'cpu', 'Processor of the network: cpu, cuda or cuda:INDEX.'),
    Parameter(
        'engine',
        'auto',
        'What runs the segments of weights on the CPU. openvino: compiled ones, 8 bit where '
        'that is as accurate, which `deadline-perception profile` prepares. auto: these where they are '
        'ready, else eager; weights that come with their quantised models are prepared beside the node.',
        choices=ENGINES,
    ),
    Parameter(
        'threads',
        DEFAULT_THREADS,
        'Threads per network operation. Others than the first help as their cores '
        'are free; eager ones wait for each other beside busy programs.',
        minimum=1,
        maximum=256,
    ),
    Parameter(
        'priority',
        'auto',
        'What the kernel is asked for on behalf of the threads that compute and answer. '
        'auto: real-time priority where that is permitted, else raised niceness where that is, and locked '
        'memory; what is in force stands in the diagnostics. off: nothing.',
        choices=MODES,
    ),
    Parameter(
        'cores',
        '',
        'Cores on which those threads run, such as 0,2-3; empty: wherever this process may.',
    ),
    Parameter(
        'policy',
        'frontier',
        'How the path of a frame is chosen. frontier: the one of highest quality that is '
        'expected to fit the time left and that later operators can still bring home within a bound that fits, '
        'decided again at every operator. Or your own: package.module:callable, called with path space, forecast '
        'and quality.',
    ),
    Parameter(
        'target_miss_probability',
        0.01,
        'Share of frames that may be late although their bound fits.',
        minimum=0.0001,
        maximum=0.5,
    ),
    Parameter(
        'bounds',
        CALIBRATED,
        'What bounds of times are made of. calibrated: measured times and what frames show. '
        'wcet: the analytical worst case of the latency profile alone, of at least 640 whole frames.',
        choices=BOUNDS,
    ),
    Parameter(
        'two_passes',
        True,
        'Look at an image twice where the weights declare how: a cheap look at the whole of it, which is its answer '
        'in time, then a closer one where time allows. Off: once.',
    ),
    Parameter(
        'class_weights',
        '',
        'What objects of a class count for, over the others at 1, as a path is chosen, such as "person=3, '
        'traffic_sign=0.5"; of weights that look twice.',
    ),
    Parameter(
        'calibration_file',
        '',
        'Keeps what the calibration learnt over a restart with the same network, '
        'device and threads; empty: nothing is kept.',
    ),
    Parameter(
        'default_budget_ms',
        100.0,
        'Budget until the first one is heard.',
        unit='ms',
        minimum=1.0,
        maximum=60000.0,
    ),
    Parameter(
        'budget_timeout_ms',
        1000.0,
        'An older budget is stale, and the smallest is in force.',
        unit='ms',
        minimum=10.0,
        maximum=60000.0,
    ),
    Parameter(
        'max_rate_hz',
        0.0,
        'At most so many images a second are answered, and the others dropped, so that '
        'other programs have the processor; 0: all.',
        unit='Hz',
        minimum=0.0,
        maximum=1000.0,
    ),
    Parameter(
        'min_score',
        0.05,
        'Objects and classes of a lower score are not published. The report and average '
        'precision need the low ones; a robot that acts on each takes 0.3 to 0.5.',
        minimum=0.0,
        maximum=1.0,
    ),
    Parameter(
        'late_policy',
        'coasted',
        'When time runs out: publish, in time, coasted tracks of the previous '
        'detections (for other results the last one again); or the own ones, late.',
        choices=('coasted', 'late'),
    ),
)
_OF_NETWORK = (
    'model',
    'profile',
    'device',
    'engine',
    'threads',
    'policy',
    'target_miss_probability',
    'calibration_file',
    'bounds',
    'two_passes',
    'class_weights',
)
_WAITS_FOR = {
    **dict.fromkeys(_OF_NETWORK, 'configure'),
    **dict.fromkeys(('autostart', 'max_rate_hz'), ''),
}
PARAMETERS = tuple(replace(row, waits_for=_WAITS_FOR.get(row.name, 'activate')) for row in _TABLE)


def rows(*names: str, **changes: Value) -> tuple[Parameter, ...]:
    """Some of these parameters, for another node that has them; `changes` are fields that all of them have there."""
    return tuple(replace(row, **changes) for row in PARAMETERS if row.name in names)


def check(values: Mapping[str, Value]) -> None:
    """Refuses values that no task could be made of.

    Raises:
        ValueError: which, and why.
    """
    parse_cores(values['cores'])
    check_policy(values['policy'])
    parse_class_weights(values['class_weights'])


def parse_class_weights(text: str) -> dict[str, float]:
    """Reads `person=3, traffic_sign=0.5`.

    Raises:
        ValueError: it is something else.
    """
    weights = {}
    for part in filter(None, map(str.strip, text.split(','))):
        name, _, number = part.rpartition('=')
        try:
            weights[name.strip()] = float(number)
        except ValueError:
            raise ValueError(
                f'class_weights is {text!r}, expected NAME=NUMBER, such as "person=3, traffic_sign=0.5"'
            ) from None
    return weights


def camera_name(topic: str) -> str:
    """Of a camera, by the topic of its images: `camera_rear` for `/camera/rear/image_raw`."""
    return '_'.join(topic.strip('/').split('/')[:-1]) or topic.strip('/')


def network_options(values: Mapping[str, Value]) -> NetworkOptions:
    """Where the parts of the detector lie."""
    options = {name: values[name] for name in _OF_NETWORK}
    options['class_weights'] = parse_class_weights(options['class_weights'])
    return NetworkOptions(**options)


def make_rules(values: Mapping[str, Value]) -> FrameRules:
    """How images are answered. Frames under the policy `frontier` end before the next image where they can."""
    return FrameRules(
        min_score=values['min_score'],
        late_policy=LatePolicy(values['late_policy']),
        spare_next_image=values['policy'] == 'frontier',
    )
