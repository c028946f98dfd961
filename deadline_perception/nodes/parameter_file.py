"""For which nodes ROS parameter files are, by ROS's own rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from deadline_perception.core.errors import DeadlinePerceptionError

_PARAMETERS = 'ros__parameters'
_NAME = re.compile(r'(/(\*{1,2}|[A-Za-z_][A-Za-z0-9_]*))+')  # ROS takes no file with any other


class ParameterFileError(DeadlinePerceptionError):
    """A parameter file cannot be used; the message is one line and names it."""


def section_names(files: Sequence[Path]) -> list[str]:
    """The absolute names of nodes, or the patterns of names, that files have parameters for.

    A name is one key or several within each other, joined by `/`.

    Raises:
        ParameterFileError: a file cannot be read, or has another form.
    """
    names: list[str] = []
    for file in files:
        try:
            content = yaml.safe_load(file.read_text(encoding='utf-8'))
            names += _sections(content or {}, '')
        except RecursionError as error:
            raise ParameterFileError(
                f'parameter file {file} cannot be used: it is nested too deeply'
            ) from error
        except (OSError, yaml.YAMLError, ValueError) as error:
            reason = ' '.join(str(error).split())
            raise ParameterFileError(f'parameter file {file} cannot be used: {reason}') from error
    return names


def _sections(content: object, name: str) -> Iterator[str]:
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
            yield name


def fits(pattern: str, node: str) -> bool:
    """Whether a section is for a node of this absolute name; `*` is one part of the name, `**` any number of them."""
    # As rclpy and rclcpp do it.
    return re.fullmatch(pattern.replace('/*', r'(/\w+)'), node) is not None
