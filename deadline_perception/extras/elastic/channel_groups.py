"""Which channels of a network can be skipped together, found by union of what its operations tie.

A layer's output channels begin a *group* of their own. A sum ties two groups: both keep the same channels. A depthwise
convolution, a norm and an activation go on with the group that they read. Grouped convolutions and group norms make it
coarser: a *unit*, so many neighbouring channels, is then kept or skipped as a whole. Needs no torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(eq=False)
class ChannelGroup:
    """Channels with one ranking; a node of a union-find forest.

    Attributes:
        units: of neighbouring channels, at the root; each is kept or skipped as a whole.
        whole_because: why nothing may be skipped, at the root; empty where something may.
        names: layers whose outputs the group holds, at the root.
    """

    units: int
    whole_because: str = ''
    names: list[str] = field(default_factory=list)
    parent: ChannelGroup | None = None

    @property
    def root(self) -> ChannelGroup:
        """The node that stands for all that are tied to this one."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def coarsen(self, units: int) -> None:
        """Keeps only boundaries that a division into so many equal units has too."""
        self.root.units = math.gcd(self.root.units, units)

    def keep_whole(self, because: str) -> None:
        """Lets nothing be skipped, for the first reason that is given."""
        self.root.whole_because = self.root.whole_because or because


def tie(one: ChannelGroup, other: ChannelGroup) -> None:
    """Makes two groups one: they keep the same units from now on."""
    kept, absorbed = one.root, other.root
    if kept is absorbed:
        return
    kept.coarsen(absorbed.units)
    # The layer that is the reason stands first.
    first, second = (
        (absorbed, kept) if absorbed.whole_because and not kept.whole_because else (kept, absorbed)
    )
    kept.whole_because, kept.names = first.whole_because, first.names + second.names
    absorbed.parent = kept


@dataclass(frozen=True)
class Part:
    """A stretch of one axis of a tensor or weight that belongs to one group.

    Attributes:
        group: whose units it holds, in their order, each as long as the others.
        size: length at full width.
    """

    group: ChannelGroup
    size: int


@dataclass(frozen=True)
class Layout:
    """How the channels of a tensor lie.

    Attributes:
        axis: of the channels.
        parts: one behind the other; several behind a concatenation.
    """

    axis: int
    parts: tuple[Part, ...]

    def keep_whole(self, because: str) -> None:
        """See `ChannelGroup.keep_whole`."""
        for part in self.parts:
            part.group.keep_whole(because)

    def at(self, axis: int) -> Layout:
        """The same channels on another axis."""
        return Layout(axis, self.parts)

    def scaled(self, factor: int) -> Layout:
        """The layout where each channel has become so many neighbouring values."""
        return Layout(self.axis, tuple(Part(part.group, part.size * factor) for part in self.parts))


def tie_layouts(one: Layout, other: Layout, because: str) -> None:
    """Ties two layouts part by part; where the parts' borders differ, all are kept whole for that reason."""
    if [part.size for part in one.parts] == [part.size for part in other.parts]:
        for part, counterpart in zip(one.parts, other.parts):
            tie(part.group, counterpart.group)
    else:
        one.keep_whole(because)
        other.keep_whole(because)
