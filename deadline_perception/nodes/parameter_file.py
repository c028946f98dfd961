"""What ROS parameter files say to one node, by ROS's own rules, for what must be known before the node starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from deadline_perception.core.errors import DeadlinePerceptionError

_PARAMETERS = 'ros__parameters'
_NAME = re.compile(r'(/(\*{1,2}|[A-Za-z_][A-Za-z0-9_]*))+')  # ROS takes no file with any other


class ParameterFileError(DeadlinePerceptionError):
    """A parameter file cannot be used; the message is one line and names it."""


def read_sections(files: Sequence[Path]) -> dict[str, dict[str, object]]:
    """The parameters by the absolute name of the node, or the pattern of names, that they are for.

    A name is one key or several within each other, joined by `/`. Later sections override earlier ones; the same name
    again adds to the section that is there.

    Raises:
        ParameterFileError: a file cannot be read, or has another form.
    """
    sections: dict[str, dict[str, object]] = {}
    for file in files:
        try:
            content = yaml.safe_load(file.read_text(encoding='utf-8'))
            for name, parameters in _sections(content or {}, ''):
                sections.setdefault(name, {}).update(parameters)
        except RecursionError as error:
            raise ParameterFileError(
                f'parameter file {file} cannot be used: it is nested too deeply'
            ) from error
        except (OSError, yaml.YAMLError, ValueError) as error:
            reason = ' '.join(str(error).split())
            raise ParameterFileError(f'parameter file {file} cannot be used: {reason}') from error
    return sections


def _sections(content: object, name: str) -> Iterator[tuple[str, dict[str, object]]]:
    if not isinstance(content, dict):
        raise ValueError(
            f'{name or "its content"} is {str(content)[:40]!r}, expected nodes with {_PARAMETERS}'
        )
    for key, value in content.items():
        if key != _PARAMETERS:
            yield from _sections(value, f'{name.rstrip("/")}/{str(key).lstrip("/")}')
        elif not _NAME.fullmatch(name) or not isinstance(value or {}, dict):
            raise ValueError(
                f'{_PARAMETERS} of {name[:40] or "nothing"} is not the parameters of a node by name'
            )
        else:
            yield name, value or {}


def fits(pattern: str, node: str) -> bool:
    """Whether a section is for a node of this absolute name; `*` is one part of the name, `**` any number of them."""
    # As rclpy and rclcpp do it.
    return re.fullmatch(pattern.replace('/*', r'(/\w+)'), node) is not None


def parameters_of(node: str, sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The parameters of the node with this absolute name."""
    values: dict[str, Any] = {}
    for pattern, parameters in sections.items():
        if fits(pattern, node):
            values.update(parameters)
    return values
