"""The execution paths of a multi-path network, and the time slots a frame passes through.

A frame runs through a fixed sequence of *slots*. Some slots begin with a decision (an *operator*): a group of
residual blocks is run or skipped, a width, a number of proposals or a head is chosen. An `ExecutionPath` holds one
choice for every operator; a `PathSpace` holds all legal ones and says what each slot runs on a given path.
Needs neither torch nor ROS. Source of the operators: multi-path paper, section V-A; width: nested-network thesis.
"""
from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

_NAME = re.compile(r's(?P<skip>[01]*)-w(?P<width>[\d.]+)(-f(?P<pyramid>[\d.]+))?-p(?P<proposals>\d+)-h(?P<head>\d+)')


class Phase(str, Enum):
    """Phase of the network that a slot belongs to (multi-path paper, section II-A, with POST set apart)."""

    PRE = 'pre'
    CONV = 'conv'
    RPN = 'rpn'
    HEAD = 'head'
    POST = 'post'


@dataclass(frozen=True, order=True)
class ExecutionPath:
    """One choice for every operator.

    Attributes:
        skip: for each skip operator in order, True when its blocks are skipped.
        width: fraction of the backbone's channels that is used, in (0, 1].
        proposals: number of region proposals passed to the head, >= 1.
        head: index of the head that the switch runs, >= 0.
        pyramid_width: fraction of the channels of pyramid, RPN and head input that is used, in (0, 1].

    Raises:
        ValueError: a value lies outside its range.
    """

    skip: tuple[bool, ...]
    width: float
    proposals: int
    head: int
    pyramid_width: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, 'skip', tuple(bool(s) for s in self.skip))
        for name in ('width', 'pyramid_width'):
            value = getattr(self, name)
            if not 0.0 < value <= 1.0:
                raise ValueError(f'{name} is {value}, expected a fraction in (0, 1]')
        if self.proposals < 1:
            raise ValueError(f'proposals is {self.proposals}, expected at least 1')
        if self.head < 0:
            raise ValueError(f'head is {self.head}, expected an index of at least 0')

    def __str__(self) -> str:
        bits = ''.join('1' if skipped else '0' for skipped in self.skip)
        pyramid = '' if self.pyramid_width == 1.0 else f'-f{self.pyramid_width:.2f}'
        return f's{bits}-w{self.width:.2f}{pyramid}-p{self.proposals}-h{self.head}'

    @classmethod
    def parse(cls, name: str) -> ExecutionPath:
        """Reads a name such as `s01100-w0.50-p100-h1` or `s01100-w0.50-f0.50-p100-h1`; inverse of `str`.

        Raises:
            ValueError: the name has another form.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f'execution path is {name!r}, expected a form such as s01100-w0.50-f0.50-p100-h1')
        return cls(skip=tuple(bit == '1' for bit in match['skip']), width=float(match['width']),
                   proposals=int(match['proposals']), head=int(match['head']),
                   pyramid_width=float(match['pyramid'] or 1.0))


@dataclass(frozen=True)
class Slot:
    """One step of a frame's way through the network.

    Attributes:
        name: unique name, such as `stage2` or `skip1`.
        phase: phase of the network.
        operator: the operator decided as the slot begins, None where nothing is decided: `width`, `skip0`, ...,
            `pyramid_width`, `proposals` or `head`.
    """

    name: str
    phase: Phase
    operator: str | None = None


@dataclass(frozen=True)
class PathSpace:
    """All legal execution paths of one network. Iterable; `len` and `in` work.

    Attributes:
        skips_per_stage: number of skip operators in each backbone stage, which follow the stage's first block.
        widths: legal backbone widths, descending, the first is 1; two decimals at most.
        pyramid_widths: legal pyramid widths, descending, the first is 1; two decimals at most.
        proposals: legal numbers of proposals, ascending.
        heads: number of heads; head 0 is the cheapest.

    Raises:
        ValueError: a choice is empty or out of order, or a width does not survive in a path's name.
    """

    skips_per_stage: tuple[int, ...]
    widths: tuple[float, ...]
    pyramid_widths: tuple[float, ...]
    proposals: tuple[int, ...]
    heads: int

    def __post_init__(self) -> None:
        for name in ('skips_per_stage', 'widths', 'pyramid_widths', 'proposals'):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.skips_per_stage or min(self.skips_per_stage) < 0:
            raise ValueError(f'skips_per_stage is {self.skips_per_stage}, expected one count >= 0 per stage')
        for name in ('widths', 'pyramid_widths'):
            values = getattr(self, name)
            if not values or values[0] != 1.0 or list(values) != sorted(set(values), reverse=True) or values[-1] <= 0:
                raise ValueError(f'{name} is {values}, expected fractions in (0, 1], descending from 1.0')
            if any(round(value, 2) != value for value in values):
                raise ValueError(f'{name} is {values}, expected at most two decimals, as in the names of paths')
        if not self.proposals or list(self.proposals) != sorted(set(self.proposals)) or self.proposals[0] < 1:
            raise ValueError(f'proposals is {self.proposals}, expected ascending counts of at least 1')
        if self.heads < 1:
            raise ValueError(f'heads is {self.heads}, expected at least 1')

    @cached_property
    def skips(self) -> int:
        """Number of skip operators."""
        return sum(self.skips_per_stage)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The slots in the order in which a frame passes them."""
        slots = [Slot('pre', Phase.PRE)]
        skip = 0
        for stage, count in enumerate(self.skips_per_stage, 1):
            slots.append(Slot(f'stage{stage}', Phase.CONV, 'width' if stage == 1 else None))
            for _ in range(count):
                slots.append(Slot(f'skip{skip}', Phase.CONV, f'skip{skip}'))
                skip += 1
        slots += [Slot('pyramid', Phase.CONV, 'pyramid_width'), Slot('rpn', Phase.RPN),
                  Slot('proposals', Phase.RPN, 'proposals'), Slot('head', Phase.HEAD, 'head'),
                  Slot('post', Phase.POST)]
        return tuple(slots)

    def __iter__(self) -> Iterator[ExecutionPath]:
        for skip, width, pyramid, proposals, head in itertools.product(
                itertools.product((False, True), repeat=self.skips), self.widths, self.pyramid_widths,
                self.proposals, range(self.heads)):
            yield ExecutionPath(skip, width, proposals, head, pyramid)

    def __len__(self) -> int:
        return 2 ** self.skips * len(self.widths) * len(self.pyramid_widths) * len(self.proposals) * self.heads

    def __contains__(self, path: object) -> bool:
        return (isinstance(path, ExecutionPath) and len(path.skip) == self.skips and path.width in self.widths
                and path.pyramid_width in self.pyramid_widths and path.proposals in self.proposals
                and path.head < self.heads)

    @property
    def largest(self) -> ExecutionPath:
        """The path with every operator at its largest setting."""
        return ExecutionPath((False,) * self.skips, 1.0, self.proposals[-1], self.heads - 1)

    @property
    def smallest(self) -> ExecutionPath:
        """The path with every operator at its smallest setting."""
        return ExecutionPath((True,) * self.skips, self.widths[-1], self.proposals[0], 0, self.pyramid_widths[-1])

    def segment(self, slot: int, path: ExecutionPath) -> str | None:
        """Name of what a slot runs on a path; equal names take equal work. None when the slot runs nothing.

        Args:
            slot: index into `slots`.
            path: a path of this space.
        """
        name = self.slots[slot].name
        if name.startswith('skip'):
            return None if path.skip[int(name[4:])] else f'{name}@w{path.width:.2f}'
        if name.startswith('stage'):
            return f'{name}@w{path.width:.2f}'
        return {'pre': 'pre',
                'pyramid': f'pyramid@w{path.width:.2f}-f{path.pyramid_width:.2f}',
                'rpn': f'rpn@f{path.pyramid_width:.2f}',
                'proposals': f'proposals@p{path.proposals}',
                'head': f'head{path.head}@f{path.pyramid_width:.2f}-p{path.proposals}',
                'post': f'post@p{path.proposals}'}[name]

    def segments(self, path: ExecutionPath, start: int = 0) -> tuple[str, ...]:
        """Names of all that a path runs from slot `start` on."""
        names = (self.segment(slot, path) for slot in range(start, len(self.slots)))
        return tuple(name for name in names if name is not None)

    def prefix(self, path: ExecutionPath, slot: int) -> tuple:
        """The choices that are already made when slot number `slot` begins; its own operator is still free."""
        taken = []
        for passed in self.slots[:slot]:
            if passed.operator is None:
                continue
            if passed.operator.startswith('skip'):
                taken.append(path.skip[int(passed.operator[4:])])
            else:
                taken.append(getattr(path, passed.operator))
        return tuple(taken)

    def continuations(self, path: ExecutionPath, slot: int) -> Iterator[ExecutionPath]:
        """All paths that make the same choices as `path` before slot number `slot`, itself among them."""
        free = {passed.operator for passed in self.slots[slot:] if passed.operator}
        skips = [(False, True) if f'skip{i}' in free else (path.skip[i],) for i in range(self.skips)]
        for skip, width, pyramid, proposals, head in itertools.product(
                itertools.product(*skips), self.widths if 'width' in free else (path.width,),
                self.pyramid_widths if 'pyramid_width' in free else (path.pyramid_width,),
                self.proposals if 'proposals' in free else (path.proposals,),
                range(self.heads) if 'head' in free else (path.head,)):
            yield replace(path, skip=skip, width=width, pyramid_width=pyramid, proposals=proposals, head=head)
