"""Functions that run in processes of their own while a benchmark talks to them.

Apart from the harness: in a process with a middleware, what `multiprocessing` does as it ends can end that by a signal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection


@contextmanager
def served_process(serve: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """Meanwhile a function runs in a process of its own; gives its connection, whose other end is its first argument."""
    context = get_context('spawn')
    own, asked = context.Pipe()
    process = context.Process(target=serve, args=(asked, *arguments), daemon=True)
    process.start()
    asked.close()
    try:
        yield own
    finally:
        process.kill()
        process.join()
