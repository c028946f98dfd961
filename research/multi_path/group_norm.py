"""Group norms, beside the convolutions of the package the other kind of layer whose times are predicted."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / 'layer_latency'))
from layers import FLOAT_BYTES, ConvolutionShape


@dataclass(frozen=True)
class GroupNormShape:
    """Group norm of `[batch, channels, height, width]`, once through for the statistics, once to normalise.

    Attributes:
        channels: channels, a multiple of the groups.
        groups: groups that share mean and standard deviation.
        height, width: size in px.
        batch: images, or regions in a head.

    Raises:
        ValueError: an attribute is below 1, or the channels are no multiple of the groups.
    """

    family = 'group_norm'  # layers of a family run the same kernels
    channels: int
    groups: int
    height: int
    width: int
    batch: int = 1

    def __post_init__(self) -> None:
        if min(self.channels, self.groups, self.height, self.width, self.batch) < 1:
            raise ValueError(f'{self} has an attribute below 1')
        if self.channels % self.groups:
            raise ValueError(
                f'channels of group_norm is {self.channels}, expected a multiple of its {self.groups} '
                'groups'
            )

    @property
    def elements(self) -> int:
        """Values normalised."""
        return self.batch * self.channels * self.height * self.width

    @property
    def operations(self) -> int:
        """See `ConvolutionShape`."""
        return 3 * self.elements  # sum, sum of squares, scale and shift

    @property
    def load_bytes(self) -> int:
        """See `ConvolutionShape`."""
        return FLOAT_BYTES * (2 * self.elements + 2 * self.channels)

    @property
    def store_bytes(self) -> int:
        """See `ConvolutionShape`."""
        return FLOAT_BYTES * self.elements


LayerShape = ConvolutionShape | GroupNormShape
