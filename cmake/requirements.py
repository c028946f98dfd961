"""Prints the requirements of pyproject.toml, one a line: the ROS-free part and the optional groups named as arguments.

pip can install groups only together with a copy of the project; `make setup` wants the packages and no copy.
"""
from __future__ import annotations

import sys
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib


def main(groups: list[str]) -> None:
    project = tomllib.loads((Path(__file__).parents[1] / 'pyproject.toml').read_text(encoding='utf-8'))['project']
    print('\n'.join(project['dependencies']))
    for group in groups:
        print('\n'.join(project['optional-dependencies'][group]))


if __name__ == '__main__':
    main(sys.argv[1:])
