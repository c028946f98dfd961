"""The thread of a command that measures, raised as the detector raises its own."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from deadline_perception.system.kernel_thread import (
    name_thread,
    thread_name,
)
from deadline_perception.system.priority import INFERENCE_NAME, ThreadPriority


@contextmanager
def inference_thread(
    mode: str = 'auto', *, cores: Collection[int] = (), lock_memory: bool = True
) -> Iterator[ThreadPriority]:
    """Meanwhile the calling thread bears the name of the detector's thread, and so do threads that it starts.

    `raise_thread(Role.INFERENCE)` of what this gives raises it and them, once they are there. At the end, however that
    comes, its name, and the priority of all of them, are as before.

    Args:
        mode, cores, lock_memory: as for `ThreadPriority`.

    Raises:
        ValueError: as `ThreadPriority`.
    """
    priority = ThreadPriority(mode, cores=cores, lock_memory=lock_memory)
    name = thread_name(threading.get_native_id()) or threading.current_thread().name
    name_thread(INFERENCE_NAME)
    try:
        yield priority
    finally:
        priority.restore()
        name_thread(name)
