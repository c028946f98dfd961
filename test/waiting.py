"""Waiting for what another thread or process does, for the answer of its services, and where it may listen."""

import socket
import time
from pathlib import Path

WAIT_S = 90.0
ASK_AGAIN_S = 20.0


def wait(condition, what='a condition'):
    """Waits until a condition holds; fails when it never does."""
    until = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until, f'waited {WAIT_S:.0f} s for {what}'
        time.sleep(0.01)


def answer_of(client, request, what):
    """The first answer of a service, asked again where none comes.

    Fast DDS drops an answer where the server has not met its reader 100 ms after the request (ros2/rmw_fastrtps, issue
    842), and a request may go to a killed server that it still believes in.
    """
    asked = []

    def answered():
        is_due = not asked or time.monotonic() - asked[-1][0] > ASK_AGAIN_S
        if is_due and client.service_is_ready():
            if asked:
                print(f'no answer for {ASK_AGAIN_S:.0f} s, asked again: {what}')
            asked.append((time.monotonic(), client.call_async(request)))
        return any(future.done() for _, future in asked)

    wait(answered, what)
    return next(future.result() for _, future in asked if future.done())


def state(pid: int) -> str:
    """Letter of the kernel, such as T of a process that is stopped; Z where there is none."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
    except OSError:
        return 'Z'


def is_gone(pid: int) -> bool:
    """No such process, or one that has ended and nobody has asked for its status."""
    return state(pid) == 'Z'


def free_port() -> int:
    """Where nothing listens on this machine."""
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        return probe.getsockname()[1]
