"""Which processor runs the network, how it is set, and what a process must set before it may time anything."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadline_perception.core.errors import DeadlinePerceptionError, command_line

# glibc may hand freed memory back to the system between frames, and the next frame then faults its pages in again.
_ALLOCATOR = {
    'MALLOC_TRIM_THRESHOLD_': '2000000000',
    'MALLOC_MMAP_THRESHOLD_': '2000000000',
    'MALLOC_TOP_PAD_': '67108864',
}
_MALLOPT = -1, -3, -2  # the same to `mallopt`, of malloc.h
_POWER_MODEL = re.compile(r'<\s*POWER_MODEL\s+ID=(?P<id>\d+)\s+NAME=(?P<name>\S+)\s*>')
UNKNOWN = 'unknown'
# Threads per network operation where nobody says otherwise. The second one helps where its core is free and takes
# nothing where it is not (measured: benchmarks/threads.py of commit 68d0af47).
DEFAULT_THREADS = 2
_asked: dict[str, int] = {}  # threads, until PyTorch is loaded


class DeviceNotFound(DeadlinePerceptionError):
    """The device that was asked for is not in this machine, or PyTorch cannot use it."""


@dataclass(frozen=True)
class DeviceFacts:
    """The processor and the settings that decide how long a network takes on it.

    Attributes:
        name: model of the processor or board.
        kind: `cpu` or `cuda`.
        cores: CPU cores that this process may use.
        threads: threads that one network operation is distributed over.
        wait_policy: what idle OpenMP threads do: `passive`, `active`, or `default` of the library.
        allocator: `retaining` when freed memory stays with the process, or `default`.
        power_mode: such as `MAXN` or `15W` on a Jetson, `governor performance` elsewhere, or `unknown`.
        torch_version: version of PyTorch, `unknown` without it; for a GPU also of CUDA and cuDNN.
        multiprocessors: multiprocessors of the GPU, 0 for a CPU.
        clock_mhz: highest clock that the settings allow, 0 where it cannot be read.
        cache_line_bytes: size of a cache line of the CPU, 0 where it cannot be read.
        cpu_capability: vector instructions that PyTorch's kernels use, such as `AVX2`, `AVX512` or `DEFAULT`.

    Raises:
        ValueError: a value lies outside its range.
    """

    name: str
    kind: str
    cores: int
    threads: int
    wait_policy: str = 'default'
    allocator: str = 'default'
    power_mode: str = UNKNOWN
    torch_version: str = UNKNOWN
    multiprocessors: int = 0
    clock_mhz: float = 0.0
    cache_line_bytes: int = 0
    cpu_capability: str = UNKNOWN

    def __post_init__(self) -> None:
        if self.kind not in ('cpu', 'cuda'):
            raise ValueError(f'kind of device is {self.kind!r}, expected cpu or cuda')
        for name, least in (
            ('cores', 1),
            ('threads', 1),
            ('multiprocessors', 0),
            ('clock_mhz', 0),
            ('cache_line_bytes', 0),
        ):
            if not getattr(self, name) >= least:
                raise ValueError(
                    f'{name} of device is {getattr(self, name)}, expected at least {least}'
                )

    @property
    def slug(self) -> str:
        """The name as part of a file name: lower case, words joined by dashes."""
        plain = re.sub(r'\((r|tm|c)\)', ' ', self.name.lower())
        return re.sub(r'[^a-z0-9]+', '-', plain).strip('-') or UNKNOWN

    def __str__(self) -> str:
        return f'{self.name} ({self.kind}, {self.threads} thread{"s" if self.threads > 1 else ""})'


def process_environment(threads: int) -> dict[str, str]:
    """The environment variables that must be set before the process starts that runs the network.

    Libraries read them once, as they load; setting them later has no effect.

    Raises:
        ValueError: the number of threads is below 1.
    """
    if threads < 1:
        raise ValueError(f'threads is {threads}, expected at least 1')
    environment = {
        **dict.fromkeys(('OMP_NUM_THREADS', 'MKL_NUM_THREADS'), str(threads)),
        **_ALLOCATOR,
        # Before glibc 2.38, freed aligned memory fits the same request no more once a small block has taken its edge:
        # frames then touch 100 MB more, unless small blocks are merged as they are freed.
        'GLIBC_TUNABLES': 'glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0',
    }
    if (
        threads > 1
    ):  # threads that spin for each other hold the cores that other programs need, and wait longer
        environment['OMP_WAIT_POLICY'] = 'PASSIVE'
    return environment


def missing_environment(threads: int, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The settings of `process_environment` that `environment` lacks, each as `NAME=value`; empty when all is set."""
    return [
        f'{name}={value}'
        for name, value in process_environment(threads).items()
        if environment.get(name) != value
    ]


def profile_command(weights: str, device: str, threads: int) -> str:
    """The command that measures a profile."""
    words = f'profile --weights {shlex.quote(weights)}'
    if device != 'cpu':
        words += f' --device {device}'
    if threads != DEFAULT_THREADS:
        words += f' --threads {threads}'
    return command_line(words)


def keep_settings(threads: int) -> None:
    """Sets what of `process_environment` a running process can still set: what the allocator keeps, and while PyTorch is
    not loaded how its threads wait. (How many those are, is set as it loads: see `use_threads`.)"""
    library = ctypes.CDLL(None)
    if hasattr(library, 'mallopt'):  # of glibc
        for number, (name, value) in zip(_MALLOPT, _ALLOCATOR.items(), strict=True):
            library.mallopt(number, int(value))
            os.environ[name] = value
    if threads > 1 and 'torch' not in sys.modules:
        os.environ['OMP_WAIT_POLICY'] = 'PASSIVE'


def use_threads(threads: int) -> None:
    """Spreads every operation of PyTorch in this process over so many threads, those of OpenCV over none. PyTorch is not
    loaded for it: see `spread_torch`.

    OpenCV's own threads, which it starts before any is named, would stay at normal priority: what one of them had started
    would wait for other programs.

    Raises:
        ValueError: the number of threads is below 1.
    """
    if threads < 1:
        raise ValueError(f'threads is {threads}, expected at least 1')
    from deadline_perception.core.opencv import cv2

    _asked['threads'] = threads
    spread_torch()
    cv2.setNumThreads(1)


def spread_torch() -> None:
    """Has PyTorch use the threads that `use_threads` was asked for, if it is loaded; for who has just loaded it."""
    torch = sys.modules.get('torch')
    if torch is not None and _asked:
        torch.set_num_threads(_asked.pop('threads'))


def read_device_facts(
    device: str = 'cpu',
    *,
    root: Path = Path('/'),
    environment: Mapping[str, str] = os.environ,
) -> DeviceFacts:
    """Reads what this machine says about a device. Loads PyTorch for a CUDA device, never for the CPU.

    Args:
        device: `cpu`, `cuda` or `cuda:INDEX`.
        root: folder that holds `proc`, `sys`, `etc` and `var`.
        environment: variables of the process.

    Raises:
        DeviceNotFound: a CUDA device is asked for and PyTorch does not find it.
        ValueError: the device has another name.
    """
    check_device(device)
    kind = device.partition(':')[0]
    cores = len(os.sched_getaffinity(0))
    facts: dict[str, Any] = {
        'name': _processor_name(root),
        'kind': kind,
        'cores': cores,
        'threads': _threads(cores, environment),
        'wait_policy': environment.get('OMP_WAIT_POLICY', 'default').lower(),
        'allocator': _allocator(environment),
        'power_mode': _power_mode(root),
        'torch_version': _torch_version(),
        'clock_mhz': _clock_mhz(root, kind),
        'cache_line_bytes': int(
            _number(root / 'sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size')
        ),
        'cpu_capability': _cpu_capability(root, environment),
    }
    if kind == 'cuda':
        facts.update(_cuda_facts(device))
        facts['clock_mhz'] = _clock_mhz(root, kind) or facts['clock_mhz']
    return DeviceFacts(**facts)


def check_device(device: str) -> None:
    """Makes sure that a device can be used. Loads PyTorch for a CUDA device, never for the CPU.

    Args:
        device: `cpu`, `cuda` or `cuda:INDEX`.

    Raises:
        DeviceNotFound: a CUDA device is asked for and PyTorch does not find it.
        ValueError: the device has another name.
    """
    index = gpu_index(device)
    if device == 'cpu':
        return
    try:
        import torch
    except ImportError as error:
        raise DeviceNotFound(
            f'device is {device!r}, but PyTorch cannot be loaded: {error}; use the device cpu'
        ) from error
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= count:
        built = (
            f'built for CUDA {torch.version.cuda}' if torch.version.cuda else 'built without CUDA'
        )
        raise DeviceNotFound(
            f'device is {device!r}, but PyTorch {torch.__version__} ({built}) finds {count} CUDA '
            f'devices; use the device cpu, or ask `{command_line("doctor")}` what is missing'
        )


def gpu_index(device: str) -> int:
    """Number of the GPU in the name of a device, 0 where none is named.

    Raises:
        ValueError: the name has another form than cpu, cuda or cuda:INDEX.
    """
    named = re.fullmatch(r'cpu|cuda(?::(\d+))?', device)
    if named is None:
        raise ValueError(f'device is {device!r}, expected cpu, cuda or cuda:INDEX')
    return int(named[1] or 0)


def _cuda_facts(device: str) -> dict[str, str | int | float]:
    import torch

    properties = torch.cuda.get_device_properties(gpu_index(device))
    return {
        'name': properties.name,
        'multiprocessors': properties.multi_processor_count,
        'clock_mhz': getattr(properties, 'clock_rate', 0) / 1000.0,
        # A board's CUDA and cuDNN come with its system and change without PyTorch.
        'torch_version': f'{_torch_version()} CUDA {torch.version.cuda} cuDNN {torch.backends.cudnn.version()}',
    }


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode('utf-8', 'replace').strip('\x00\n ')
    except OSError:
        return ''


def _number(file: Path) -> float:
    text = _text(file)
    return float(text) if re.fullmatch(r'\d+(\.\d+)?', text) else 0.0


def _processor_name(root: Path) -> str:
    board = _text(
        root / 'proc/device-tree/model'
    )  # boards name themselves here, ARM cores not in cpuinfo
    if board:
        return board
    model = re.search(r'^model name\s*:\s*(.+)$', _text(root / 'proc/cpuinfo'), re.MULTILINE)
    return model[1].strip() if model else platform.machine() or UNKNOWN


def _threads(cores: int, environment: Mapping[str, str]) -> int:
    if 'torch' in sys.modules:
        return sys.modules['torch'].get_num_threads()
    if _asked:
        return _asked['threads']
    wanted = environment.get('OMP_NUM_THREADS', '').split(',')[0]
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else cores


def _allocator(environment: Mapping[str, str]) -> str:
    kept = all(environment.get(name) == value for name, value in _ALLOCATOR.items())
    return 'retaining' if kept else 'default'


def _power_mode(root: Path) -> str:
    """Jetson: nvpmodel's status file names a mode that its configuration explains. Elsewhere: the CPU's governor."""
    current = re.search(r'pmode:(\d+)', _text(root / 'var/lib/nvpmodel/status'))
    if current:
        names = {
            int(m['id']): m['name']
            for m in _POWER_MODEL.finditer(_text(root / 'etc/nvpmodel.conf'))
        }
        number = int(current[1])
        return names.get(number, f'mode {number}')
    governor = _text(root / 'sys/devices/system/cpu/cpu0/cpufreq/scaling_governor')
    return f'governor {governor}' if governor else UNKNOWN


def _clock_mhz(root: Path, kind: str) -> float:
    if kind == 'cpu':
        files = root.glob('sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_max_freq')
        return max((_number(file) / 1e3 for file in files), default=0.0)  # kHz
    gpus = (
        folder
        for folder in root.glob('sys/class/devfreq/*')
        if re.search(r'gpu|gv11b|ga10b|gp10b|gm20b', folder.name)
    )
    return max((_number(folder / 'max_freq') / 1e6 for folder in gpus), default=0.0)  # Hz


def _cpu_capability(root: Path, environment: Mapping[str, str]) -> str:
    """As `torch.backends.cpu.get_cpu_capability` says it, without loading PyTorch."""
    forced = environment.get('ATEN_CPU_CAPABILITY', '')
    if forced in ('default', 'avx2', 'avx512', 'sve256'):  # PyTorch ignores any other word
        return forced.upper()
    found = re.search(r'^(?:flags|Features)\s*:(.*)$', _text(root / 'proc/cpuinfo'), re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    if {'avx512vl', 'avx512bw', 'avx512dq', 'fma'} <= flags:
        return 'AVX512'
    if {'avx2', 'fma'} <= flags:
        return 'AVX2'
    return 'SVE' if 'sve' in flags else 'DEFAULT' if flags else UNKNOWN


def _torch_version() -> str:
    try:
        return importlib.metadata.version('torch')
    except importlib.metadata.PackageNotFoundError:
        return UNKNOWN
