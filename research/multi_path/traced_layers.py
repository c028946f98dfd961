"""What the package counts of the layers that PyTorch is asked to compute."""

from __future__ import annotations

from collections.abc import Callable

import torch
from segment_work import layer_operations
from torch.utils._python_dispatch import TorchDispatchMode


class Recorder(TorchDispatchMode):
    """Sees every operation with its arguments and result."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[int] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        operations = layer_operations(function.__name__.split('.')[0], args, result)
        if operations is not None:
            self.found.append(operations)
        return result


def traced_operations(call: Callable[[], object]) -> list[int]:
    """Runs `call` once: the arithmetic operations of each layer that PyTorch computed in it, in order."""
    with torch.no_grad(), Recorder() as recorder:
        call()
    return recorder.found
