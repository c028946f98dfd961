"""What the network should have said: anchors and regions matched with the known objects."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.ops import box_iou

# Ren et al. 2015, section 3.1.2 and Girshick 2015, section 2.3, with more lenient positives for small objects.
_ANCHOR_POSITIVE_IOU = 0.6
_ANCHOR_NEGATIVE_IOU = 0.3
_REGION_POSITIVE_IOU = 0.5
_CROWD_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Truth:
    """Objects of one training image on its device.

    Attributes:
        boxes: `[G, 4]` xyxy in px of the network's input.
        labels: `[G]` from 0.
        crowd: `[C, 4]` regions that are neither right nor wrong.
    """

    boxes: Tensor
    labels: Tensor
    crowd: Tensor


def _share_inside(boxes: Tensor, regions: Tensor) -> Tensor:
    """Largest share of each box's area `[N]` that lies inside one of the regions."""
    if len(regions) == 0:
        return boxes.new_zeros(len(boxes))
    low = torch.maximum(boxes[:, None, :2], regions[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], regions[None, :, 2:])
    overlap = (high - low).clamp(min=0).prod(2)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1).clamp(min=1e-6)
    return (overlap / area[:, None]).amax(1)


def match_anchors(anchors: Tensor, truth: Truth) -> tuple[Tensor, Tensor]:
    """For each anchor `[A]`: 1 object, 0 background, -1 neither; and the index of its object.

    An object that no anchor overlaps well keeps its best ones. An image without objects is all background.
    """
    labels = torch.zeros(len(anchors), dtype=torch.int8, device=anchors.device)
    matched = torch.zeros(len(anchors), dtype=torch.long, device=anchors.device)
    if len(truth.boxes):
        overlap = box_iou(truth.boxes, anchors)
        best, matched = overlap.max(0)
        labels[best >= _ANCHOR_NEGATIVE_IOU] = -1
        labels[best >= _ANCHOR_POSITIVE_IOU] = 1
        best_of_object = overlap.amax(1, keepdim=True)
        objects, chosen = ((overlap >= best_of_object - 1e-4) & (best_of_object > 0.1)).nonzero(as_tuple=True)
        labels[chosen] = 1
        matched[chosen] = objects
    if len(truth.crowd):
        labels[(labels == 0) & (_share_inside(anchors, truth.crowd) > _CROWD_SHARE)] = -1
    return labels, matched


def sample(labels: Tensor, count: int, positive_share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random indices of at most `count` entries: positives (label 1) up to their share, the rest negatives (0)."""
    positive = (labels == 1).nonzero()[:, 0]
    negative = (labels == 0).nonzero()[:, 0]
    positives = min(len(positive), int(count * positive_share))
    negatives = min(len(negative), count - positives)

    def draw(indices: Tensor, number: int) -> Tensor:
        order = torch.randperm(len(indices), generator=generator)[:number]
        return indices[order.to(indices.device)]

    return draw(positive, positives), draw(negative, negatives)


def sample_regions(regions: Tensor, truth: Truth, count: int, positive_share: float,
                   generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Regions for training a head; the known objects are among the candidates.

    Returns:
        regions `[R, 4]`; class labels `[R]`, 0 background; target boxes `[P, 4]` of the first P regions, the objects;
        places `[R]` of the regions among those given, negative for known objects.
    """
    candidates = torch.cat((truth.boxes, regions))
    state = torch.zeros(len(candidates), dtype=torch.int8, device=candidates.device)
    matched = torch.zeros(len(candidates), dtype=torch.long, device=candidates.device)
    if len(truth.boxes):
        best, matched = box_iou(truth.boxes, candidates).max(0)
        state[best >= _REGION_POSITIVE_IOU] = 1
    if len(truth.crowd):
        state[(state == 0) & (_share_inside(candidates, truth.crowd) > _CROWD_SHARE)] = -1
    positive, negative = sample(state, count, positive_share, generator)
    labels = torch.zeros(len(positive) + len(negative), dtype=torch.long, device=candidates.device)
    if len(positive):
        labels[:len(positive)] = truth.labels[matched[positive]] + 1
        targets = truth.boxes[matched[positive]]
    else:
        targets = candidates.new_zeros((0, 4))
    chosen = torch.cat((positive, negative))
    return candidates[chosen], labels, targets, chosen - len(truth.boxes)
