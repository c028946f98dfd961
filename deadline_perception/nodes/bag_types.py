"""Message types at run time: their Python classes."""

from __future__ import annotations

import importlib

from deadline_perception.core.errors import DeadlinePerceptionError


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
        raise MessageTypeError(
            f'message type {msgtype} is not installed, expected a name such as '
            f'sensor_msgs/msg/Image of an installed package'
        ) from error
