"""The message types of bags, for those that do not carry their definitions (sqlite3 bags of Humble)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from deadline_perception.core.errors import DeadlinePerceptionError

_SOURCE_TREE = Path(__file__).resolve().parents[3]
_FOLDERS = {
    'deadline_perception': _SOURCE_TREE / 'msg',
    'vision_msgs': _SOURCE_TREE / 'third_party' / 'vision_msgs' / 'msg',
}


class DefinitionsMissing(DeadlinePerceptionError):
    """The message definitions of a package are nowhere to be found."""


@lru_cache(maxsize=1)
def message_types():
    """A rosbags type store with ROS's own messages, `vision_msgs` and this package's.

    Definitions are looked for in the ROS prefixes (`AMENT_PREFIX_PATH`), this Python's prefix and the source tree.

    Raises:
        DefinitionsMissing: none is found there, as after a `pip install` that copied the Python files alone.
    """
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    types = {}
    for package in _FOLDERS:
        for file in _definitions(package):
            types.update(
                get_types_from_msg(file.read_text(encoding='utf-8'), f'{package}/msg/{file.stem}')
            )
    store.register({name: fields for name, fields in types.items() if name not in store.fielddefs})
    return store


def _definitions(package: str) -> Iterator[Path]:
    prefixes = [
        *filter(None, os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)),
        sys.prefix,
    ]
    for folder in (
        *(Path(prefix) / 'share' / package / 'msg' for prefix in prefixes),
        _FOLDERS[package],
    ):
        files = sorted(folder.glob('*.msg'))
        if files:
            yield from files
            return
    raise DefinitionsMissing(
        f'no message definitions of {package} in {_FOLDERS[package]} nor in a ROS prefix; use the '
        f'source tree (make setup, or pip install -e), or source the workspace built by colcon'
    )
