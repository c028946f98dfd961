"""An ordinary torch network as a graph of its layers and operations, by `torch.fx`."""

from __future__ import annotations

import copy
import io
from collections.abc import Sequence
from contextlib import redirect_stderr

import torch
from torch import Tensor, fx, nn

from deadline_perception.core.errors import DeadlinePerceptionError


class ConversionError(DeadlinePerceptionError):
    """A network cannot be made elastic; the message names the layer."""


class Tracer(fx.Tracer):
    """Traces down to torch's own layers, and notes where tracing fails."""

    def __init__(self) -> None:
        super().__init__()
        self.within: list[str] = []

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        """Norms that others have derived stay layers."""
        return (
            super().is_leaf_module(module, name)
            or isinstance(module, nn.LayerNorm)
            or is_frozen_norm(module)
        )

    def call_module(self, module: nn.Module, forward, args, kwargs):
        """Traces one module; its name stays in `within` where that fails."""
        self.within.append(self.path_of_module(module))
        result = super().call_module(module, forward, args, kwargs)
        self.within.pop()
        return result


def trace(module: nn.Module, example_inputs: Sequence[Tensor]) -> fx.GraphModule:
    """The network as a graph with the shape of every tensor in it; a copy, in evaluation mode.

    Raises:
        ConversionError: the network computes in float16, its control flow depends on data, or it does not run on
            the example inputs.
    """
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
            raise ConversionError(
                f'weight {name} is of {tensor.dtype}, expected torch.float32: convert the network '
                f'before it is put into float16 or bfloat16, with module.float()'
            )
    module = copy.deepcopy(module).eval()
    tracer = Tracer()
    try:
        graph = tracer.trace(module)
    except (
        fx.proxy.TraceError,
        TypeError,
        RuntimeError,
        AttributeError,
        ValueError,
        NotImplementedError,
    ) as error:
        raise ConversionError(
            f'layer {".".join(tracer.within[-1:]) or "(the network itself)"} cannot be traced: '
            f'{str(error).splitlines()[0]}; expected control flow that does not depend on '
            f'data'
        ) from error
    traced = fx.GraphModule(module, graph)
    try:
        with (
            torch.no_grad(),
            redirect_stderr(io.StringIO()),
        ):  # it prints the traceback of what it raises
            fx.passes.shape_prop.ShapeProp(traced).propagate(*example_inputs)
    except RuntimeError as error:
        shapes = ', '.join(str(tuple(example.shape)) for example in example_inputs)
        raise ConversionError(
            f'the network does not run on example inputs of the shape {shapes}: '
            f'{str(error.__cause__ or error).splitlines()[0]}'
        ) from error
    return traced


def is_frozen_norm(module: nn.Module) -> bool:
    """True of torchvision's batch norm of constant statistics."""
    return type(module).__name__ == 'FrozenBatchNorm2d'
