"""Detects objects before a deadline.

What this file holds stands in for the one that generated messages of the same name bring, and loads nothing until asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deadline_perception.deadline_detector import DeadlineDetector as DeadlineDetector

    __version__: str


def __getattr__(name: str) -> object:
    if name == 'DeadlineDetector':
        from deadline_perception.deadline_detector import DeadlineDetector

        return DeadlineDetector
    if name == '__version__':
        from importlib.metadata import version

        return version('deadline_perception')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
