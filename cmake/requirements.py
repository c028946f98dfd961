"""Prints the requirements of pyproject.toml, one a line: the ROS-free part and the optional groups named as arguments.

pip can install groups only together with a copy of the project; `make setup` wants the packages and no copy.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib


def expanded(groups: list[str], optional: dict[str, list[str]], name: str) -> dict[str, None]:
    """The requirements of optional groups in order, each once; a group may name others as `NAME[GROUP,GROUP]`."""
    found: dict[str, None] = {}
    for requirement in (requirement for group in groups for requirement in optional[group]):
        inner = re.fullmatch(rf'{name}\[(.*)\]', requirement)
        found |= expanded(inner[1].split(','), optional, name) if inner else {requirement: None}
    return found


def main(groups: list[str]) -> None:
    project = tomllib.loads((Path(__file__).parents[1] / 'pyproject.toml').read_text(encoding='utf-8'))['project']
    print('\n'.join([*project['dependencies'], *expanded(groups, project['optional-dependencies'], project['name'])]))


if __name__ == '__main__':
    main(sys.argv[1:])
