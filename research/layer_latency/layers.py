"""Convolutions whose times are measured one by one, with operations and bytes that follow from geometry alone.

Bytes are those that must pass even with a perfect cache; caches that are too small are the interval model's concern.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

FLOAT_BYTES = 4


@dataclass(frozen=True)
class ConvolutionShape:
    """Convolution of `[batch, in_channels, height, width]`, padded by half its kernel.

    Attributes:
        in_channels, out_channels: channels read and written.
        kernel: side of the kernel.
        stride: step in px.
        height, width: size of the input in px.
        batch: images, or regions in a head.
        groups: of channels that are convolved apart; as many as there are channels in a depthwise convolution.

    Raises:
        ValueError: an attribute is no integer of at least 1.
    """

    in_channels: int
    out_channels: int
    kernel: int
    stride: int
    height: int
    width: int
    batch: int = 1
    groups: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f'{field.name} of convolution is {value!r}, expected an integer of at least 1'
                )

    @property
    def family(self) -> str:
        """Layers of a family run the same kernels, so that one set of parameters describes them."""
        # Libraries take other kernels for 1x1 than for wider ones, and others when rows are left out.
        apart = ' in groups' if self.groups > 1 else ''
        return f'convolution {self.kernel}x{self.kernel}/{self.stride}{apart}'

    @property
    def out_height(self) -> int:
        """Rows of the output."""
        return (self.height + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1

    @property
    def out_width(self) -> int:
        """Columns of the output."""
        return (self.width + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1

    @property
    def positions(self) -> int:
        """Positions of the output, over the whole batch."""
        return self.batch * self.out_height * self.out_width

    @property
    def weights(self) -> int:
        """Values in the kernels."""
        return self.out_channels * self.in_channels // self.groups * self.kernel**2

    @property
    def operations(self) -> int:
        """Arithmetic operations; a multiplication and the addition after it count as one."""
        return self.positions * self.weights

    @property
    def load_bytes(self) -> int:
        """Bytes read, weights included."""
        # A kernel smaller than its stride passes over the rows and columns between.
        read = (
            self.height * self.width
            if self.kernel >= self.stride
            else self.out_height * self.out_width
        )
        return FLOAT_BYTES * (self.batch * self.in_channels * read + self.weights)

    @property
    def store_bytes(self) -> int:
        """Bytes written."""
        return FLOAT_BYTES * self.positions * self.out_channels
