"""The file that says which tasks share a machine: read, checked, and turned into requests. Free of ROS."""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

import yaml

from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.nested.quality import Approach

_MOST_BYTES = 2**20


class TaskFileError(DeadlinePerceptionError):
    """A file of tasks that cannot be used, and why."""


@dataclass(frozen=True)
class TaskRequest:
    """One task as its user describes it.

    Attributes:
        name: of the task, a word of letters, digits and underscores.
        model: weights file, name of a shipped model, or `package.module:callable`.
        periods_ms: allowed times between two jobs, each > 0.
        image_topic: of the camera.
        crops_of: name of a detector's task whose most important object this one looks at, in the place of whole images.
        levels: at most so many levels, spread over the network's best paths; or the names of paths, cheapest first.
        quality: table of path qualities or of accuracies; empty: the one beside the weights, or longer is better.
        profile: latency profile; empty: this device's own.
        device: `cpu`, `cuda` or `cuda:INDEX`; tasks of one device share one executor.
        weight: of the task's quality in the sum, > 0.
        distance_m: while the vehicle comes nearer by so much, an object must be found (detectors), or from so far on it
            is looked at (classifiers); > 0.
        size_px_m: width in px of a classifier's object at 1 m.

    Raises:
        ValueError: a value lies outside its range.
    """

    name: str
    model: str
    periods_ms: tuple[float, ...]
    image_topic: str = ''
    crops_of: str = ''
    levels: int | tuple[str, ...] = 10
    quality: str = ''
    profile: str = ''
    device: str = 'cpu'
    weight: float = 1.0
    distance_m: float = 5.0
    size_px_m: float = Approach.size_px_m

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f'name is {self.name!r}, expected a word of letters, digits and underscores')
        if not self.periods_ms or not all(0.0 < period_ms < math.inf for period_ms in self.periods_ms):
            raise ValueError(f'periods_ms is {list(self.periods_ms)}, expected at least one finite time above 0 ms')
        if (self.levels < 1) if isinstance(self.levels, int) else not self.levels:
            raise ValueError(f'levels is {self.levels}, expected a number of at least 1, or names of paths')
        for name in ('weight', 'distance_m', 'size_px_m'):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f'{name} is {getattr(self, name)}, expected a finite number above 0')


def read_tasks(file: Path) -> tuple[TaskRequest, ...]:
    """Reads a file that holds `tasks:`, and below it for each task its name and what `TaskRequest` says.

    Raises:
        TaskFileError: it cannot be read, holds no task, or one of them cannot be used.
    """
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ValueError(f'it has {file.stat().st_size} bytes, expected at most {_MOST_BYTES}')
        content = yaml.safe_load(file.read_text(encoding='utf-8'))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise TaskFileError(f'task file {file} cannot be read: {error}') from error
    tasks = content.get('tasks') if isinstance(content, Mapping) else None
    if not isinstance(tasks, Mapping) or not tasks:
        raise TaskFileError(f'task file {file} holds no task, expected `tasks:` and below it a name and its settings '
                            f'for each task')
    requests = tuple(_request(file, name, settings) for name, settings in tasks.items())
    for request in requests:
        if request.crops_of and request.crops_of not in {other.name for other in requests if not other.crops_of}:
            raise TaskFileError(f'crops_of of task {request.name} of {file} is {request.crops_of!r}, expected the name '
                                f'of another task that takes whole images')
    return requests


def _request(file: Path, name: object, settings: object) -> TaskRequest:
    known = {field.name: field for field in fields(TaskRequest) if field.name != 'name'}
    if not isinstance(name, str) or not isinstance(settings, Mapping):
        raise TaskFileError(f'task {name!r} of {file} has the settings {settings!r}, expected names and values')
    foreign = [key for key in settings if key not in known]
    missing = [key for key, field in known.items() if field.default is MISSING and key not in settings]
    if foreign or missing:
        raise TaskFileError(f'task {name} of {file} has {", ".join(map(str, foreign)) or "nothing"} beyond, and lacks '
                            f'{", ".join(missing) or "nothing"} of {", ".join(known)}')
    try:
        return TaskRequest(name=name, **{key: _converted(key, value) for key, value in settings.items()})
    except (TypeError, ValueError) as error:
        raise TaskFileError(f'task {name} of {file} cannot be used: {error}') from error


def _converted(key: str, value: object) -> object:
    """A value of YAML as the request takes it; files are relative to the working folder, as everywhere."""
    if key in ('weight', 'distance_m', 'size_px_m'):
        return _number(key, value)
    if key == 'periods_ms':
        if not isinstance(value, list):
            raise ValueError(f'periods_ms is {value!r}, expected a list of times')
        return tuple(_number(key, period_ms) for period_ms in value)
    if key == 'levels':
        if isinstance(value, list) and all(isinstance(level, str) for level in value):
            return tuple(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise ValueError(f'levels is {value!r}, expected a number, or a list of names of paths')
    if not isinstance(value, str):
        raise ValueError(f'{key} is {value!r}, expected a text')
    return value


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f'{key} is {value!r}, expected a number')
    return float(value)
