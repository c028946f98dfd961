"""The speed of a vehicle over time, as data sets record it."""

from __future__ import annotations

import bisect
import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deadline_perception.core.errors import printable
from deadline_perception.core.named import named
from deadline_perception.core.untrusted_file import MIB, FileRefused, read_text

_OF_DATA_SETS = (
    'deadline_perception.extras.data.recorded_speed'  # by name: the suite imports no extra
)
_MOST_BYTES = 64 * MIB  # of a table of speeds, some days of them
_COLUMNS = {'stamp_s', 'speed_mps'}
CITYSCAPES_SUFFIX = '_vehicle.json'


@dataclass(frozen=True)
class SpeedTrace:
    """Speeds at known times, straight lines between them.

    Attributes:
        stamps_s: strictly ascending, at least one; the epoch is the trace's own.
        speeds_mps: one per stamp, finite and not negative.

    Raises:
        ValueError: no entry, stamps out of order, or a speed that is not one.
    """

    stamps_s: tuple[float, ...]
    speeds_mps: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.stamps_s) != len(self.speeds_mps) or not self.stamps_s:
            raise ValueError(
                f'speed trace has {len(self.stamps_s)} stamps and {len(self.speeds_mps)} speeds, expected '
                f'as many and at least one'
            )
        for before, after in zip(self.stamps_s, self.stamps_s[1:]):
            if not after > before:
                raise ValueError(
                    f'stamp {after} s of the speed trace follows {before} s, expected a later one'
                )
        for stamp, speed in zip(self.stamps_s, self.speeds_mps):
            if not (math.isfinite(stamp) and math.isfinite(speed) and speed >= 0):
                raise ValueError(
                    f'speed at {stamp} s is {speed} m/s, expected a finite value of at least 0'
                )

    def speed_mps(self, stamp_s: float, reach_s: float = 1.0) -> float | None:
        """Speed at a time; None more than `reach_s` before the first or after the last stamp."""
        if not self.stamps_s[0] - reach_s <= stamp_s <= self.stamps_s[-1] + reach_s:
            return None
        after = bisect.bisect_left(self.stamps_s, stamp_s)
        if after == 0 or after == len(self.stamps_s):
            return self.speeds_mps[min(after, len(self.speeds_mps) - 1)]
        share = (stamp_s - self.stamps_s[after - 1]) / (
            self.stamps_s[after] - self.stamps_s[after - 1]
        )
        return self.speeds_mps[after - 1] * (1 - share) + self.speeds_mps[after] * share


def read_speed_trace(source: Path) -> SpeedTrace:
    """Reads a trace, its format known by its name and content.

    Args:
        source: a CSV file `stamp_s,speed_mps`, a BDD100K `info` JSON file, a Cityscapes `vehicle` JSON file, or a
            folder of those.

    Raises:
        FileNotFoundError: there is no such file or folder.
        ValueError: it holds no speed trace.
    """
    source = Path(source)
    if not source.exists():
        raise FileNotFoundError(
            f'speed trace {source} does not exist, expected a CSV file, a BDD100K info JSON file, '
            f'or a folder of Cityscapes vehicle JSON files'
        )
    of_cityscapes = source.is_dir() or source.name.endswith(CITYSCAPES_SUFFIX)
    if not of_cityscapes and source.suffix.lower() != '.json':
        return _read_csv(source)
    name = 'read_cityscapes' if of_cityscapes else 'read_bdd100k_trace'
    return named(f'{_OF_DATA_SETS}:{name}')(source)


def _read_csv(file: Path) -> SpeedTrace:
    """Reads `stamp_s,speed_mps`, a header line first; further columns are ignored."""
    try:
        rows = csv.DictReader(io.StringIO(read_text(file, _MOST_BYTES), newline=''))
        columns = rows.fieldnames
        pairs = list(map(_pair, rows)) if columns and _COLUMNS <= set(columns) else []
    except (OSError, csv.Error, FileRefused) as error:
        raise ValueError(f'{file} is not in the form of CSV: {printable(error)}') from error
    except ValueError as error:
        raise ValueError(
            f'{file} line {rows.line_num} holds {printable(error)}, expected two numbers'
        ) from error
    if columns is None or not _COLUMNS <= set(columns):
        raise ValueError(
            f'{file} has the columns {printable(columns)}, expected stamp_s and speed_mps'
        )
    return trace_of(file, pairs)


def _pair(row: Mapping[str, str]) -> tuple[float, float]:
    try:
        return float(row['stamp_s']), float(row['speed_mps'])
    except (TypeError, ValueError):
        raise ValueError(f'{row["stamp_s"]!r} and {row["speed_mps"]!r}') from None


def trace_of(source: Path, pairs: list[tuple[float, float]]) -> SpeedTrace:
    """The trace of stamps and speeds that a file holds.

    Raises:
        ValueError: they are none; names the file.
    """
    try:
        return SpeedTrace(tuple(stamp for stamp, _ in pairs), tuple(speed for _, speed in pairs))
    except ValueError as error:
        raise ValueError(f'{source}: {error}') from error
