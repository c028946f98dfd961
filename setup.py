"""Installs the ROS-free part with its weights, parameters and launch files; metadata is in pyproject.toml.

ROS builds use CMakeLists.txt, which generates the messages too.
"""
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def shared_files() -> list[tuple[str, list[str]]]:
    """Files of `config/`, `launch/` and `models/` by the folder below the prefix that takes them."""
    files: dict[str, list[str]] = {}
    for name in ('config', 'launch', 'models'):
        for file in sorted((ROOT / name).rglob('*')):
            if file.is_file() and '__pycache__' not in file.parts:
                inside = file.relative_to(ROOT)
                files.setdefault(f'share/deadline_perception/{inside.parent}', []).append(str(inside))
    return sorted(files.items())


setup(data_files=shared_files())
