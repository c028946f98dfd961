"""Message types at run time: their Python classes, and their definitions for a bag."""
from __future__ import annotations

import importlib
import re
from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from rosbags.typesys import TypesysError, get_types_from_msg
from rosbags.typesys.store import Typestore

from deadline_perception.core.errors import DeadlinePerceptionError

_REFERENCE = re.compile(r'^\s*([a-zA-Z]\w*)/(?:msg/)?[A-Z]\w*', re.MULTILINE)


class MessageTypeError(DeadlinePerceptionError):
    """A message type that this machine does not have."""


def message_class(msgtype: str) -> type:
    """The Python class of a type such as `sensor_msgs/msg/Image`.

    Raises:
        MessageTypeError: the type has another form, or its package is not installed.
    """
    package, _, name = msgtype.partition('/')
    try:
        return getattr(importlib.import_module(f'{package}.msg'), name.removeprefix('msg/'))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise MessageTypeError(f'message type {msgtype} is not installed, expected a name such as '
                               f'sensor_msgs/msg/Image of an installed package') from error


def define(store: Typestore, msgtype: str) -> None:
    """Makes sure that a type store knows a message type and all that it is made of.

    Raises:
        MessageTypeError: its definition is not found, or cannot be read.
    """
    waiting, seen = [msgtype.partition('/')[0]], set()
    if msgtype in store.fielddefs:
        return
    while waiting:
        package = waiting.pop()
        seen.add(package)
        try:
            folder = Path(get_package_share_directory(package)) / 'msg'
        except (PackageNotFoundError, ValueError) as error:
            raise MessageTypeError(f'definition of {msgtype} is not found: no package {package}') from error
        types = {}
        for file in sorted(folder.glob('*.msg')):
            text = file.read_text(encoding='utf-8')
            types.update(get_types_from_msg(text, f'{package}/msg/{file.stem}'))
            waiting += [found for found in _REFERENCE.findall(text) if found not in seen]
        store.register({name: fields for name, fields in types.items() if name not in store.fielddefs})
    try:
        store.generate_msgdef(msgtype, ros_version=2)
    except (TypesysError, KeyError) as error:
        raise MessageTypeError(f'definition of {msgtype} cannot be made: {error}') from error
