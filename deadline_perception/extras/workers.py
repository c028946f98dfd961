"""The processes that share one task out: one, or those that torchrun started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar('Item')


@dataclass(frozen=True)
class Workers:
    """This process among those that work on the same task.

    Attributes:
        rank: number of this process, 0 for the one that prints and writes.
        count: number of processes.

    Raises:
        ValueError: the rank is no number of a process.
    """

    rank: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.count:
            raise ValueError(
                f'rank is {self.rank} of {self.count} processes, expected 0 to count - 1'
            )

    @property
    def leads(self) -> bool:
        """True in the one process that prints and writes."""
        return self.rank == 0

    def share(self, items: Sequence[Item], rank: int | None = None) -> Sequence[Item]:
        """Every `count`-th item, this process's or those of another rank."""
        return items[self.rank if rank is None else rank :: self.count]

    def gather(self, item: Item, rank: int = 0) -> list[Item] | None:
        """The items of all processes by rank, in the process of that rank; None in the others. All must call it.

        Blocks until every process has come here.
        """
        if self.count == 1:
            return [item]
        import torch.distributed

        received: list[Item] | None = [item] * self.count if self.rank == rank else None
        torch.distributed.gather_object(item, received, dst=rank)
        return received


@contextmanager
def joined_workers() -> Iterator[Workers]:
    """Joins the processes that torchrun started and leaves them at the end; alone without torchrun.

    They talk over gloo, about what lies on a GPU over NCCL where each has a GPU of its own.
    """
    count = int(os.environ.get('WORLD_SIZE', '1'))
    if count == 1:
        yield Workers()
        return
    import torch.distributed

    gpu_for_each = torch.cuda.device_count() >= int(os.environ.get('LOCAL_WORLD_SIZE', str(count)))
    nccl = gpu_for_each and torch.distributed.is_nccl_available()
    torch.distributed.init_process_group('cpu:gloo,cuda:nccl' if nccl else 'gloo')
    try:
        yield Workers(torch.distributed.get_rank(), count)
    finally:
        torch.distributed.destroy_process_group()


def own_gpu() -> str:
    """The GPU of this process, by its number among those that torchrun started here; they share where GPUs are
    fewer."""
    import torch

    return f'cuda:{int(os.environ["LOCAL_RANK"]) % max(1, torch.cuda.device_count())}'
