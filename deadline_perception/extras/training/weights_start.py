"""Weights of another network as a start, layer by layer, as far as both networks have the same ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.networks.multi_path.operators import SlicedNorm
from deadline_perception.networks.multi_path.shape import DetectorShape


@dataclass(frozen=True)
class WeightsStart:
    """What of other weights went into a network.

    Attributes:
        taken: how many were taken, in words.
        absent: what stays as it was: tensors, layers by the names that the other weights would have, classes.
        unused: weights that have no place here.
        absent_are: what the absent ones are now.
    """

    taken: str
    absent: tuple[str, ...]
    unused: tuple[str, ...]
    absent_are: str = 'fresh'

    def __str__(self) -> str:
        text = self.taken
        for what, names in ((f'absent, {self.absent_are}', self.absent), ('unused', self.unused)):
            if names:
                text += f'; {len(names)} {what}: {", ".join(names[:3])}{", ..." if len(names) > 3 else ""}'
        return text


@torch.no_grad()
def start_from_weights(network: MultiPathDetector, other: MultiPathDetector) -> WeightsStart:
    """Fills a network in place with the weights of another, by their names and shapes.

    Skipped groups of a stage are matched in order by their number of blocks, heads by their shapes, rows of a head's
    classes by the classes' names, rows of a norm by the number of channels they are for. A frozen norm takes scale and
    shift of a group norm too; its statistics must be measured then (see `training.norm_statistics`).

    Raises:
        ValueError: the other network's norms are frozen and these are not, or no weight has a place here.
    """
    if network.config.norm != other.config.norm == 'frozen':
        raise ValueError(
            f'norms of {network.config_name!r} are {network.config.norm}, expected frozen ones as in the '
            f'weights to start from'
        )
    prefixes = dict(_matching_parts(network.config, other.config))
    stored, used, absent = other.state_dict(), set(), []
    known = [
        (row, other.class_names.index(name))
        for row, name in enumerate(network.class_names)
        if name in other.class_names
    ]
    for name, tensor in network.state_dict().items():
        part = next((prefix for prefix in prefixes if name.startswith(prefix)), '')
        place = prefixes.get(part, '')
        source = None if place is None else place + name.removeprefix(part)
        if source not in stored:
            absent.append(name)
            continue
        module = network.get_submodule(name.rpartition('.')[0])
        others = other.get_submodule(source.rpartition('.')[0])
        pairs: list[tuple[int, int]] | None = None
        if isinstance(module, SlicedNorm) and isinstance(others, SlicedNorm):
            rows = others.rows
            pairs = [
                (row, rows[channels]) for channels, row in module.rows.items() if channels in rows
            ]
        elif '.classes.' in name:
            pairs = [(0, 0), *((1 + row, 1 + theirs) for row, theirs in known)]
        elif (
            '.class_output.' in name
        ):  # the classes of each anchor of a position, one anchor after the other
            counts = len(network.class_names), len(other.class_names)
            pairs = [
                (at * counts[0] + row, at * counts[1] + theirs)
                for at in range(len(tensor) // counts[0])
                for row, theirs in known
            ]
        if _copy(tensor, stored[source].to(tensor.device), pairs):
            used.add(source)
        else:
            absent.append(name)
    if not used:
        raise ValueError(
            f'{other.config_name!r} has no weights in the shape of those of {network.config_name!r}'
        )
    absent += [f'class {name}' for name in network.class_names if name not in other.class_names]
    network.train(network.training)  # drops slices of the old weights
    return WeightsStart(
        f'{len(used)} tensors taken',
        tuple(absent),
        tuple(name for name in stored if name not in used),
    )


def _copy(to: Tensor, values: Tensor, rows: list[tuple[int, int]] | None) -> bool:
    """Copies a tensor, or pairs of rows of it; False where the shapes differ."""
    if rows is None:
        if to.shape != values.shape:
            return False
        to.copy_(values)
        return True
    if to.shape[1:] != values.shape[1:] or not rows:
        return False
    mine, others = (list(column) for column in zip(*rows))
    to[mine] = values[others]
    return True


def _matching_parts(
    config: DetectorShape, other: DetectorShape
) -> Iterator[tuple[str, str | None]]:
    """Where parts lie in a network, and where the other one has those like them, None where it has none."""
    first, others_first = 0, 0
    for groups, others in zip(config.skip_groups, other.skip_groups):
        for at, found in enumerate(_matched(groups, others)):
            yield (
                f'backbone.skips.{first + at}.',
                None if found is None else f'backbone.skips.{others_first + found}.',
            )
        first, others_first = first + len(groups), others_first + len(others)
    for at, found in enumerate(_matched(config.heads, other.heads)):
        yield f'heads.subnets.{at}.', None if found is None else f'heads.subnets.{found}.'


def _matched(parts: Sequence[object], others: Sequence[object]) -> list[int | None]:
    """For each part the first of the others that is equal to it and not taken yet."""
    free = dict(enumerate(others))
    found = []
    for part in parts:
        at = next((at for at, other in free.items() if other == part), None)
        found.append(at)
        if at is not None:
            del free[at]
    return found
