"""Speeds as BDD100K and Cityscapes record them, and sequences with the speeds of a trace."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from deadline_perception.core.records import Sequence
from deadline_perception.core.speed_trace import CITYSCAPES_SUFFIX, SpeedTrace, trace_of
from deadline_perception.extras.data.annotation_file import expected_format, read_json

CITYSCAPES_RATE_HZ = 17.0


class NoValidSpeedError(ValueError):
    """A speed sensor's file in the right format in which no entry is valid."""


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
