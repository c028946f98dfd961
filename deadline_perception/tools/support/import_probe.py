"""Loads something that may be absent, broken or slow in a process of its own, and reports what it says of itself."""

from __future__ import annotations

import json
import subprocess
from functools import cached_property

from deadline_perception.core.child_command import code_command

_MARK = 'facts: '  # libraries may print lines of their own
_PRELUDE = f'import json\ndef report(**facts): print({_MARK!r} + json.dumps(facts))\n'
_LIMIT_S = 120.0  # torch from a cold disk


class ImportProbe:
    """A few lines of Python, started at once in another process; whatever they do, this one lives on.

    Args:
        code: imports something and calls `report(name=value, ...)` with facts that JSON can hold.
    """

    def __init__(self, code: str) -> None:
        self._process = subprocess.Popen(
            code_command(_PRELUDE + code),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @cached_property
    def _outcome(self) -> tuple[dict, str]:
        try:
            output, errors = self._process.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return {}, f'no answer within {_LIMIT_S:g} s'
        if self._process.returncode:
            lines = [line for line in errors.splitlines() if line.strip()]
            return {}, lines[
                -1
            ] if lines else f'the process ended with status {self._process.returncode}'
        reports = [
            line.removeprefix(_MARK) for line in output.splitlines() if line.startswith(_MARK)
        ]
        return (json.loads(reports[-1]), '') if reports else ({}, 'the process reported nothing')

    @property
    def facts(self) -> dict:
        """What was reported; empty when it failed. Waits for the process."""
        return self._outcome[0]

    @property
    def error(self) -> str:
        """The last line of what went wrong; empty when nothing did. Waits for the process."""
        return self._outcome[1]
