"""What a text `module:name` means, imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any


def named(place: str) -> Any:
    """What a module has under a name, such as a class; imports the module."""
    module, _, name = place.partition(':')
    return getattr(importlib.import_module(module), name)
