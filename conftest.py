"""Gives every test session a ROS domain of its own on this machine only, so that nothing else can be heard or
disturbed."""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import IO

import hypothesis
import pytest

# fixtures of several folders, in the order of their imports
pytest_plugins = (
    'made_up_detector',
    'measurable_network',
    'adopted_models',
    'made_up_decisions',
    'prepared_network',
)

REPOSITORY = Path(__file__).parent
# Threads of PyTorch and NumPy that wait for each other spin for milliseconds, which takes the cores from other workers.
# Read as the libraries load.
os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
# Above 101, the ports of a domain reach into the range from which Linux hands out ports to others.
_DOMAINS = range(1, 102)
_domain_lock = pytest.StashKey[IO[str]]()
_begun_s = pytest.StashKey[float]()

collect_ignore = [] if importlib.util.find_spec('rclpy') else ['test/nodes']


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares how the examples of random tests are chosen."""
    parser.addoption(
        '--random-seeds',
        action='store_true',
        help='try other random examples than the last time; '
        'without it a test tries the same ones in every run',
    )


def pytest_configure(config: pytest.Config) -> None:
    """Claims a free domain until the session ends; set before any test module can load rclpy."""
    hypothesis.settings.register_profile(
        'same_examples', derandomize=True, database=None, deadline=None
    )
    hypothesis.settings.register_profile(
        'random_seeds', database=None, deadline=None, print_blob=True
    )
    hypothesis.settings.load_profile(
        'random_seeds' if config.getoption('--random-seeds') else 'same_examples'
    )
    config.stash[_begun_s] = time.time()
    # Tests start some hundred processes that import torch: without bytecode each compiles it anew, a second or two.
    os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
    sys.dont_write_bytecode = False
    # As `load_openvino` keeps it out: it starts a copy of this process for each of hundreds of events, to send it.
    sys.modules.setdefault('openvino_telemetry', None)
    # A shell's background job ignores Ctrl-C, and whatever it starts does; workers of xdist inherit that too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for domain in random.SystemRandom().sample(_DOMAINS, len(_DOMAINS)):
        lock = _claim(domain)
        if lock is not None:
            config.stash[_domain_lock] = lock
            os.environ['ROS_DOMAIN_ID'] = str(domain)
            break
    else:
        raise pytest.UsageError('no ROS domain from 1 to 101 is free on this machine')
    if os.environ.get('ROS_DISTRO') == 'humble':
        os.environ['ROS_LOCALHOST_ONLY'] = '1'
    else:
        os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start nodes and commands first, which wait a lot: with short ones last no worker ends long after the
    others."""
    slow = (
        'test/nodes/',
        'test/tools/',
        'test/examples/',
        'test/test_',
        'test/runtime/',
        'test/engines/',
    )
    items.sort(
        key=lambda item: next(
            (place for place, start in enumerate(slow) if item.nodeid.startswith(start)), len(slow)
        )
    )


def pytest_collection_finish() -> None:
    """Leaves thousands of tests and all modules out of each search for garbage, which took half a second: a detector
    that loads searches, and so do many tests."""
    gc.collect()
    gc.freeze()


def dead_segments(folder: Path) -> list[Path]:
    """Files through which Fast DDS participants moved messages that are no more: a process that is killed leaves some
    MB.

    A living participant holds a lock on the file of the same name that ends in `_el`.
    """
    found = []
    for lock in sorted(folder.glob('fastrtps_*_el')):
        segment = lock.with_name(lock.name.removesuffix('_el'))
        if 'port' in segment.name or not segment.exists():
            continue
        try:
            with lock.open('r+b') as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # in use, or somebody else's
            continue
        found.append(segment)
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Gives back the shared memory of nodes that tests have killed: 0.7 GB otherwise, until the machine is
    restarted."""
    gc.unfreeze()
    if hasattr(session.config, 'workerinput'):
        return
    for segment in dead_segments(Path('/dev/shm')):
        try:
            if segment.stat().st_mtime >= session.config.stash[_begun_s]:
                segment.unlink()
                segment.with_name(f'{segment.name}_el').unlink()
        except OSError:  # somebody else's, or gone meanwhile
            pass


def _claim(domain: int) -> IO[str] | None:
    """Locks a domain against other test sessions, and checks that no DDS participant uses it."""
    lock = (Path(tempfile.gettempdir()) / f'deadline_perception_test_domain_{domain}').open('w')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        first_port = (
            7400 + 250 * domain
        )  # DDS-RTPS 2.5, section 9.6.2.4: discovery by multicast, then by unicast
        for port in (first_port, first_port + 10):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind(('', port))
    except OSError:
        lock.close()
        return None
    return lock


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """PyTorch on one thread, whatever a test before has set: several would wait for each other on a busy machine."""
    if 'torch' in sys.modules:
        sys.modules['torch'].set_num_threads(1)


@pytest.fixture(scope='session', autouse=True)
def frames_are_timed_at_once() -> Iterator[None]:
    """No rest of 40 ms before each, and no seconds for the pages of all that a worker holds: the times that tests
    measure in their own process are of no interest. Every process that they start does both."""
    left_out = (
        'runtime.loading.give_back_memory',
        'runtime.loading.use_huge_pages',
        'timing.profile.use_huge_pages',
        'timing.profile.wait_for_frame',
        'timing.transferred_profile.wait_for_frame',
    )
    with pytest.MonkeyPatch.context() as patch:
        for name in left_out:
            patch.setattr(f'deadline_perception.{name}', lambda: None)
        yield


@pytest.fixture(scope='session')
def repository() -> Path:
    """The root of the source tree."""
    return REPOSITORY


@pytest.fixture(scope='session')
def load_benchmark() -> Callable[[str], ModuleType]:
    """Loads a script of `benchmarks/` or `research/` by its name, without running it."""
    scripts = REPOSITORY / 'benchmarks'
    folders = [
        scripts,
        scripts / 'parts',
        *(file.parent for file in REPOSITORY.glob('research/*/README.md')),
    ]
    # as when a script is run: some take others' functions
    sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]

    def load(name: str) -> ModuleType:
        (file,) = (folder / f'{name}.py' for folder in folders if (folder / f'{name}.py').is_file())
        spec = importlib.util.spec_from_file_location(f'benchmark_{name}', file)
        sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
