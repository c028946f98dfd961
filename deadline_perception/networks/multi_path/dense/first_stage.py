"""The first stage of a dense detector: towers over every level, and the boxes of its answer that go on.

Source: Zhang et al. 2020 (ATSS): a class's score is its probability times how well the anchor is centred.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.networks.multi_path import boxes as box_ops
from deadline_perception.networks.multi_path.dense.configuration import STRIDES, DenseConfig
from deadline_perception.networks.multi_path.dense.outline import (
    ANCHOR_RATIOS,
    CANDIDATES,
    DELTA_WEIGHTS,
    NMS_IOU,
    all_anchors,
)
from deadline_perception.networks.multi_path.operators import Layers, SlicedConv2d, SlicedFrozenNorm

_LAYERS = 4


class Tower(nn.Module):
    """Four 3x3 convolutions that all levels share, each followed by norms of the level's own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.convolutions = Layers(SlicedConv2d(channels, channels, 3) for _ in range(_LAYERS))
        self.norms = Layers(
            Layers(SlicedFrozenNorm(channels, (1.0,)) for _ in STRIDES) for _ in range(_LAYERS)
        )

    def forward(self, x: Tensor, level: int) -> Tensor:
        """`[N, c, h, w]` of one level -> the same shape."""
        for convolution, norms in zip(self.convolutions, self.norms):
            x = F.relu(convolution(x, self.channels, norms[level]))
        return x


# A score of 1e-7. Background reaches -250, where the error of 8 bit would be most of what the preparation of segments
# measures: 11 to 13 dB of signal to error on the longest path of `street` without the limit, 23 with it.
_LEAST_LOGIT = -16.0


class FirstStage(nn.Module):
    """Class logits, centredness and box deltas of every anchor."""

    def __init__(self, config: DenseConfig, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.per_position = len(ANCHOR_RATIOS)
        channels = config.pyramid_channels
        self.class_tower = Tower(channels)
        self.box_tower = Tower(channels)
        self.class_output = SlicedConv2d(channels, classes * self.per_position, 3, bias=True)
        self.box_output = SlicedConv2d(channels, 4 * self.per_position, 3, bias=True)
        self.centre_output = SlicedConv2d(channels, self.per_position, 3, bias=True)
        self.box_scales = nn.Parameter(torch.ones(len(STRIDES)))
        for output in (self.class_output, self.box_output, self.centre_output):
            nn.init.normal_(output.weight, std=0.01)
        with torch.no_grad():
            # A probability of 1 %: almost every anchor is background.
            self.class_output.get_parameter('bias').fill_(-4.6)

    def forward(self, levels: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Pyramid levels -> class logits `[N, A, classes]`, logits of centredness `[N, A]`, deltas `[N, A, 4]`."""
        parts = []
        for number, level in enumerate(levels):
            x = self.class_tower(level, number)
            y = self.box_tower(level, number)
            outputs = (
                self.class_output(x, self.class_output.weight.shape[0]),
                self.centre_output(y, self.per_position),
                self.box_output(y, 4 * self.per_position) * self.box_scales[number],
            )
            parts.append(
                [
                    output.permute(0, 2, 3, 1).reshape(len(output), -1, size)
                    for output, size in zip(outputs, (self.classes, 1, 4))
                ]
            )
        logits, centred, deltas = (torch.cat(part, 1) for part in zip(*parts))
        if not self.training:
            logits = logits.clamp(min=_LEAST_LOGIT)
        return logits, centred[..., 0], deltas


@cache
@torch.inference_mode(False)
def anchors_on(size: tuple[int, int], device: torch.device) -> Tensor:
    """See `all_anchors`."""
    return torch.from_numpy(all_anchors(size)).to(device)


class DenseProposals:
    """Keeps the best boxes of the first stage; how many is decided when the scores are known."""

    @torch.no_grad()
    def __call__(
        self,
        logits: Tensor,
        centred: Tensor,
        deltas: Tensor,
        proposals: int,
        size: tuple[int, int],
    ) -> tuple[Tensor, Tensor]:
        """Of one image the best boxes `[proposals, 4]`, and their scores `[proposals, classes]`; where there are fewer,
        the last ones are zero.

        Args:
            logits, centred, deltas: of a batch of one, see `FirstStage`.
            proposals: number of boxes.
            size: height and width of the image in px.
        """
        best, boxes, chosen = self.ranked(logits, centred, deltas, proposals, size)
        kept = box_ops.nms(boxes[0], best[0], NMS_IOU)
        none = kept.new_full((proposals,), best.shape[1])
        places = torch.cat((kept, none))[:proposals].view(proposals)
        scores = logits[0][chosen[0]].sigmoid() * centred[0][chosen[0]].sigmoid()[:, None]
        scores = torch.cat((scores, scores.new_zeros((1, scores.shape[1]))))
        return torch.cat((boxes[0], boxes.new_zeros((1, 4))))[places], scores[places]

    def ranked(
        self,
        logits: Tensor,
        centred: Tensor,
        deltas: Tensor,
        proposals: int,
        size: tuple[int, int],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of the best anchors of each image the scores `[N, K]`, boxes `[N, K, 4]` and places `[N, K]`."""
        best = (logits.amax(2).sigmoid() * centred.sigmoid()).float()
        top, chosen = best.topk(min(CANDIDATES * proposals, best.shape[1]))
        anchors = anchors_on(size, best.device)[chosen]
        found = deltas.gather(1, chosen[..., None].expand(-1, -1, 4)).float()
        boxes = box_ops.clip(
            box_ops.decode(found.flatten(0, 1), anchors.flatten(0, 1), DELTA_WEIGHTS), size
        )
        return top, boxes.view(len(logits), -1, 4), chosen
