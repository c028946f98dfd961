"""A network in a process of its own that answers what it is asked: an older one, or a peer whose memory counts.

Requests and answers are pickled through the process's standard input and output; nothing in it may be printed there.
"""
from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from types import TracebackType


class Served:
    """The process, seen from outside.

    Args:
        command: program and arguments; it calls `serve`.
    """

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def ask(self, what: str, *arguments: object) -> object:
        """The answer to one request; blocks until it is there.

        Raises:
            RuntimeError: it failed there, with what was told, or the process has ended.
        """
        self.begin(what, *arguments)
        return self.answer()

    def begin(self, what: str, *arguments: object) -> None:
        """Sends a request, so that several processes work at once."""
        pickle.dump((what, arguments), self._process.stdin)
        self._process.stdin.flush()

    def answer(self) -> object:
        """The answer to what was begun.

        Raises:
            RuntimeError: see `ask`.
        """
        try:
            succeeded, value = pickle.load(self._process.stdout)
        except EOFError:
            raise RuntimeError(f'{" ".join(self._process.args)} ended with {self._process.wait()}, expected an '
                               f'answer') from None
        if not succeeded:
            raise RuntimeError(value)
        return value


def serve(functions: dict[str, Callable]) -> None:
    """Answers requests by these functions until nobody asks any more. What they print goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), 'wb')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while True:
        try:
            what, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = (True, functions[what](*arguments))
        except Exception:  # of any kind: it is told to whoever asked
            answer = (False, traceback.format_exc(limit=-4))
        pickle.dump(answer, answers)
        answers.flush()
