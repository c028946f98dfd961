"""Speeds as tables, BDD100K and Cityscapes record them, and sequences with the speeds of a trace."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from deadline_perception.core.errors import printable
from deadline_perception.core.untrusted_file import MIB, FileRefused, read_text
from deadline_perception.extras.data.annotation_file import expected_format, read_json
from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.data.speed_trace import SpeedTrace, trace_of

CITYSCAPES_RATE_HZ = 17.0
CITYSCAPES_SUFFIX = '_vehicle.json'
_MOST_BYTES = 64 * MIB  # of a table of speeds, some days of them
_COLUMNS = {'stamp_s', 'speed_mps'}


class NoValidSpeedError(ValueError):
    """A speed sensor's file in the right format in which no entry is valid."""


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
    return (read_cityscapes if of_cityscapes else read_bdd100k_trace)(source)


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


def read_bdd100k_trace(file: Path) -> SpeedTrace:
    """Reads a BDD100K info file; stamps count from its `startTime`, invalid (negative) speeds are dropped.

    Raises:
        NoValidSpeedError: every speed is negative, or there is none.
        ValueError: neither `locations` nor `gps` holds a speed.
    """
    content = read_json(file)
    content = content if isinstance(content, dict) else {}
    entries = content.get('locations') or content.get('gps')
    if not isinstance(entries, list):
        raise ValueError(f'{file} has no list "locations" or "gps", expected a BDD100K info file')
    if not entries:
        raise NoValidSpeedError(
            f'{file} has empty lists of positions, expected at least one with a speed'
        )
    with expected_format(file, 'BDD100K info, each entry with a speed and a timestamp'):
        start_ms = float(content.get('startTime', entries[0]['timestamp']))
        pairs = {
            (float(entry['timestamp']) - start_ms) / 1e3: float(entry['speed']) for entry in entries
        }
    valid = sorted((stamp, speed) for stamp, speed in pairs.items() if speed >= 0)
    if not valid:
        raise NoValidSpeedError(
            f'{file} marks all of its {len(entries)} speeds as invalid, expected at least one'
        )
    return trace_of(file, valid)


def read_cityscapes_speed(file: Path) -> float:
    """Speed of one Cityscapes vehicle file, m/s; reversing counts as its magnitude.

    Raises:
        ValueError: the file holds no speed.
    """
    content = read_json(file)
    speed = content.get('speed') if isinstance(content, dict) else None
    with expected_format(file, 'a Cityscapes vehicle file'):
        if not isinstance(speed, (int, float)) or not math.isfinite(speed):
            raise ValueError(f'{file} has the speed {speed!r}, expected a number in m/s')
    return abs(float(speed))


def read_cityscapes(source: Path) -> SpeedTrace:
    """Reads the `*_vehicle.json` files of a folder, or one of them, in the order of their names."""
    files = [source] if source.is_file() else sorted(source.glob(f'*{CITYSCAPES_SUFFIX}'))
    if not files:
        raise ValueError(
            f'{source} holds no *{CITYSCAPES_SUFFIX} file, expected those of Cityscapes'
        )
    stamps = snippet_stamps_s([file.name[: -len(CITYSCAPES_SUFFIX)] for file in files])
    return trace_of(
        source, [(stamp, read_cityscapes_speed(file)) for stamp, file in zip(stamps, files)]
    )


def snippet_stamps_s(stems: list[str]) -> list[float]:
    """Stamps of Cityscapes frames named `{city}_{seq:06}_{frame:06}`, sorted, from 0.

    Frames whose numbers differ by less than 30 belong to one snippet; the next begins a second later.

    Raises:
        ValueError: a name is not of that form.
    """
    stamps: list[float] = []
    before: tuple[str, int] | None = None
    for stem in stems:
        drive, _, number = stem.rpartition('_')
        if not number.isdecimal() or '_' not in drive:
            raise ValueError(f'frame is called {stem!r}, expected city_000000_000000')
        frame = int(number)
        if before is None:
            stamps.append(0.0)
        elif before[0] == drive and 0 < frame - before[1] < 30:
            stamps.append(stamps[-1] + (frame - before[1]) / CITYSCAPES_RATE_HZ)
        else:
            stamps.append(stamps[-1] + 1.0)
        before = (drive, frame)
    return stamps


def with_speeds_of_trace(sequence: Sequence, trace: SpeedTrace) -> Sequence:
    """The sequence with speeds of a trace, the first frame at the trace's first stamp; None beyond its end."""
    start_ns, first_s = sequence.frames[0].stamp_ns, trace.stamps_s[0]
    return replace(
        sequence,
        frames=tuple(
            replace(frame, speed_mps=trace.speed_mps(first_s + (frame.stamp_ns - start_ns) / 1e9))
            for frame in sequence.frames
        ),
    )
