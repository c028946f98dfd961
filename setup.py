"""Installs the ROS-free part with its weights, parameters and launch files; metadata is in pyproject.toml.

ROS builds use CMakeLists.txt, which generates the messages too.
"""

from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


# Folder of the tree -> package whose share folder takes it; the definitions of messages are read by bags.
SHARED = {
    'config': 'deadline_perception',
    'launch': 'deadline_perception',
    'models': 'deadline_perception',
    'msg': 'deadline_perception',
    'third_party/vision_msgs/msg': 'vision_msgs',
}


def shared_files() -> list[tuple[str, list[str]]]:
    """Files of those folders by the folder below the prefix that takes them."""
    files: dict[str, list[str]] = {}
    for name, package in SHARED.items():
        for file in sorted((ROOT / name).rglob('*')):
            if file.is_file() and '__pycache__' not in file.parts:
                place = (
                    Path('share') / package / Path(name).name / file.relative_to(ROOT / name)
                ).parent
                files.setdefault(str(place), []).append(str(file.relative_to(ROOT)))
    return sorted(files.items())


setup(data_files=shared_files())
