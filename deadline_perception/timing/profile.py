"""Measured segment and path times of one network on one device: how they are taken, kept, and checked."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from platformdirs import user_cache_path

from deadline_perception.core.decoding import Count, decode
from deadline_perception.core.device import (
    DEFAULT_THREADS,
    DeviceFacts,
    profile_command,
    read_device_facts,
)
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.measurement_plan import covering_paths, distinct_paths, interleave
from deadline_perception.core.process_memory import use_huge_pages
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.core.stopwatch import now_ms, synchronise
from deadline_perception.engines.segment_run import Network
from deadline_perception.timing.interference import Interference, WcetTable
from deadline_perception.timing.quantiles import Quantiles

FORMAT = 2
_MOST_PIXELS = 2**26  # of an image; a profile must not decide how much memory warming up takes
_LONGEST_NAME = 500  # of a device
WCET_FRAMES = 640  # whole frames, from which worst cases are believed: of 96 they were exceeded by 1.6 to 4.0 %
_DISTURBED = 3.0  # times the median: a path with a longer frame is timed again
_SERIES = 3  # of a path that is timed again, the first one among them
_SWEPT_BYTES = 1 << 26  # twice a large last cache
_LEAST_SAMPLES = 5  # of each segment, also when the time limit is too short for them


class ProfileMismatch(DeadlinePerceptionError):
    """A latency profile was measured for another network, device or setting than the one at hand."""


@dataclass(frozen=True)
class LatencyProfile:
    """How long the parts of one network take on one device, otherwise idle.

    Attributes:
        facts: the device and its settings while measuring.
        config_name: configuration of the network.
        network_hash: hash of the network's shape, on which times depend; weights of one shape share it.
        input_size: height and width in px that the network resizes images to.
        image_size: height and width in px of the images it was measured with.
        date: when, ISO 8601 in UTC.
        load_before: programs that wanted to run in the minute before (load average); near 0 on an idle machine.
        segments: durations by the names of `PathSpace.key`, each taken in the midst of whole frames; with a count of 0
            an estimate, of a segment that was not measured.
        paths: durations of whole frames by the path's name, of frames that the segments were not taken from.
        engine: identity of the engine that ran the segments.
        scaled_from: the device whose times these are, brought to this one (`transferred_profile.py`); empty where all
            were measured here.
        wcet: worst cases of the same segments, see `timing/wcet/segment_model.py`; None where they were not fitted.

    Raises:
        ValueError: a size is not positive or beyond reason, there is no segment, or the worst cases lack one.
    """

    facts: DeviceFacts
    config_name: str
    network_hash: str
    input_size: tuple[Count, Count]
    image_size: tuple[Count, Count]
    date: str
    load_before: float
    segments: dict[str, Quantiles]
    paths: dict[str, Quantiles]
    engine: str = 'eager'
    scaled_from: Annotated[str, Meta(max_length=_LONGEST_NAME)] = ''
    wcet: WcetTable | None = None

    def __post_init__(self) -> None:
        for name in ('input_size', 'image_size'):
            height, width = getattr(self, name)
            if not 0 < height * width <= _MOST_PIXELS:
                raise ValueError(
                    f'{name} is {(height, width)}, expected height and width in px, at most '
                    f'{_MOST_PIXELS} px together'
                )
        if not self.segments:
            raise ValueError('profile holds no segment, expected at least one')
        if self.wcet is not None and set(self.wcet.segments_ms) != set(self.segments):
            raise ValueError(
                f'{len(self.wcet.segments_ms)} segments have worst-case times, expected the '
                f'{len(self.segments)} that were measured'
            )

    def save(self, file: Path) -> None:
        """Writes the profile as JSON, one line per segment and path, in one step."""
        replace_file(file, self._text())

    @property
    def whole_frames(self) -> int:
        """Number of whole frames that were timed."""
        return sum(times.count for times in self.paths.values())

    @property
    def was_disturbed(self) -> bool:
        """More programs wanted to run than there are cores while it was measured."""
        return self.load_before > self.facts.cores

    @property
    def measured_keys(self) -> set[str]:
        """The segments whose times are no estimate; of scaled times, all."""
        return {key for key, times in self.segments.items() if times.count or self.scaled_from}

    @property
    def digest(self) -> str:
        """Identifies this measurement: all its values, its date among them."""
        return hashlib.sha256(self._text().encode()).hexdigest()[:16]

    def _text(self) -> str:
        head = {
            'format': FORMAT,
            **{
                name: getattr(self, name)
                for name in (
                    'config_name',
                    'network_hash',
                    'input_size',
                    'image_size',
                    'date',
                    'load_before',
                    'engine',
                )
            },
        }
        if self.scaled_from:
            head['scaled_from'] = self.scaled_from
        lines = [f'  {json.dumps(name)}: {json.dumps(value)}' for name, value in head.items()]
        lines.append(
            '  "facts": ' + json.dumps(asdict(self.facts), indent=4).replace('\n}', '\n  }')
        )
        for name in ('segments', 'paths'):
            rows = {key: asdict(value) for key, value in getattr(self, name).items()}
            lines.append(_table_text(name, rows))
        if self.wcet is not None:
            lines.append(_table_text('wcet_ms', self.wcet.segments_ms))
            pairs = zip(self.wcet.interference.windows_ms, self.wcet.interference.taken_ms)
            lines.append('  "interference_ms": ' + json.dumps([list(pair) for pair in pairs]))
        return '{\n' + ',\n'.join(lines) + '\n}\n'

    @classmethod
    def load(cls, file: Path) -> LatencyProfile:
        """Reads what `save` wrote.

        Raises:
            JsonFileError: the file is missing, unreadable, of another format, or holds an impossible value.
        """
        content = read_object(file, 'latency profile')
        command = profile_command('WEIGHTS', 'cpu', DEFAULT_THREADS)
        if content.pop('format', None) != FORMAT:
            raise JsonFileError(
                f'{file} is no latency profile of format {FORMAT}; measure one: {command}'
            )
        execution_ms = content.pop('wcet_ms', None)
        taken_ms = content.pop('interference_ms', [])
        try:
            if execution_ms is not None:
                pairs = decode(taken_ms, list[tuple[float, float]], 'interference_ms')
                content['wcet'] = WcetTable(
                    decode(execution_ms, dict[str, float], 'wcet_ms'),
                    Interference(*zip(*pairs)),
                )
            return decode(content, cls, 'profile')
        except ValueError as error:
            raise JsonFileError(
                f'latency profile {file} cannot be used: {error}; measure again: {command}'
            ) from error

    def mismatches(
        self, *, network_hash: str, facts: DeviceFacts, input_size: tuple[int, int], engine: str
    ) -> list[str]:
        """What differs, each as `NAME is X in the profile and Y here`; empty when the profile fits what is at hand."""
        measured = timing_key(self.network_hash, self.facts, self.input_size, self.engine)
        at_hand = timing_key(network_hash, facts, input_size, engine)
        return [
            f'{name} is {measured[name]!r} in the profile and {at_hand[name]!r} here'
            for name in measured
            if name in at_hand and measured[name] != at_hand[name]
        ]


def _table_text(name: str, table: Mapping[str, object]) -> str:
    rows = [f'    {json.dumps(key)}: {json.dumps(value)}' for key, value in table.items()]
    return f'  "{name}": {{' + (('\n' + ',\n'.join(rows) + '\n  ') if rows else '') + '}'


def timing_key(
    network_hash: str, facts: DeviceFacts, input_size: tuple[int, int], engine: str
) -> dict[str, str | int]:
    """All that execution times hold for, by the words that a message uses."""
    key: dict[str, Any] = {
        'network hash': network_hash,
        'input size': '{}x{}'.format(*input_size),
        'engine': engine,
        'PyTorch version': facts.torch_version,
        'device kind': facts.kind,
        'device': facts.name,
        # The GPUs of several Jetson boards are all called Orin.
        'number of multiprocessors': facts.multiprocessors,
        'CPU capability': facts.cpu_capability,
        'number of threads': facts.threads,
        'power mode': facts.power_mode,
        'memory allocator': facts.allocator,
    }
    if facts.threads > 1:  # a single thread waits for nobody
        key['OpenMP wait policy'] = facts.wait_policy
    return key


def default_profile_path(config_name: str, facts: DeviceFacts, folder: Path | None = None) -> Path:
    """Where the profile of a network on a device lies.

    Args:
        config_name, facts: of the network and the device.
        folder: where to look; by default the user's own, `$XDG_CACHE_HOME/deadline_perception/profiles`.
    """
    folder = folder or user_cache_path('deadline_perception') / 'profiles'
    return Path(folder) / f'{config_name}-{facts.slug}-t{facts.threads}.json'


def measure_profile(
    detector: Network,
    images: Sequence[np.ndarray],
    *,
    repeats: int = 50,
    whole_paths: int = 40,
    path_repeats: int = 16,
    time_limit_s: float = 120.0,
    seed: int = 0,
    among: Sequence[ExecutionPath] | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> LatencyProfile:
    """Times every segment in place, in whole frames over varied images and paths, and some paths as a whole.

    Segments timed alone are optimistic, so none is. Frames of both kinds are mixed evenly over the time, and a first
    round, which runs every segment once, is dropped: first calls allocate and choose kernels. A path with a frame of
    more than three times its median is timed again, see `undisturbed`. Each frame is waited for
    as a camera's, see `wait_for_frame`: weights come from memory and threads wake then, which takes a short path about
    the same ms as a long one. Blocks until done.

    Args:
        detector: the network; see `MultiPathDetector`.
        images: at least one uint8 `[height, width, 3]` image, all of one size.
        repeats: times that each segment is timed, >= 1.
        whole_paths: number of paths that are timed as a whole, the smallest and the largest among them, >= 2.
        path_repeats: times that each of those is timed, >= 1.
        time_limit_s: measuring stops after this time, but not before each segment was timed a few times.
        seed: decides the paths and their order.
        among: paths whose segments are measured, and no others are; None: all.
        progress: called after each frame with frames done, frames planned and seconds since the start.

    Raises:
        ValueError: no image, images of several sizes, or a count outside its range.
    """
    if not images or len({image.shape for image in images}) != 1:
        raise ValueError(
            f'images have the sizes {sorted({image.shape for image in images})}, expected one size'
        )
    load_before = os.getloadavg()[0]
    if whole_paths < 2 or path_repeats < 1:
        raise ValueError(
            f'whole_paths is {whole_paths} and path_repeats is {path_repeats}, '
            f'expected at least 2 and at least 1'
        )
    rng = random.Random(seed)
    space = detector.path_space
    measured = space if among is None else among
    warm_up = covering_paths(measured, 1, rng)
    held_out = distinct_paths(measured, whole_paths, rng)
    rounds = [path for _ in range(path_repeats) for path in rng.sample(held_out, len(held_out))]
    frames = [(None, path) for path in warm_up] + interleave(
        covering_paths(measured, repeats, rng), rounds
    )
    meant = {name for path in warm_up for name in space.keys(path)}
    segments: dict[str, list[float]] = {name: [] for name in space.carriers() if name in meant}
    paths: dict[str, list[float]] = {str(path): [] for path in held_out}

    def timed(path: ExecutionPath) -> tuple[float, list[float]]:
        wait_for_frame()
        return time_frame(detector, rng.choice(images), path)

    start_ms = now_ms()
    for number, (is_whole, path) in enumerate(frames, 1):
        total_ms, segments_ms = timed(path)
        if is_whole:
            paths[str(path)].append(total_ms)
        elif is_whole is not None:  # None marks a frame of the warm-up
            for segment, duration_ms in enumerate(segments_ms):
                name = space.key(segment, path)
                if name is not None:
                    segments[name].append(duration_ms)
        elapsed_s = (now_ms() - start_ms) / 1000.0
        if progress:
            progress(number, len(frames), elapsed_s)
        if number == len(warm_up):
            use_huge_pages()
        if (
            elapsed_s >= time_limit_s
            and _smallest(segments) >= min(repeats, _LEAST_SAMPLES)
            and _smallest(paths)
        ):
            break
    for path in held_out:
        first_ms = sorted(paths[str(path)])
        if first_ms[-1] > _DISTURBED * first_ms[(len(first_ms) - 1) // 2]:
            series = [first_ms] + [[timed(path)[0] for _ in first_ms] for _ in range(_SERIES - 1)]
            paths[str(path)] = undisturbed(series)
    by_median = sorted(paths, key=lambda name: np.median(paths[name]))
    return LatencyProfile(
        facts=read_device_facts(detector.device),
        config_name=detector.config_name,
        network_hash=detector.network_hash,
        input_size=detector.input_size,
        image_size=images[0].shape[:2],
        date=datetime.now(timezone.utc).isoformat(timespec='seconds'),
        load_before=round(load_before, 2),
        engine=detector.engine.identity,
        segments={name: Quantiles.from_samples(samples) for name, samples in segments.items()},
        paths={name: Quantiles.from_samples(paths[name]) for name in by_median},
    )


def undisturbed(series_ms: Sequence[Sequence[float]]) -> list[float]:
    """The times of one path by several series of as many frames, of each rank the median: what disturbed one series
    alone is gone, and what disturbs most of them stays.

    Args:
        series_ms: at least one, of equal lengths.
    """
    return np.median(np.sort(np.array(series_ms, np.float64), axis=1), axis=0).tolist()


def wait_for_frame() -> None:
    """Waits as between a camera's frames: caches hold other things, and cores and the network's other threads sleep,
    which wake as the frame begins. Takes some 40 ms."""
    np.frombuffer(mmap.mmap(-1, _SWEPT_BYTES), np.uint8).fill(
        1
    )  # what `malloc` gives may stay with the process
    time.sleep(0.02)


def time_frame(
    detector: Network, image: np.ndarray, path: ExecutionPath
) -> tuple[float, list[float]]:
    """Runs one frame on one path.

    Returns:
        The time in ms from before `start` to after the last segment, and the time in ms of each segment.
    """
    segments_ms = [0.0] * len(detector.path_space.segments)
    start_ms = now_ms()
    run = detector.start(image, path)
    while not run.finished:
        segment = run.segment
        segments_ms[segment] = run.run_segment()
    synchronise(detector.device)
    return now_ms() - start_ms, segments_ms


def _smallest(samples: dict[str, list[float]]) -> int:
    return min(len(durations) for durations in samples.values())
