"""The file that says which tasks share a machine: read, checked, and turned into requests. Free of ROS."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadline_perception.core.decoding import decode
from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.extras.plain_yaml import read_yaml
from deadline_perception.extras.several_networks.scheduling.quality import Approach

_MOST_TASKS, _MOST_PERIODS, _MOST_LEVELS = 64, 256, 1000
_MOST_PERIOD_MS = 60_000.0  # of what follows a moving vehicle
_LEAST_PERIOD_MS = 0.1
_LONGEST_NAME, _LONGEST_TOPIC = 64, 200  # characters
_WORD = re.compile(r'[A-Za-z][A-Za-z0-9_]*')  # a part of a topic's name in ROS
_TOPIC = re.compile(r'(~/|/)?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*')
_TAKEN = ('schedule', 'jobs')  # topics beside those of the tasks


class TaskFileError(DeadlinePerceptionError):
    """A file of tasks that cannot be used, and why."""


@dataclass(frozen=True)
class TaskRequest:
    """One task as its user describes it.

    Attributes:
        name: of the task, a word of letters, digits and underscores.
        model: weights file, name of a shipped model, or `package.module:callable`.
        periods_ms: allowed times between two jobs, each from 0.1 to 60,000.
        image_topic: of the camera.
        crops_of: name of a detector's task whose most important object this one looks at, in the place of whole images.
        deadline_ms: from the release of a job to its deadline, at least 0.1; the period where that is shorter.
        levels: at most so many levels, evenly spaced over the network's best paths; or the names of paths, cheapest first.
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
    deadline_ms: float = math.inf
    levels: int | tuple[str, ...] = 10
    quality: str = ''
    profile: str = ''
    device: str = 'cpu'
    weight: float = 1.0
    distance_m: float = 5.0
    size_px_m: float = Approach.size_px_m

    def __post_init__(self) -> None:
        if not _WORD.fullmatch(self.name) or self.name in _TAKEN or len(self.name) > _LONGEST_NAME:
            raise ValueError(
                f'name is {_told(self.name)}, expected a word of letters, digits and underscores, which '
                f'begins with a letter, other than {" and ".join(_TAKEN)}'
            )
        if self.image_topic and not (
            _TOPIC.fullmatch(self.image_topic) and len(self.image_topic) <= _LONGEST_TOPIC
        ):
            raise ValueError(
                f'image_topic is {_told(self.image_topic)}, expected the name of a ROS topic'
            )
        if not 0 < len(self.periods_ms) <= _MOST_PERIODS or not all(
            _LEAST_PERIOD_MS <= period_ms <= _MOST_PERIOD_MS for period_ms in self.periods_ms
        ):
            raise ValueError(
                f'periods_ms is {_told(list(self.periods_ms))}, expected 1 to {_MOST_PERIODS} times from '
                f'{_LEAST_PERIOD_MS} to {_MOST_PERIOD_MS:.0f} ms'
            )
        if not self.deadline_ms >= _LEAST_PERIOD_MS:
            raise ValueError(
                f'deadline_ms is {self.deadline_ms}, expected at least {_LEAST_PERIOD_MS} ms'
            )
        count = self.levels if isinstance(self.levels, int) else len(self.levels)
        if not 0 < count <= _MOST_LEVELS:
            raise ValueError(
                f'levels is {_told(self.levels)}, expected a number from 1 to {_MOST_LEVELS}, or names of '
                f'paths'
            )
        for name in ('weight', 'distance_m', 'size_px_m'):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(
                    f'{name} is {getattr(self, name)}, expected a finite number above 0'
                )


def read_tasks(file: Path) -> tuple[TaskRequest, ...]:
    """Reads a file that holds `tasks:`, and below it for each task its name and what `TaskRequest` says.

    Raises:
        TaskFileError: it cannot be read, holds no task, or one of them cannot be used.
    """
    try:
        content = read_yaml(file)
    except (OSError, FileRefused) as error:
        raise TaskFileError(f'task file {file} cannot be read: {error}') from error
    tasks = content.get('tasks') if isinstance(content, Mapping) else None
    if not isinstance(tasks, Mapping) or not tasks:
        raise TaskFileError(
            f'task file {file} holds no task, expected `tasks:` and below it a name and its settings '
            f'for each task'
        )
    if len(tasks) > _MOST_TASKS:
        raise TaskFileError(
            f'task file {file} holds {len(tasks)} tasks, expected at most {_MOST_TASKS}'
        )
    requests = tuple(_request(file, name, settings) for name, settings in tasks.items())
    for request in requests:
        if request.crops_of and request.crops_of not in {
            other.name for other in requests if not other.crops_of
        }:
            raise TaskFileError(
                f'crops_of of task {request.name} of {file} is {_told(request.crops_of)}, expected the '
                f'name of another task that takes whole images'
            )
    return requests


def _request(file: Path, name: object, settings: object) -> TaskRequest:
    """One task; files are relative to the working folder, as everywhere."""
    task = f'task {_told(name)}'
    try:
        settings = decode(settings, dict[str, Any], task)
        return decode({**settings, 'name': name}, TaskRequest, task)
    except FileRefused as error:
        raise TaskFileError(f'task file {file} cannot be used: {printable(error)}') from error


def _told(value: object) -> str:
    return printable(repr(value), 100)
