"""Clock, temperature and power of a board's GPU as its kernel shows them: devfreq, thermal zones and hwmon.

A figure that a benchmark took while the GPU was throttled says nothing of the next. Every reading may be absent.
Needs neither torch nor NVML, so that a Jetson has them, too.
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path('/')
# JetPack 4 to 6 of Nano, Xavier and Orin boards: NUMBER.gpu, .ga10b, .gv11b, .gp10b.
_CLOCKS = ('sys/class/devfreq/*gpu*', 'sys/class/devfreq/*.g[avmp]1[01]b')
_ZONES = 'sys/class/thermal/thermal_zone*'
_GPU_ZONES = ('gpu-thermal', 'gpu-therm')  # in lower case
_METERS = 'sys/class/hwmon/hwmon*'
_METER = 'ina3221'
_CHANNELS = range(1, 4)
_MOST_CELSIUS, _MOST_WATTS, _MOST_MHZ = 200.0, 1000.0, 10_000.0


@dataclass(frozen=True)
class BoardState:
    """What a board's sensors say; None where there is none, or where it says something impossible.

    Attributes:
        gpu_clock_mhz, gpu_most_mhz: clock of the GPU now, and the highest that it may take.
        gpu_celsius: temperature of the GPU.
        watts: by the names of the board's rails, such as `VDD_IN` for all of it.
    """

    gpu_clock_mhz: float | None
    gpu_most_mhz: float | None
    gpu_celsius: float | None
    watts: dict[str, float]


def read_board(root: Path = ROOT) -> BoardState:
    """Reads what there is below `root`, which holds `sys`. Never raises."""
    clocks = next((folder for pattern in _CLOCKS for folder in sorted(root.glob(pattern))), None)
    clock, most = (None, None) if clocks is None else (
        _number(clocks / name, 1e-6, _MOST_MHZ) for name in ('cur_freq', 'max_freq'))
    zone = next((folder for folder in sorted(root.glob(_ZONES)) if _text(folder / 'type').lower() in _GPU_ZONES), None)
    celsius = None if zone is None else _number(zone / 'temp', 1e-3, _MOST_CELSIUS)
    return BoardState(clock, most, celsius, _rails(root))


def _rails(root: Path) -> dict[str, float]:
    """Power in W by rail: voltage times current, or as the meter has it."""
    watts = {}
    for folder in sorted(root.glob(_METERS)):
        if _text(folder / 'name') != _METER:
            continue
        for channel in _CHANNELS:
            volts = _number(folder / f'in{channel}_input', 1e-3, _MOST_WATTS)
            amperes = _number(folder / f'curr{channel}_input', 1e-3, _MOST_WATTS)
            label = _text(folder / f'in{channel}_label')
            if label and volts is not None and amperes is not None and volts * amperes <= _MOST_WATTS:
                watts[label] = round(volts * amperes, 3)
    return watts


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding='utf-8').strip()
    except (OSError, UnicodeDecodeError):
        return ''


def _number(file: Path, unit: float, most: float) -> float | None:
    try:
        value = float(_text(file)) * unit
    except ValueError:
        return None
    return value if 0.0 <= value <= most else None
