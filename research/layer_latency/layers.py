"""Convolutions and group norms whose times are measured one by one; operations and bytes follow from geometry alone.

Bytes are those that must pass even with a perfect cache; caches that are too small are the interval model's concern.
"""

from __future__ import annotations

from dataclasses import dataclass

FLOAT_BYTES = 4


@dataclass(frozen=True)
class ConvolutionShape:
    """Convolution of one image, `[in_channels, height, width]`, padded by half its kernel, a square; sizes in px."""

    in_channels: int
    out_channels: int
    kernel: int
    stride: int
    height: int
    width: int

    @property
    def family(self) -> str:
        """Layers of a family run the same kernels, so that one set of parameters describes them."""
        # Libraries take other kernels for 1x1 than for wider ones, and others when rows are left out.
        return f'convolution {self.kernel}x{self.kernel}/{self.stride}'

    @property
    def positions(self) -> int:
        """Positions of the output."""
        border = 2 * (self.kernel // 2) - self.kernel
        rows = (self.height + border) // self.stride + 1
        columns = (self.width + border) // self.stride + 1
        return rows * columns

    @property
    def weights(self) -> int:
        """Values in the kernels."""
        return self.out_channels * self.in_channels * self.kernel**2

    @property
    def operations(self) -> int:
        """Arithmetic operations; a multiplication and the addition after it count as one."""
        return self.positions * self.weights

    @property
    def load_bytes(self) -> int:
        """Bytes read, weights included."""
        # A kernel smaller than its stride passes over the rows and columns between.
        read = self.height * self.width if self.kernel >= self.stride else self.positions
        return FLOAT_BYTES * (self.in_channels * read + self.weights)

    @property
    def store_bytes(self) -> int:
        """Bytes written."""
        return FLOAT_BYTES * self.positions * self.out_channels


@dataclass(frozen=True)
class GroupNormShape:
    """Group norm of one image, `[channels, height, width]`, once through for the statistics, once to normalise."""

    family = 'group_norm'  # layers of a family run the same kernels
    channels: int
    groups: int
    height: int
    width: int

    @property
    def elements(self) -> int:
        """Values normalised."""
        return self.channels * self.height * self.width

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
