"""Code that a file may name, since its user trusts it."""

from __future__ import annotations

import os

CALLABLES = 'DEADLINE_PERCEPTION_CALLABLES'  # variable: `module:callable`s that files may have called, with commas


def may_call(words: str) -> bool:
    """Whether the user trusts a `module:callable` that a file names, which the file alone does not start."""
    return words in [known.strip() for known in os.environ.get(CALLABLES, '').split(',')]
