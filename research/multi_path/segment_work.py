"""What the segments of a network do, counted by running them: operations, bytes and calls, by the keys of the segments.

Counted is what PyTorch is asked to compute, whatever engine runs the segment in the end: a faster engine does the same
work by other means, and what that saves is fitted. A network that PyTorch does not compute has no counts; its segments
are then told apart by what was measured of them alone. Loads PyTorch when called, not before.
"""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deadline_perception.core.measurement_plan import covering_paths
from deadline_perception.engines.eager import Engine
from deadline_perception.timing.transferred_profile import blocks_image

sys.path.append(str(Path(__file__).resolve().parents[1] / 'layer_latency'))
from layers import ConvolutionShape

if TYPE_CHECKING:
    from torch import Tensor

_ALSO_IN_PLACE = ('relu', 'add', 'sub', 'mul', 'div', 'sigmoid', 'clamp', 'clamp_min', 'hardtanh')
_ELEMENTWISE = {'threshold', 'gelu', 'silu', *_ALSO_IN_PLACE} | {
    f'{one}_' for one in _ALSO_IN_PLACE
}


@dataclass(frozen=True)
class SegmentWork:
    """Counts of one segment, of the names that `LayerCounts.of` reads.

    Attributes:
        operations: arithmetic operations of layers; of what is no layer, values that it gives.
        load_bytes, store_bytes: read and written by all calls, in the types of PyTorch.
        calls: of kernels.
    """

    operations: float = 0.0
    load_bytes: float = 0.0
    store_bytes: float = 0.0
    calls: float = 0.0

    def plus(self, other: SegmentWork) -> SegmentWork:
        """Both together."""
        return SegmentWork(
            *(getattr(self, field.name) + getattr(other, field.name) for field in fields(self))
        )


class _Counter(Engine):
    """Computes eagerly, and counts what a segment brings to the network from outside, as from an image."""

    def __init__(self) -> None:
        self.held = SegmentWork()

    def hold(self, name: str, values: tuple) -> tuple:
        """See `Engine`."""
        size = float(sum(value.nbytes for value in values))
        self.held = self.held.plus(SegmentWork(0.0, size, size, 1.0))
        return super().hold(name, values)


def count_work(network) -> dict[str, SegmentWork]:
    """The work of every segment of a network, by the names of `PathSpace.key`; blocks for some 50 ms per segment.

    The network runs eagerly meanwhile, and has its engine back afterwards.

    Args:
        network: see `engines/segment_run.py`; it reads an image of its own size with edges at many places.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Tally(TorchDispatchMode):
        """Adds up what operations do."""

        def __init__(self) -> None:
            super().__init__()
            self.work = SegmentWork()

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            self.work = self.work.plus(
                _work_of(function.__name__.split('.')[0], args, kwargs or {}, result)
            )
            return result

    space, engine, found = network.path_space, network.engine, {}
    image = blocks_image(network.input_size)
    counter = _Counter()
    try:
        with suppress(AttributeError):  # of a set, whose models have their own
            network.engine = counter
        with torch.inference_mode():
            for path in covering_paths(space, 1, random.Random(0)):
                if set(space.keys(path)) <= found.keys():
                    continue
                for counts in (
                    False,
                    True,
                ):  # the first run lays out weights and folds norms into them
                    run = network.start(image, path)
                    while not run.finished:
                        key = space.key(run.segment, path)
                        if not counts or key is None or key in found:
                            run.run_segment()
                            continue
                        counter.held = SegmentWork()
                        with Tally() as tally:
                            run.run_segment()
                        found[key] = tally.work.plus(counter.held)
    finally:
        with suppress(AttributeError):
            network.engine = engine
    return found


def _work_of(name: str, args: tuple, kwargs: dict, result: object) -> SegmentWork:
    """Of one operation of PyTorch; none of one that only looks at memory in another way."""
    import torch
    from torch.utils._pytree import tree_leaves

    inputs = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    outputs = [value for value in tree_leaves(result) if isinstance(value, torch.Tensor)]
    read = {value.untyped_storage().data_ptr() for value in inputs}
    is_view = not name.endswith('_') and any(
        value.untyped_storage().data_ptr() in read for value in outputs
    )
    if not outputs or is_view:
        return SegmentWork()
    operations = layer_operations(name, args, result)
    if operations is None:
        operations = sum(value.numel() for value in outputs)
    return SegmentWork(
        float(operations),
        float(sum(value.nbytes for value in inputs)),
        float(sum(value.nbytes for value in outputs)),
        1.0,
    )


def layer_operations(name: str, args: tuple, result: Any) -> int | None:
    """Arithmetic operations of one operation of PyTorch, by its shapes alone; None when it is no layer.

    A layer is one call of a kernel whose work its shape decides; top-k, decoding and copies are none. A multiplication
    and the addition after it count as one.
    """
    if name in ('convolution', 'conv2d'):
        return _convolution(
            args[0], args[1], args[3] if len(args) > 3 else 1
        ).operations  # defaults are left out
    if name in ('native_group_norm', 'group_norm'):
        return 3 * args[0].numel()  # sum, sum of squares, scale and shift
    if name in ('linear', 'addmm', 'mm'):
        rows, weight = (args[1], args[2]) if name == 'addmm' else (args[0], args[1])
        return rows.numel() * (weight.numel() // rows.shape[-1])
    if name == 'nms':
        boxes = len(args[0])
        return boxes * (boxes - 1) // 2  # each is compared with each in the worst case
    if name.startswith('upsample_'):
        return result.numel() * (1 if 'nearest' in name else 4)
    if name in ('max_pool2d', 'max_pool2d_with_indices', 'avg_pool2d'):
        pooled = result[0] if isinstance(result, tuple) else result
        side = args[1] if isinstance(args[1], int) else args[1][0]
        return pooled.numel() * side**2
    if name in _ELEMENTWISE and result.dim() >= 2 and result.is_floating_point() and result.numel():
        tensors = [arg for arg in args if getattr(arg, 'shape', None) == result.shape]
        return result.numel() * max(1, len(tensors))
    return None


def _convolution(x: Tensor, weight: Tensor, stride: int | list[int]) -> ConvolutionShape:
    batch, channels, height, width = x.shape
    step = stride if isinstance(stride, int) else stride[0]
    return ConvolutionShape(
        channels,
        weight.shape[0],
        weight.shape[2],
        step,
        height,
        width,
        batch,
        groups=channels // weight.shape[1],
    )
