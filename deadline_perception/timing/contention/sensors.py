"""What the machine's own sensors say about its load; the only hardware reads of the package.

Every sensor may be absent, and some lie (NVML on a Jetson initialises and then reports zeros). A reading is believed
only when it is possible; the rest is NaN, and why is said in words. Nothing here raises, or blocks but to watch.
"""

from __future__ import annotations

import errno
import importlib
import math
import types
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Reading = TypeVar('Reading')
ROOT = Path('/')
# Where Jetson boards of the several JetPack versions show the GPU's load, 0 to 1000; the first that exists is read.
JETSON_GPU_LOADS = (
    'sys/devices/platform/gpu.0/load',
    'sys/devices/gpu.0/load',
    'sys/devices/17000000.*/load',
    'sys/devices/platform/17000000.*/load',
    'sys/devices/platform/bus@0/17000000.*/load',
    'sys/devices/57000000.gpu/load',
    'sys/class/devfreq/*gpu*/device/load',
    'sys/class/devfreq/*.g[avmp]1[01]b/device/load',
)
_JETSON_LOAD_FULL = 1000.0


class SensorFault(Exception):
    """A sensor that is present gave nothing that can be believed."""


class SensorAbsent(Exception):
    """This machine has no such sensor."""


@dataclass(frozen=True)
class CpuTimes:
    """Time that all cores together have spent since boot, in clock ticks."""

    busy: int
    total: int


@dataclass(frozen=True)
class Readings:
    """One look at all sensors. What could not be read is NaN.

    Attributes:
        cpu_utilisation: busy share of all cores since the look before, in [0, 1].
        cpu_pressure: share of the last 10 s in which some task waited for a core, in [0, 1].
        memory_pressure: the same for memory.
        gpu_utilisation: busy share of the GPU, in [0, 1].
        gpu_memory_used: used share of the GPU's memory, in [0, 1].
        sources: sensors that gave these readings: `proc_stat`, `pressure`, `jetson_gpu`, `nvml`.
        faults: sensors that failed or lied, and how.
        cpu_times: for the next look; None when it could not be read.
    """

    cpu_utilisation: float = math.nan
    cpu_pressure: float = math.nan
    memory_pressure: float = math.nan
    gpu_utilisation: float = math.nan
    gpu_memory_used: float = math.nan
    sources: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    cpu_times: CpuTimes | None = None

    @property
    def reason(self) -> str:
        """Why they are degraded, as a sensor that is present failed or lied; empty otherwise."""
        return '; '.join(self.faults)


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding='utf-8')
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SensorAbsent(f'no {file}') from error
    except UnicodeDecodeError as error:
        raise SensorFault(f'{file} holds no text') from error
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENODEV):
            raise SensorAbsent(f'{file} is switched off: {error.strerror}') from error
        raise SensorFault(f'{file} cannot be read: {error.strerror}') from error


def read_cpu_times(root: Path = ROOT) -> CpuTimes:
    """Core times from `proc/stat`. Waiting for a disk counts as idle, time stolen by a hypervisor as busy.

    Raises:
        SensorAbsent: there is no such file.
        SensorFault: it holds something else.
    """
    file = root / 'proc/stat'
    fields = (_read_text(file).splitlines() or [''])[0].split()
    # user nice system idle iowait irq softirq steal; guest times that may follow are part of user and nice.
    if len(fields) < 5 or fields[0] != 'cpu' or not all(field.isdecimal() for field in fields[1:]):
        raise SensorFault(
            f'{file} begins with {" ".join(fields)[:60]!r}, expected "cpu" and at least 4 counts'
        )
    ticks = [int(field) for field in fields[1:9]]
    return CpuTimes(busy=sum(ticks) - sum(ticks[3:5]), total=sum(ticks))


def cpu_utilisation(before: CpuTimes, after: CpuTimes) -> float:
    """Busy share of all cores between two looks, in [0, 1]; NaN when no time has passed.

    Raises:
        SensorFault: the counters went back.
    """
    busy = after.busy - before.busy
    total = after.total - before.total
    if total < 0 or busy < 0:
        raise SensorFault(f'core times in proc/stat went back by {-min(busy, total)} ticks')
    return min(1.0, busy / total) if total else math.nan


def read_pressure(resource: str, root: Path = ROOT) -> float:
    """Share of the last 10 s in which some task waited for `cpu` or `memory`, in [0, 1] (pressure stall information).

    Raises:
        SensorAbsent: the kernel does not give it.
        SensorFault: it gives something else.
    """
    file = root / 'proc/pressure' / resource
    for line in _read_text(file).splitlines():
        kind, *fields = line.split() or ['']
        values = dict(field.partition('=')[::2] for field in fields)
        if kind == 'some' and 'avg10' in values:
            return _number(values['avg10'], 100.0, f'avg10 in {file}') / 100.0
    raise SensorFault(f'{file} has no line "some avg10=..."')


def _number(text: str, largest: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise SensorFault(
            f'{what} is {text[:40]!r}, expected a number in [0, {largest:g}]'
        ) from error
    if not 0.0 <= value <= largest:
        raise SensorFault(f'{what} is {value:g}, expected a number in [0, {largest:g}]')
    return value


def find_jetson_gpu(root: Path = ROOT, files: Sequence[str] = JETSON_GPU_LOADS) -> Path | None:
    """The file that shows the load of this board's GPU; None where there is none.

    Looking for it takes longer than reading all other sensors.

    Args:
        root: folder that holds `sys`.
        files: where the load may lie, below the root, with * and ?; the first that exists is meant.
    """
    return next((file for pattern in files for file in sorted(root.glob(pattern))), None)


def read_jetson_gpu(file: Path | None) -> float:
    """Busy share of a Jetson's GPU, in [0, 1].

    Args:
        file: as found.

    Raises:
        SensorAbsent: there is no file.
        SensorFault: it holds something else.
    """
    if file is None:
        raise SensorAbsent('no Jetson GPU load in sysfs')
    return _number(_read_text(file).strip(), _JETSON_LOAD_FULL, str(file)) / _JETSON_LOAD_FULL


class Nvml:
    """One NVIDIA GPU through NVML; its readings are checked before they are believed.

    Where memory is not supported, as on boards whose GPU shares the system's, an idle GPU is believed only once a busy
    one was seen: an NVML that can read nothing says 0 as well.

    Args:
        library: the module `pynvml`, or what behaves like it.
        index: number of the GPU.

    Raises:
        SensorAbsent: there is no driver or no such GPU.
    """

    def __init__(self, library: types.ModuleType, index: int = 0) -> None:
        self._library = library
        self._was_busy = False
        try:
            library.nvmlInit()
            self._device = library.nvmlDeviceGetHandleByIndex(index)
        except library.NVMLError as error:
            raise SensorAbsent(f'NVML: {error}') from error

    def read(self) -> tuple[float, float]:
        """Busy share of the GPU and used share of its memory, in [0, 1]; the latter is NaN where unsupported.

        Raises:
            SensorFault: a reading failed or is impossible.
        """
        memory = None
        why_not = ''
        try:
            busy_percent = self._library.nvmlDeviceGetUtilizationRates(self._device).gpu
        except self._library.NVMLError as error:
            raise SensorFault(f'NVML utilisation: {error}') from error
        try:
            memory = self._library.nvmlDeviceGetMemoryInfo(self._device)
        except self._library.NVMLError as error:
            why_not = str(error)
        busy = _number(str(busy_percent), 100.0, 'NVML utilisation in percent') / 100.0
        self._was_busy = self._was_busy or busy > 0.0
        if memory is None:
            if not self._was_busy:
                raise SensorFault(
                    f'NVML utilisation is 0 and memory gives {why_not!r}: not believed'
                )
            return busy, math.nan
        if not (memory.total > 0 and 0 <= memory.used <= memory.total):
            raise SensorFault(
                f'NVML memory is {memory.used} of {memory.total} bytes used: not believed'
            )
        return busy, memory.used / memory.total


def open_nvml(index: int = 0) -> Nvml:
    """Opens a GPU through the optional module `pynvml`.

    Raises:
        SensorAbsent: the module, the driver or the GPU is missing.
    """
    try:
        library = importlib.import_module('pynvml')
    except ImportError as error:
        raise SensorAbsent('Python module pynvml is not installed') from error
    return Nvml(library, index)


def read_contention(
    root: Path = ROOT,
    before: CpuTimes | None = None,
    nvml: Nvml | None = None,
    *,
    gpu_file: Path | None = None,
    expected: Collection[str] = (),
) -> Readings:
    """Looks at every sensor once. Never raises.

    Args:
        root: folder that holds `proc` and `sys`.
        before: core times of the look before; without them `cpu_utilisation` is NaN.
        nvml: from `open_nvml`; asked only where there is no Jetson GPU.
        gpu_file: where a Jetson's GPU shows its load, see `find_jetson_gpu`.
        expected: sources of looks before: one of them that is absent now has died, which is a fault.
    """
    look = _Look(expected)
    times: CpuTimes | None = look.take('proc_stat', lambda: read_cpu_times(root), None)
    busy = math.nan
    if times is not None and before is not None:
        busy = look.take('proc_stat', lambda: cpu_utilisation(before, times), math.nan)
    cpu_pressure = look.take('pressure', lambda: read_pressure('cpu', root), math.nan)
    memory_pressure = look.take('pressure', lambda: read_pressure('memory', root), math.nan)
    gpu = (look.take('jetson_gpu', lambda: read_jetson_gpu(gpu_file), math.nan), math.nan)
    if nvml is not None and math.isnan(gpu[0]):
        gpu = look.take('nvml', nvml.read, gpu)
    return Readings(
        busy,
        cpu_pressure,
        memory_pressure,
        *gpu,
        tuple(look.sources),
        tuple(look.faults),
        times,
    )


class _Look:
    """Takes readings one after the other and keeps account of what came of each."""

    def __init__(self, expected: Collection[str]) -> None:
        self._expected = expected
        self.sources: list[str] = []
        self.faults: list[str] = []

    def take(self, source: str, read: Callable[[], Reading], otherwise: Reading) -> Reading:
        try:
            value = read()
        except SensorAbsent as error:
            if source in self._expected:
                self.faults.append(f'{source}: was there before: {error}')
        except SensorFault as error:
            self.faults.append(f'{source}: {error}')
        else:
            if source not in self.sources:
                self.sources.append(source)
            return value
        return otherwise
