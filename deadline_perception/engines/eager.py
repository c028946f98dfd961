"""The plain engine, and with it what a network asks of every engine.

A network hands each segment to its engine as a function without side effects, from the named values that it reads to
the values that it gives, under a key (see `PathSpace`) that decides its work and the shapes of all these values. So an
engine may prepare a segment when its key first comes: `compute` and `inputs` are then the function and its example
inputs, and what it gives is the reference that the prepared form must agree with. CUDA graphs are recorded that way,
and 8-bit segments are made of it ahead of time and kept on disk by weights and key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deadline_perception.core.errors import DeadlinePerceptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor

# Quoted, so that a network without torch can have this engine.
Values: TypeAlias = 'tuple[Tensor, ...]'
Arrays: TypeAlias = 'tuple[np.ndarray, ...]'
Inputs: TypeAlias = 'dict[str, Values]'
Compute: TypeAlias = 'Callable[[Inputs], Values]'
ArrayCompute: TypeAlias = 'Callable[[dict[str, Arrays]], Arrays]'
Held: TypeAlias = 'tuple[Any, ...]'  # tensors or arrays, as the engine has it


class Engine:
    """The base of engines: computes a segment eagerly wherever an engine has nothing better.

    What passes from segment to segment is the engine's own: tensors here, arrays or buffers in others; `arrays` gives
    it to whoever reads it otherwise.

    Args:
        notice: see the attribute; why this engine stands in the place of a faster one.

    Attributes:
        identity: name, and version where it is not that of PyTorch; execution times hold for one engine alone.
        reuses_buffers: values lie in memory that the next frame overwrites, so that one frame runs at a time.
        keys: of the segments that it was prepared for; None: any. Others run as well, eagerly.
        notice: what a person should know and can change, such as segments that cannot be used; empty where nothing is.
    """

    identity: str
    reuses_buffers = False
    keys: frozenset[str] | None = None
    notice = ''

    def __init__(self, notice: str = '') -> None:
        self.notice = notice

    @property
    def forms(self) -> dict[str, str]:
        """How segments are run, in a word or two, by their keys; those that are not named run eagerly."""
        return {}

    def load(self, keys: Iterable[str]) -> None:
        """Makes segments ready that need no example for it, on all cores; blocks for up to some tens of ms for each."""

    def clear(self) -> None:
        """Forgets what was prepared, because the weights are about to change."""

    def begin_frame(self) -> int:
        """Prepares for a new frame; returns its number."""
        return 0

    def check_frame(self, number: int) -> None:
        """Makes sure that the values of a frame still exist.

        Raises:
            ValueError: another frame has begun since, or the weights have moved.
        """

    def hold(self, name: str, values: Held) -> Held:
        """Takes values that no segment gave; returns them as segments may read them.

        Args:
            name: kind of value, such as `stage1`; with the shapes it decides where an engine keeps it.
            values: at least one tensor, or array of the host with the channels last.
        """
        return as_tensors(values)

    def run(
        self,
        key: str,
        name: str,
        compute: Compute,
        inputs: dict[str, Held],
        *,
        is_selection: bool = False,
        on_arrays: ArrayCompute | None = None,
    ) -> Held:
        """Runs a segment; returns what it gives.

        Args:
            key: of the segment on this path.
            name: kind of value that it gives, as in `hold`; empty where no segment reads it, and only then may its
                shape depend on the data.
            compute: the segment itself; changes none of its inputs.
            inputs: what it reads, by kind: values that `hold`, `run` or `joined` returned.
            is_selection: it compares and chooses, which no recording of a GPU's work can hold.
            on_arrays: gives the same of arrays, channels last, for engines that have those; None: nothing does.
        """
        return compute(inputs)

    def joined(self, values: Held) -> Held:
        """Features of several sizes as one matrix, `[positions, channels]`, where that costs no copy; else as they
        are."""
        return values

    def arrays(self, values: Held) -> Arrays:
        """Values for those who are no segments: arrays of the host, channels last."""
        return as_arrays(values)


class Eager(Engine):
    """Computes every segment as it comes, with the kernels of the framework."""

    identity = 'eager'


class TorchMissing(DeadlinePerceptionError):
    """Layers have to be computed, and PyTorch is not installed."""


def load_torch() -> Any:
    """The module `torch`.

    Raises:
        TorchMissing: it is not installed.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise TorchMissing(
            'layers are computed by PyTorch, which is not installed: pip install "deadline_perception[torch]"; '
            'segments that are prepared do without, and are kept below XDG_CACHE_HOME, which must be writable'
        ) from error
    return torch


def as_arrays(values: Values | Arrays) -> Arrays:
    """Tensors as arrays of the host, those of four dimensions with the channels last; arrays stay as they are."""
    arrays = tuple(value for value in values if isinstance(value, np.ndarray))
    if len(arrays) == len(values):
        return arrays
    from torch import Tensor

    return tuple(
        (value.permute(0, 2, 3, 1) if value.dim() == 4 else value).cpu().contiguous().numpy()
        if isinstance(value, Tensor)
        else value
        for value in values
    )


def as_tensors(values: Values | Arrays) -> Values:
    """Arrays with the channels last as tensors `[N, C, H, W]` of the same memory; tensors stay as they are."""
    torch = load_torch()
    tensors = (
        value if isinstance(value, torch.Tensor) else torch.from_numpy(value) for value in values
    )
    return tuple(
        tensor if tensor is value or tensor.dim() != 4 else tensor.permute(0, 3, 1, 2)
        for tensor, value in zip(tensors, values)
    )
