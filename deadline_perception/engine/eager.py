"""The plain engine, and with it what a network asks of every engine.

A network hands each segment to its engine as a function without side effects, from the named values that it reads to
the values that it gives, under a key (see `PathSpace`) that decides its work and the shapes of all these values. So an
engine may prepare a segment when its key first comes: `compute` and `inputs` are then the function and its example
inputs, and what it gives is the reference that the prepared form must agree with. CUDA graphs are recorded that way,
and 8-bit segments are made of it ahead of time and kept on disk by weights and key.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

# Quoted, so that a network without torch can have this engine.
Values: TypeAlias = 'tuple[Tensor, ...]'
Inputs: TypeAlias = 'dict[str, Values]'
Compute: TypeAlias = 'Callable[[Inputs], Values]'


class Eager:
    """Computes every segment as it comes, with the kernels of the framework; the base of the other engines.

    Attributes:
        identity: name, and version where it is not that of PyTorch; execution times hold for one engine alone.
        reuses_buffers: values lie in memory that the next frame overwrites, so that one frame runs at a time.
        layers_alone: what a segment does before its layers, such as gathering region features, is computed by the
            network itself: a compiler of layers has nothing to gain there.
    """

    identity = 'eager'
    reuses_buffers = False
    layers_alone = False
    _instead_because = ''

    @classmethod
    def instead(cls, because: str) -> Eager:
        """This engine in the place of a faster one, which cannot be had."""
        engine = cls()
        engine._instead_because = because
        return engine

    @property
    def notice(self) -> str:
        """What a person should know of segments that run slower than they could; empty when none does."""
        return self._instead_because

    @property
    def forms(self) -> dict[str, str]:
        """How segments are run, in a word or two, by their keys; those that are not named run eagerly."""
        return {}

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

    def hold(self, name: str, values: Values, rows: int | None = None) -> Values:
        """Takes values that no segment gave; returns them as segments may read them.

        Args:
            name: kind of value, such as `stage1`; with the shapes it decides where an engine keeps it.
            values: at least one tensor.
            rows: the most rows that values of this path have; an engine with fixed shapes adds rows of zeros up to it.
        """
        return values

    def run(self, key: str, name: str, compute: Compute, inputs: Inputs) -> Values:
        """Runs a segment; returns what it gives.

        Args:
            key: of the segment on this path.
            name: kind of value that it gives, as in `hold`.
            compute: the segment itself; changes none of its inputs.
            inputs: what it reads, by kind: values that `hold` or `run` returned.
        """
        return compute(inputs)


def padded(values: Values, rows: int | None) -> Values:
    """Values with rows of zeros up to a number of rows; as they are where it is None or they have as many."""
    if rows is None or all(len(part) == rows for part in values):
        return values
    from torch.nn.functional import pad

    return tuple(pad(part, (0, 0) * (part.dim() - 1) + (0, rows - len(part))) for part in values)
