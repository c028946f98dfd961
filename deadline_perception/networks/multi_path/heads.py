"""From regions to classes and boxes: features cut out per region, the subnets of the switch, the final decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.networks.multi_path.array_forms import (
    BINS,
    SAMPLES,
    level_table,
)
from deadline_perception.networks.multi_path.operators import (
    Layers,
    SlicedConv2d,
    SlicedLinear,
    SlicedNorm,
)
from deadline_perception.networks.multi_path.shape import HeadConfig


def region_features(
    levels: Sequence[Tensor],
    boxes: Tensor,
    box_levels: Tensor,
    images: Tensor | None = None,
    *,
    strides: tuple[int, ...],
) -> Tensor:
    """Bilinear region features from the pyramid (RoIAlign, 7x7 bins of 2x2 samples, aligned), differentiable.

    Written as one weighted sum of rows, which on a CPU is several times as fast as torchvision's operator because
    rows of channels-last features are contiguous, and gives the same values.

    Args:
        levels: per stride features `[N, c, H, W]`.
        boxes: `[R, 4]` xyxy in px.
        box_levels: `[R]` index into `levels`.
        images: `[R]` index into the batch, None for a batch of one.
        strides: of the levels, in px.

    Returns:
        `[R, 49 * c]`, bin by bin, the channels of a bin together.
    """
    return features_of_rows(
        torch.cat([level.permute(0, 2, 3, 1).reshape(-1, level.shape[1]) for level in levels]),
        tuple((len(level), *level.shape[2:]) for level in levels),
        boxes,
        box_levels,
        images,
        strides=strides,
    )


def features_of_rows(
    rows: Tensor,
    shapes: tuple[tuple[int, int, int], ...],
    boxes: Tensor,
    box_levels: Tensor,
    images: Tensor | None = None,
    *,
    strides: tuple[int, ...],
) -> Tensor:
    """As `region_features`, of levels that lie in one matrix.

    Args:
        rows: channels of every position of every level `[positions, c]`, row by row of each image.
        shapes: images, height and width of each level.
        boxes, box_levels, images, strides: as there.
    """
    channels = rows.shape[1]
    regions = len(boxes)
    if regions == 0:
        return rows.new_zeros((0, BINS * BINS * channels))
    sizes, starts, scales, steps = _level_table(shapes, strides, boxes.device)
    scale = scales[box_levels]
    size = sizes[box_levels]
    base = starts[box_levels]
    if images is not None:
        base = base + images * size.prod(1)
    # Of x and y at once, [R, 2, 14]: neighbouring positions of each sample, and their weights.
    low = boxes[:, :2] * scale
    high = boxes[:, 2:] * scale
    at = (low - 0.5)[..., None] + (high - low)[..., None] * steps
    inside = (at >= -1.0) & (at <= size[..., None])
    last = (size - 1)[..., None]
    at = at.clamp(min=0.0)
    before = torch.minimum(at.long(), last)
    fraction = (at - before).masked_fill(before >= last, 0.0)
    positions = torch.stack((before, torch.minimum(before + 1, last)), -1).view(
        regions, 2, BINS, 2 * SAMPLES
    )
    shares = torch.stack(((1 - fraction) * inside, fraction * inside), -1).view(
        regions, 2, BINS, 2 * SAMPLES
    )
    row_starts = positions[:, 1] * size[:, 0, None, None] + base[:, None, None]
    indices = row_starts[:, :, None, :, None] + positions[:, 0, None, :, None, :]
    weights = shares[:, 1, :, None, :, None] * (
        shares[:, 0, None, :, None, :] / (SAMPLES * SAMPLES)
    )
    indices, weights = (part.reshape(regions * BINS * BINS, -1) for part in (indices, weights))
    bins = F.embedding_bag(indices, rows, mode='sum', per_sample_weights=weights.to(rows.dtype))
    return bins.view(regions, BINS * BINS * channels)


def pyramid_levels(boxes: Tensor, levels: int, finest: int) -> Tensor:
    """Level `[N]` whose resolution suits each box `[N, 4]` xyxy in px; 0 is the finest.

    The rule of feature pyramid networks, log2 of the side, set so that an object spans 7 to 14 positions of its
    level where it can: at a finest stride of 4 px, sides under 56 px are level 0, under 112 px level 1, and so on.
    """
    side = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).clamp(min=1.0).sqrt()
    return (side / (14.0 * finest)).log2().add_(1.0).floor_().clamp_(0, levels - 1).long()


@cache
@torch.inference_mode(False)
def _level_table(
    shapes: tuple[tuple[int, int, int], ...], strides: tuple[int, ...], device: torch.device
) -> tuple[Tensor, ...]:
    """See `level_table`; sizes as integers. Kept, because copying numbers to a GPU makes it wait, and is not allowed while
    a CUDA graph is captured."""
    sizes, starts, *others = (
        torch.from_numpy(part).to(device) for part in level_table(shapes, strides)
    )
    return (sizes.long(), starts.long(), *others)


class Head(nn.Module):
    """One subnet of the switch: convolutions, fully connected layers, class logits and box deltas of its own.

    Args:
        channels: of the pyramid at full width.
        shape: its layers.
        classes: of objects.
        norm: makes what follows a convolution.
    """

    def __init__(
        self,
        channels: int,
        shape: HeadConfig,
        classes: int,
        norm: Callable[[], SlicedNorm],
    ) -> None:
        super().__init__()
        self.convolutions = Layers(
            SlicedConv2d(channels, channels, 3) for _ in range(shape.convolutions)
        )
        self.norms = Layers(norm() for _ in range(shape.convolutions))
        self.first = SlicedLinear(BINS * BINS, channels, shape.fully_connected[0])
        sizes = shape.fully_connected
        self.others = Layers(nn.Linear(sizes[i], sizes[i + 1]) for i in range(len(sizes) - 1))
        self.classes = nn.Linear(sizes[-1], classes + 1)
        self.deltas = nn.Linear(sizes[-1], 4)
        nn.init.normal_(self.classes.weight, std=0.01)
        nn.init.zeros_(self.classes.bias)
        nn.init.normal_(self.deltas.weight, std=0.001)
        nn.init.zeros_(self.deltas.bias)

    def forward(self, regions: Tensor) -> tuple[Tensor, Tensor]:
        """`[R, 49 * c]` from `region_features` -> class logits `[R, 1 + classes]` (0: background), deltas `[R, 4]`."""
        if len(self.convolutions):
            channels = regions.shape[1] // (BINS * BINS)
            x = regions.view(-1, BINS, BINS, channels).permute(0, 3, 1, 2)
            for convolution, norm in zip(self.convolutions, self.norms):
                x = F.relu_(convolution(x, channels, norm))
            regions = x.permute(0, 2, 3, 1).reshape(-1, BINS * BINS * channels)
        x = F.relu_(self.first(regions))
        for layer in self.others:
            x = F.relu_(layer(x))
        return self.classes(x), self.deltas(x)
