"""The speed of a vehicle over time, as data sets record it."""

from __future__ import annotations

import bisect
import csv
import io
import math
from dataclasses import dataclass, replace
from pathlib import Path

from deadline_perception.core.annotation_file import expected_format, read_json
from deadline_perception.core.records import Sequence
from deadline_perception.core.untrusted_file import MIB, read_text

CITYSCAPES_RATE_HZ = 17.0
_MOST_BYTES = 64 * MIB  # of a table of speeds, some days of them
CITYSCAPES_SUFFIX = '_vehicle.json'


class NoValidSpeedError(ValueError):
    """A speed sensor's file in the right format in which no entry is valid."""


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
    if source.is_dir() or source.name.endswith(CITYSCAPES_SUFFIX):
        return _read_cityscapes(source)
    if source.suffix.lower() == '.json':
        return read_bdd100k_trace(source)
    return _read_csv(source)


def _read_csv(file: Path) -> SpeedTrace:
    """Reads `stamp_s,speed_mps`, a header line first; further columns are ignored."""
    pairs = []
    with expected_format(file, 'CSV'):
        text = read_text(file, _MOST_BYTES).removeprefix(
            '\ufeff'
        )  # which spreadsheets put before UTF-8
        rows = csv.DictReader(io.StringIO(text, newline=''))
        columns = rows.fieldnames
        if columns is None or not {'stamp_s', 'speed_mps'} <= set(columns):
            raise ValueError(f'{file} has the columns {columns}, expected stamp_s and speed_mps')
        for row in rows:
            try:
                pairs.append((float(row['stamp_s']), float(row['speed_mps'])))
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f'{file} line {rows.line_num} holds {row["stamp_s"]!r} and {row["speed_mps"]!r}, '
                    f'expected two numbers'
                ) from error
    return _trace(file, pairs)


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
    return _trace(file, valid)


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


def _read_cityscapes(source: Path) -> SpeedTrace:
    """Reads the `*_vehicle.json` files of a folder, or one of them, in the order of their names."""
    files = [source] if source.is_file() else sorted(source.glob(f'*{CITYSCAPES_SUFFIX}'))
    if not files:
        raise ValueError(
            f'{source} holds no *{CITYSCAPES_SUFFIX} file, expected those of Cityscapes'
        )
    stamps = snippet_stamps_s([file.name[: -len(CITYSCAPES_SUFFIX)] for file in files])
    return _trace(
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


def _trace(source: Path, pairs: list[tuple[float, float]]) -> SpeedTrace:
    try:
        return SpeedTrace(tuple(stamp for stamp, _ in pairs), tuple(speed for _, speed in pairs))
    except ValueError as error:
        raise ValueError(f'{source}: {error}') from error
