"""Region proposals: the network that scores anchors, and DynamicProposals, which keeps as many as time allows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.extras.faster_rcnn.configuration import DetectorConfig
from deadline_perception.extras.faster_rcnn.outline import (
    MIN_SIDE_PX,
    PROPOSAL_DELTA_WEIGHTS,
    PROPOSAL_NMS_IOU,
    anchor_levels,
)
from deadline_perception.networks.multi_path import boxes as box_ops
from deadline_perception.networks.multi_path.operators import SlicedConv2d


class RegionProposalNetwork(nn.Module):
    """A 3x3 convolution and, per anchor, one objectness logit and four box deltas; shared by all levels."""

    def __init__(self, config: DetectorConfig) -> None:
        super().__init__()
        self.per_position = len(config.anchor_sizes_px[0]) * len(config.anchor_ratios)
        channels = config.pyramid_channels
        self.convolution = SlicedConv2d(channels, channels, 3, bias=True)
        self.outputs = SlicedConv2d(channels, 5 * self.per_position, 1, bias=True)
        nn.init.normal_(self.outputs.weight, std=0.01)
        with torch.no_grad():
            # Objectness starts near 1 %: almost every anchor is background.
            self.outputs.get_parameter('bias')[: self.per_position] = -4.6

    def forward(self, levels: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Pyramid levels -> per level objectness logits `[N, A]` and box deltas `[N, A, 4]`."""
        logits, deltas = [], []
        for level in levels:
            x = F.relu_(self.convolution(level, level.shape[1]))
            y = self.outputs(x, 5 * self.per_position).permute(0, 2, 3, 1)
            logits.append(y[..., : self.per_position].flatten(1))
            deltas.append(y[..., self.per_position :].reshape(len(y), -1, 4))
        return logits, deltas


@cache
@torch.inference_mode(False)
def lay_out_anchors(
    config: DetectorConfig, size: tuple[int, int], device: torch.device
) -> tuple[Tensor, ...]:
    """See `anchor_levels`."""
    return tuple(torch.from_numpy(level).to(device) for level in anchor_levels(config, size))


class DynamicProposals:
    """Keeps the most promising regions of one image; how many is decided when the scores are known.

    Source: multi-path paper, section V-A. The work grows with the number: it bounds the candidates per level too.
    """

    def __init__(self, config: DetectorConfig) -> None:
        self.config = config
        self.candidates = config.nms_candidates

    @torch.no_grad()
    def __call__(
        self,
        logits: Sequence[Tensor],
        deltas: Sequence[Tensor],
        proposals: int,
        size: tuple[int, int],
    ) -> Tensor:
        """Of one image `proposals` boxes `[P, 4]`, best first; where there are fewer, the last ones are zero.

        Args:
            logits, deltas: output of the RPN for a batch of one.
            proposals: number of regions to keep at most.
            size: height and width of the image in px.
        """
        boxes, scores = (part[0] for part in self.ranked(logits, deltas, proposals, size))
        boxes = boxes * (scores > -torch.inf)[:, None]
        kept = box_ops.nms(boxes, scores, PROPOSAL_NMS_IOU)
        none = kept.new_full((proposals,), len(boxes))
        return torch.cat((boxes, boxes.new_zeros((1, 4))))[
            torch.cat((kept, none))[:proposals].view(proposals)
        ]

    def ranked(
        self,
        logits: Sequence[Tensor],
        deltas: Sequence[Tensor],
        proposals: int,
        size: tuple[int, int],
    ) -> tuple[Tensor, Tensor]:
        """The best anchors' boxes `[N, K, 4]` and scores `[N, K]` of all levels; a box too small has the score -inf."""
        anchors = lay_out_anchors(self.config, size, logits[0].device)
        keep_per_level = min(self.candidates, 2 * proposals)
        scores, chosen, origins = [], [], []
        for level, (level_logits, level_deltas) in enumerate(zip(logits, deltas)):
            top, indices = level_logits.float().topk(min(keep_per_level, level_logits.shape[1]))
            scores.append(top)
            chosen.append(level_deltas.gather(1, indices[..., None].expand(-1, -1, 4)))
            origins.append(anchors[level][indices])
        # Decoded together: on few boxes each operation costs its call.
        found, at = torch.cat(chosen, 1).float().flatten(0, 1), torch.cat(origins, 1).flatten(0, 1)
        flat = box_ops.decode(found, at, PROPOSAL_DELTA_WEIGHTS)
        boxes = box_ops.clip(flat, size).view(len(logits[0]), -1, 4)
        sides = boxes[..., 2:] - boxes[..., :2]
        return boxes, torch.cat(scores, 1).masked_fill(~(sides >= MIN_SIDE_PX).all(-1), -torch.inf)
