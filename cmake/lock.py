"""Writes cmake/lock.txt: each package that the nodes and the demo need, one a line, with the SHA-256 of its files;
and cmake/lock-develop.txt with those that `make setup` adds, such as PyTorch.

    .venv/bin/python cmake/lock.py

To be run when pyproject.toml or constraints.txt changes. Only files that can be installed where ROS is on PyPI count:
Linux on x86-64, Python 3.10 to 3.13. A source distribution is listed only where one of these has no wheel.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlparse

import tomllib
from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

HERE = Path(__file__).parent
DISTRO = 'jazzy'  # of ROS, the one that is on PyPI
APART = ('all', 'docs', 'view')  # of no set-up
OF_DEMO = ('bags', 'gpu', 'report')  # groups that the nodes and the demo need
PYTHONS = ((3, 10), (3, 11), (3, 12), (3, 13))
OLDEST_GLIBC, NEWEST_GLIBC = 5, 39  # 2.x
PLATFORMS = [
    *(f'manylinux_2_{minor}_x86_64' for minor in range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1)),
    'manylinux2014_x86_64',
    'manylinux2010_x86_64',
    'manylinux1_x86_64',
    'linux_x86_64',
]
TOOLS = ('uv', 'cmake>=3.20', 'ninja')  # of the set-up itself


def resolved(among: Collection[str] | None = None) -> list[dict]:
    """The packages as uv resolves them for all Pythons, as pylock.toml has them.

    Args:
        among: optional groups that are wanted beside that of ROS; None: all that are of a set-up.
    """
    project = tomllib.loads((HERE.parent / 'pyproject.toml').read_text(encoding='utf-8'))['project']
    groups = [
        project['dependencies'],
        *(
            group
            for name, group in project['optional-dependencies'].items()
            if name not in APART and (among is None or name in (*among, f'ros-{DISTRO}'))
        ),
    ]
    with tempfile.TemporaryDirectory() as folder:
        wanted, lock = Path(folder, 'wanted.in'), Path(folder, 'pylock.toml')
        wanted.write_text(
            '\n'.join((*(line for group in groups for line in group), *TOOLS)), encoding='utf-8'
        )
        subprocess.run(
            [
                str(Path(sys.executable).with_name('uv')),
                'pip',
                'compile',
                '--quiet',
                '--universal',
                '--python-version',
                '3.10',
                '--format',
                'pylock.toml',
                '--generate-hashes',
                '--constraints',
                str(HERE.parent / 'constraints.txt'),
                '--output-file',
                str(lock),
                str(wanted),
            ],
            check=True,
        )
        return tomllib.loads(lock.read_text(encoding='utf-8'))['packages']


def tags_of(python: tuple[int, int]) -> set[Tag]:
    """What a Python takes on Linux on x86-64."""
    return {
        *cpython_tags(python, platforms=PLATFORMS),
        *compatible_tags(python, f'cp{python[0]}{python[1]}', PLATFORMS),
    }


def line_of(package: dict) -> str:
    """The requirement with its hashes; empty where no Python of the package needs it.

    Raises:
        ValueError: there is no file that could be installed.
    """
    marker = package.get('marker', '')
    pythons = [
        python
        for python in PYTHONS
        if not marker
        or Marker(marker).evaluate(
            {
                'python_full_version': f'{python[0]}.{python[1]}.9',
                'python_version': f'{python[0]}.{python[1]}',
                'sys_platform': 'linux',
                'platform_system': 'Linux',
                'platform_machine': 'x86_64',
                'os_name': 'posix',
                'platform_python_implementation': 'CPython',
                'implementation_name': 'cpython',
            }
        )
    ]
    hashes, without = set(), set(pythons)
    for wheel in package.get('wheels', ()):
        name = wheel.get('name') or Path(urlparse(wheel['url']).path).name
        takers = {python for python in pythons if parse_wheel_filename(name)[3] & tags_of(python)}
        if takers:
            hashes.add(wheel['hashes']['sha256'])
            without -= takers
    if without and 'sdist' in package:
        hashes.add(package['sdist']['hashes']['sha256'])
    if pythons and not hashes:
        raise ValueError(f'{package["name"]} {package["version"]} has no file for Linux on x86-64')
    condition = f' ; {marker}' if marker else ''
    return (
        ' '.join(
            (
                f'{package["name"]}=={package["version"]}{condition}',
                *(f'--hash=sha256:{digest}' for digest in sorted(hashes)),
            )
        )
        if pythons
        else ''
    )


def main() -> None:
    lines = list(filter(None, map(line_of, resolved())))
    of_demo = {package['name'] for package in resolved(OF_DEMO)}
    is_of_demo = {line: line.partition('==')[0] in of_demo for line in lines}
    write('lock.txt', [line for line in lines if is_of_demo[line]])
    write('lock-develop.txt', [line for line in lines if not is_of_demo[line]])


def write(name: str, lines: list[str]) -> None:
    """Writes one of the files, and says how long it is."""
    first = '# Written by cmake/lock.py from pyproject.toml and constraints.txt.'
    (HERE / name).write_text('\n'.join((first, *lines, '')), encoding='utf-8')
    print(f'cmake/{name}: {len(lines)} packages')


if __name__ == '__main__':
    main()
