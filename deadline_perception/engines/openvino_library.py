"""OpenVINO in this process: loaded once, without telemetry, with one `Core` that lasts as long as the process."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeAlias

from deadline_perception.engines.segment_store import StoreError

# What OpenVINO makes, which has no types: models, compiled or not, and nodes of their graphs with their outputs.
Model: TypeAlias = Any
Node: TypeAlias = Any

_libc = ctypes.CDLL(None, use_errno=True)


class _SignalStack(ctypes.Structure):
    """`stack_t` of signal.h."""

    _fields_ = (('address', ctypes.c_void_p), ('flags', ctypes.c_int), ('size', ctypes.c_size_t))


@contextmanager
def own_signal_stack() -> Iterator[None]:
    """Lets the calling thread keep its alternate signal stack while something runs that loads OpenVINO's CPU driver.

    The driver gives the thread that loads it another one, and unmaps it when its `Core` is destroyed, in whichever
    thread that happens. The next signal to the first thread, such as Ctrl-C, then ends the process with a segmentation
    fault, because Python has its handlers run on that stack.
    """
    before = _SignalStack()
    known = _libc.sigaltstack(None, ctypes.byref(before)) == 0
    try:
        yield
    finally:
        if known:
            _libc.sigaltstack(ctypes.byref(before), None)


def load_openvino() -> ModuleType:
    """The module `openvino`, which in this process reports to nobody what it is used for.

    Raises:
        StoreError: it is not installed, or cannot be loaded.
    """
    if 'openvino' not in sys.modules:
        # Its import then fails, which openvino is made for; the type knows of modules alone.
        sys.modules.setdefault('openvino_telemetry', None)  # type: ignore[arg-type]
    try:
        import openvino
    except (ImportError, OSError) as error:
        raise StoreError(
            f'OpenVINO cannot be loaded: {error}; install it: pip install openvino nncf'
        ) from error
    return openvino


@functools.cache
def openvino_core() -> Any:
    """The `openvino.Core` of this process, its CPU driver loaded; any thread may use it.

    Raises:
        StoreError: OpenVINO cannot be loaded, or its CPU driver.
    """
    core = load_openvino().Core()
    try:
        with own_signal_stack():
            core.get_property('CPU', 'FULL_DEVICE_NAME')
    except RuntimeError as error:
        raise StoreError(
            f'OpenVINO cannot drive this CPU: {str(error).strip().splitlines()[-1]}'
        ) from error
    return core


def cpu_settings(threads: int) -> dict[str, Any]:
    """How OpenVINO computes on so many threads. No streams for one: the calling thread computes, with its priority, and
    no model keeps threads of its own. Others help it with parts of a segment as their cores are free, so that on a busy
    machine it does all of them itself. Where it may have all cores, models share what they compute with, which else
    takes 0.4 MB of each (the number of threads is then not looked at); OpenVINO still gives each model a thread for
    callbacks, which never runs: some 200 of a detector's threads."""
    shared = threads > 1 and threads >= len(os.sched_getaffinity(0))
    return {
        'PERFORMANCE_HINT': 'LATENCY',
        'ENABLE_CPU_PINNING': False,
        'INFERENCE_NUM_THREADS': threads,
        'NUM_STREAMS': 0 if threads == 1 else 1,
        **({'EXCLUSIVE_ASYNC_REQUESTS': True} if shared else {}),
    }
