"""A trace of contention that can be repeated: which units are at work when, from a file or from a seed."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.timing.contention.load import ContentionLoad, LoadError, check_units
from deadline_perception.timing.contention.unit import KINDS

SHAPES = ('steps', 'bursts', 'ramps', 'mixed')
LONGEST_S = 86_400.0
_HOLD_S = {'steps': (4.0, 8.0), 'bursts': (0.3, 1.5)}
_LONGEST_RAMP_S = 8.0


@dataclass(frozen=True)
class Step:
    """From a time on, so many units are at work.

    Attributes:
        at_s: seconds since the begin, >= 0.
        units: count by kind; what is not named is 0.

    Raises:
        ValueError: the time is out of range, a kind unknown or a count out of range.
    """

    at_s: float
    units: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.at_s <= LONGEST_S:
            raise ValueError(
                f'at_s of a step is {self.at_s}, expected seconds in [0, {LONGEST_S:.0f}]'
            )
        object.__setattr__(self, 'units', check_units(self.units))


@dataclass(frozen=True)
class Schedule:
    """Steps in the order of their times; before the first one no unit is at work.

    Raises:
        ValueError: there is no step, they are out of order, or the length ends before the last one.
    """

    steps: tuple[Step, ...]
    lasts_s: float

    def __post_init__(self) -> None:
        object.__setattr__(self, 'steps', tuple(self.steps))
        times_s = [step.at_s for step in self.steps]
        if not times_s or any(after <= before for before, after in zip(times_s, times_s[1:])):
            raise ValueError(
                f'steps of a schedule begin at {times_s} s, expected at least one, each after the one '
                f'before'
            )
        if not times_s[-1] < self.lasts_s <= LONGEST_S:
            raise ValueError(
                f'lasts_s of a schedule is {self.lasts_s}, expected more than its last step at '
                f'{times_s[-1]} s, and at most {LONGEST_S:.0f}'
            )

    @property
    def most(self) -> dict[str, int]:
        """Largest count of each kind."""
        return check_units(
            {kind: max(step.units.get(kind, 0) for step in self.steps) for kind in KINDS}
        )

    def each_once(self, hold_s: float) -> Schedule:
        """Its distinct steps, each once and for so long, those of fewer units first: so each lasts long enough to
        grade.

        Raises:
            ValueError: the time is not above 0, or too long for all of them.
        """
        distinct = {tuple(step.units.items()): step.units for step in self.steps}
        ordered = sorted(distinct.values(), key=lambda units: sum(units.values()))
        return Schedule(
            tuple(Step(at * hold_s, units) for at, units in enumerate(ordered)),
            len(ordered) * hold_s,
        )

    def save(self, file: Path) -> None:
        """Writes JSON that `load` reads."""
        steps = ',\n'.join(
            f'  {json.dumps({"at_s": step.at_s, **step.units})}' for step in self.steps
        )
        replace_file(file, f'{{"lasts_s": {self.lasts_s},\n "steps": [\n{steps}\n]}}\n')

    @classmethod
    def load(cls, file: Path) -> Schedule:
        """Reads a schedule: `{"lasts_s": 20, "steps": [{"at_s": 0}, {"at_s": 5, "core": 2, "memory": 1}]}`.

        Raises:
            JsonFileError: the file is missing, unreadable or holds something else.
        """
        content = read_object(file, 'contention schedule')
        try:
            steps = tuple(
                Step(row['at_s'], {name: count for name, count in row.items() if name != 'at_s'})
                for row in content['steps']
            )
            return cls(steps, float(content['lasts_s']))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise JsonFileError(
                f'contention schedule {file} cannot be used: {error}; expected "lasts_s" and "steps", '
                f'each with "at_s" and counts of {", ".join(KINDS)}'
            ) from error


def make_schedule(
    shape: str, *, most: Mapping[str, int], lasts_s: float, seed: int = 0
) -> Schedule:
    """A schedule that shape and seed decide; the same ones give the same.

    Args:
        shape: `steps` of 4 to 8 s each, `bursts` of 0.3 to 1.5 s between pauses as long, `ramps` up and down by one
            unit at a time, or `mixed`, one after the other.
        most: largest count of units by kind.
        lasts_s: length in s, > 0; steps are shortened so that at least five fit.
        seed: of the counts and lengths.

    Raises:
        ValueError: there is no unit, or the length out of range.
    """
    most = check_units(most)
    if not most or not 0.0 < lasts_s <= LONGEST_S:
        raise ValueError(
            f'a schedule has {most or "no"} units and lasts {lasts_s} s, expected at least one unit and '
            f'more than 0 s'
        )
    rng, steps, at_s = random.Random(f'{shape} {seed}'), [], 0.0
    while at_s < lasts_s:
        part = shape if shape != 'mixed' else rng.choice(SHAPES[:3])
        for hold_s, units in _PARTS[part](rng, most, min(1.0, lasts_s / 30.0)):
            if round(at_s, 3) < lasts_s and not (steps and steps[-1].units == check_units(units)):
                steps.append(Step(round(at_s, 3), units))
            at_s += max(hold_s, 0.01)
    return Schedule(tuple(steps), lasts_s)


def read_schedule(
    shape_or_file: str, seed: int, lasts_s: float, most: Mapping[str, int]
) -> Schedule:
    """The schedule of a file, or one of a shape, of at most so many units of each kind.

    Raises:
        JsonFileError: the file cannot be used.
        ValueError: a number is out of range.
    """
    if shape_or_file not in SHAPES:
        return Schedule.load(Path(shape_or_file))
    return make_schedule(shape_or_file, most=most, lasts_s=lasts_s, seed=seed)


def _steps(
    rng: random.Random, most: dict[str, int], pace: float
) -> Iterator[tuple[float, dict[str, int]]]:
    yield pace * rng.uniform(*_HOLD_S['steps']), {}
    counts = rng.sample(range(1, max(most.values()) + 1), max(most.values()))
    for count in counts:
        yield (
            pace * rng.uniform(*_HOLD_S['steps']),
            {kind: min(count, limit) for kind, limit in most.items()},
        )


def _bursts(
    rng: random.Random, most: dict[str, int], pace: float
) -> Iterator[tuple[float, dict[str, int]]]:
    for _ in range(4):
        yield pace * rng.uniform(*_HOLD_S['bursts']), {}
        yield (
            pace * rng.uniform(*_HOLD_S['bursts']),
            {kind: rng.randint(1, limit) for kind, limit in most.items()},
        )


def _ramps(
    rng: random.Random, most: dict[str, int], pace: float
) -> Iterator[tuple[float, dict[str, int]]]:
    top = max(most.values())
    hold_s = pace * rng.uniform(0.5, 1.0) * _LONGEST_RAMP_S / top
    for count in [*range(top + 1), *range(top - 1, -1, -1)]:
        yield hold_s, {kind: min(count, limit) for kind, limit in most.items()}


_PARTS = {'steps': _steps, 'bursts': _bursts, 'ramps': _ramps}


@contextmanager
def play(
    schedule: Schedule,
    *,
    repeats: bool = False,
    failed: Callable[[LoadError], None] = lambda error: None,
    cores: Collection[int] = (),
) -> Iterator[ContentionLoad]:
    """Meanwhile the units of a schedule are at work, from a thread beside; all end with the block.

    Args:
        schedule: which units when, from the begin of the block.
        repeats: begin again at its end; else no unit is at work then.
        failed: is told when a unit ended by itself; the schedule is then over.
        cores: that the units keep to; wherever they may run where it is empty.

    Raises:
        LoadError: a unit cannot be started.
    """
    ended = threading.Event()
    with ContentionLoad(schedule.most, cores=cores) as load:

        def follow() -> None:
            begun_s = time.monotonic()
            try:
                while True:
                    for at_s, units in [
                        *((step.at_s, step.units) for step in schedule.steps),
                        (schedule.lasts_s, {}),
                    ]:
                        if ended.wait(max(0.0, begun_s + at_s - time.monotonic())):
                            return
                        load.set(units)
                    if not repeats:
                        return
                    begun_s += schedule.lasts_s
            except LoadError as error:
                failed(error)

        player = threading.Thread(target=follow, name='contention', daemon=True)
        player.start()
        try:
            yield load
        finally:
            ended.set()
            player.join()
