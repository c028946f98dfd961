"""The parameters of the detector node, and what they are turned into."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deadline_perception.decision.expected_utility import MAX_MISS_COST
from deadline_perception.engine.choice import ENGINES
from deadline_perception.latency.device import DEFAULT_THREADS
from deadline_perception.runtime.image_age import ImageAge
from deadline_perception.runtime.conditions import ConditionTracker
from deadline_perception.runtime.frame_client import FrameRules
from deadline_perception.runtime.loading import CHOOSING_POLICIES, POLICIES, NetworkOptions
from deadline_perception.runtime.kernel_thread import parse_cores
from deadline_perception.runtime.priority import MODES, ThreadPriority
from deadline_perception.runtime.tracks import BoxesAt, LatePolicy
from deadline_perception.nodes.image_input import IMAGE_TIMEOUT, RELIABILITY
from deadline_perception.nodes.parameters import Parameter, Value

PARAMETERS = (
    Parameter('autostart', True, 'Configure and activate without waiting for a lifecycle manager.', read_only=True),
    Parameter('image_transport', 'raw', 'Subscribe to sensor_msgs/Image on `image`, or to sensor_msgs/CompressedImage '
              'on `image/compressed`.', choices=('raw', 'compressed')),
    RELIABILITY,
    IMAGE_TIMEOUT,
    Parameter('model', 'compact', 'Weights: a safetensors file, or the name of one in models/. Or a set of own models: '
              'the set.yaml that `deadline-perception adopt` wrote. Or any network: package.module:callable, called '
              'with the device.'),
    Parameter('profile', '', "Latency profile; empty: this device's own, or the one in models/profiles."),
    Parameter('quality', '', 'Table of path qualities; empty: the one beside the weights, or longer is better.'),
    Parameter('device', 'cpu', 'Processor of the network: cpu, cuda or cuda:INDEX.'),
    Parameter('engine', 'auto', 'What runs the segments of weights on the CPU. openvino: compiled ones, 8 bit where '
              'that is as accurate, which `deadline-perception profile` prepares. auto: these where they are '
              'ready, else eager.', choices=ENGINES),
    Parameter('threads', DEFAULT_THREADS, 'Threads per network operation. Others than the first help as their cores '
              'are free; eager ones wait for each other beside busy programs.', minimum=1, maximum=256),
    Parameter('priority', 'auto', 'What the kernel is asked for on behalf of the threads that compute and answer. '
              'auto: real-time priority where that is permitted, else raised niceness where that is, and locked '
              'memory; what is in force is told in the diagnostics. off: nothing.', choices=MODES),
    Parameter('cores', '', 'Cores on which those threads run, such as 0,2-3; empty: wherever this process may.'),
    Parameter('policy', 'frontier', 'How the path of a frame is chosen. frontier: the one of highest quality that is '
              'likely to fit the time left and that later operators can still bring home within a bound that fits, '
              'decided again at every operator. expected_utility: the one of greatest quality times the chance to be '
              'in time, less miss_cost times the chance to be late, as often. The others are what these are measured '
              'against. thresholds: each operator compares the time left with a threshold of its own. oblivious: the '
              "same by the idle device's median times, without slowdown and calibration. fixed: always fixed_path. "
              'reactive_1, reactive_n: a larger path after each frame in time; after a late one the next smaller (1) '
              'or the cheapest (n).', choices=POLICIES),
    Parameter('fixed_path', '', 'Path of every frame under the policy fixed, and under thresholds and oblivious the '
              'one that gives what they do not decide, such as widths; empty: the largest.'),
    Parameter('miss_cost', 1.0, 'Accuracy that one late frame costs under the policy expected_utility, besides that of '
              'its own result; 0: as much as possible comes in time.', minimum=0.0, maximum=MAX_MISS_COST),
    Parameter('min_quality', 0.0, 'Least accuracy of a path, from the table of qualities, under frontier and '
              'expected_utility: where no path that is as good fits the time left, the cheapest of them runs, late. A '
              'good late answer rather than a bad early one; 0: whatever fits.', minimum=0.0, maximum=1.0),
    Parameter('keep_paths', 0, 'Under frontier and expected_utility, keep ready only the best paths at so many levels '
              'of contention, and the cheapest that a frame on one of them can change to: less memory, a faster start, '
              'coarser steps. 0: all.', minimum=0, maximum=100000),
    Parameter('target_miss_probability', 0.01, 'Share of frames that may exceed their bound.', minimum=0.0001,
              maximum=0.5),
    Parameter('calibration_step', 0.05, 'Step of the bound calibration after each frame, of the logarithm.',
              minimum=0.001, maximum=1.0),
    Parameter('calibration_file', '', 'Keeps what the calibration learnt over a restart with the same network, '
              'device and threads; empty: nothing is kept.'),
    Parameter('default_budget_ms', 100.0, 'Budget until the first one is heard.', unit='ms', minimum=1.0,
              maximum=60000.0),
    Parameter('budget_timeout_ms', 1000.0, 'An older budget is stale, and the smallest is in force.', unit='ms',
              minimum=10.0, maximum=60000.0),
    Parameter('contention_timeout_ms', 3000.0, 'An older slowdown is stale: it stays in force until a new one '
              'comes, and the node is degraded.', unit='ms', minimum=10.0,
              maximum=60000.0),
    Parameter('min_score', 0.05, 'Objects and classes of a lower score are not published. The report and average '
              'precision need the low ones; a robot that acts on each takes 0.3 to 0.5.', minimum=0.0, maximum=1.0),
    Parameter('late_policy', 'coasted', 'When time runs out: publish, in time, coasted tracks of the previous '
              'detections (for other results the last one again); or the own ones, late.', choices=('coasted', 'late')),
    Parameter('late_grace_ms', 1000.0, 'Longest time past the deadline, or past its begin, that the network may go on '
              'with a frame.', unit='ms', minimum=0.0, maximum=60000.0),
    Parameter('max_coasted', 3, 'After so many frames in a row without a result of the network, one is run to its end '
              'whatever waits, which renews the tracks.', minimum=0, maximum=1000),
    Parameter('max_track_age_ms', 1000.0, 'Longest time that an object is coasted without a result that shows it.',
              unit='ms', minimum=1.0, maximum=60000.0),
    Parameter('spare_next_image', True, 'Under the policy frontier, take the best path that is expected to end before '
              'the next image comes; where none is, before the one after. false: the best that fits the budget, also '
              'where it is longer than the time between two images.'),
    Parameter('boxes_at', 'image', 'The time that published boxes are for. image: the stamp that they carry. '
              'publication: the moment at which they are published, along their tracks, for a listener who acts on '
              'them at once and does not look at the stamp.', choices=('image', 'publication')),
    Parameter('max_age_ms', 10000.0, 'An image that seems older has a wrong stamp.', unit='ms', minimum=1.0),
    Parameter('future_tolerance_ms', 20.0, 'A stamp so far ahead of the clock still counts as age 0.', unit='ms',
              minimum=0.0),
    Parameter('diagnostics_period_s', 1.0, 'Time between two diagnostic messages.', unit='s', minimum=0.1,
              maximum=60.0, read_only=True),
)
_OF_NETWORK = NetworkOptions.__dataclass_fields__
_RELOADED = ('model', 'profile', 'quality')


def _waits_for(name: str) -> str:
    if name in _RELOADED:
        return 'configure or ~/reload'
    return 'configure' if name in _OF_NETWORK else 'activate'


PARAMETERS = tuple(row if row.read_only else replace(row, waits_for=_waits_for(row.name)) for row in PARAMETERS)


def check(values: Mapping[str, Value]) -> None:
    """Refuses values that do not fit each other.

    Raises:
        ValueError: which, and why.
    """
    make_rules(values)
    parse_cores(values['cores'])
    if values['fixed_path'] and values['policy'] not in ('fixed', 'thresholds', 'oblivious'):
        raise ValueError(f'fixed_path is {values["fixed_path"]!r}, expected none with policy {values["policy"]!r}')
    if values['min_quality'] and values['policy'] not in CHOOSING_POLICIES:
        raise ValueError(f'min_quality is {values["min_quality"]}, expected 0 with policy {values["policy"]!r}')
    if values['miss_cost'] != 1.0 and values['policy'] != 'expected_utility':
        raise ValueError(f'miss_cost is {values["miss_cost"]}, expected 1.0 with policy {values["policy"]!r}')


def network_options(values: Mapping[str, Value]) -> NetworkOptions:
    """Where the parts of the detector lie."""
    return NetworkOptions(**{name: values[name] for name in NetworkOptions.__dataclass_fields__})


def reloaded_options(options: NetworkOptions, values: Mapping[str, Value]) -> NetworkOptions:
    """The options of a running network with the files that are named now."""
    return replace(options, **{name: values[name] for name in _RELOADED})


def make_rules(values: Mapping[str, Value]) -> FrameRules:
    """How images are answered."""
    return FrameRules(
        min_score=values['min_score'], late_policy=LatePolicy(values['late_policy']),
        late_grace_ms=values['late_grace_ms'], max_coasted=values['max_coasted'],
        max_track_age_ms=values['max_track_age_ms'], boxes_at=BoxesAt(values['boxes_at']),
        spare_next_image=values['spare_next_image'] and values['policy'] == 'frontier')


def make_priority(values: Mapping[str, Value], device_kind: str) -> ThreadPriority:
    """Raises the threads that compute and answer. Memory is locked for a CPU; a GPU's driver maps more than there is.

    Raises:
        ValueError: the cores are none, or none that this process may use.
    """
    return ThreadPriority(values['priority'], cores=parse_cores(values['cores']), lock_memory=device_kind == 'cpu')


def make_image_age(values: Mapping[str, Value]) -> ImageAge:
    """Reads the stamps of images."""
    return ImageAge(max_age_ms=values['max_age_ms'], future_tolerance_ms=values['future_tolerance_ms'])


def make_conditions(values: Mapping[str, Value], standing: tuple[str, ...] = ()) -> ConditionTracker:
    """Remembers budget and contention; `standing` is what degrades every frame."""
    return ConditionTracker(default_budget_ms=values['default_budget_ms'],
                            budget_timeout_ms=values['budget_timeout_ms'],
                            contention_timeout_ms=values['contention_timeout_ms'], standing=standing)
