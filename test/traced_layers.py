"""The layers of a network as the package tells them from what PyTorch is asked to compute."""
from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from deadline_perception.wcet.layers import LayerShape
from deadline_perception.wcet.segment_work import layer_shape


class Recorder(TorchDispatchMode):
    """Sees every operation with its arguments and result."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[LayerShape] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        shape = layer_shape(function.__name__.split('.')[0], args, result)
        if shape is not None:
            self.found.append(shape)
        return result


def trace_layers(call: Callable[[], object]) -> tuple[LayerShape, ...]:
    """Runs `call` once and lists the layers that PyTorch computed in it, in order."""
    with torch.no_grad(), Recorder() as recorder:
        call()
    return tuple(recorder.found)
