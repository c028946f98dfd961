"""The loss of one path on one batch: objectness, anchor boxes, classes, final boxes."""
from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from deadline_perception.detector import boxes as box_ops
from deadline_perception.detector import heads as head_ops
from deadline_perception.detector import proposals as proposal_ops
from deadline_perception.detector.network import MultiPathDetector
from deadline_perception.execution_path import ExecutionPath
from deadline_perception.learning.targets import Truth, match_anchors, sample, sample_regions

_ANCHORS_PER_IMAGE = 256
_REGIONS_PER_IMAGE = 128
_REGION_POSITIVE_SHARE = 0.25
_TRAINING_PROPOSALS = 200
_BOX_BETA = 1.0 / 9.0


def match_batch(network: MultiPathDetector, truths: list[Truth]) -> list[tuple[Tensor, Tensor]]:
    """Anchor matches of each image; they do not depend on the path and serve all paths of a step."""
    anchors = torch.cat([network.rpn.anchors(level) for level in range(len(proposal_ops.STRIDES))])
    return [match_anchors(anchors, truth) for truth in truths]


def path_losses(network: MultiPathDetector, images: Tensor, truths: list[Truth],
                matches: list[tuple[Tensor, Tensor]], path: ExecutionPath, heads: tuple[int, ...],
                generator: torch.Generator) -> dict[str, Tensor]:
    """Losses of one path, each a scalar.

    Args:
        network: in training mode.
        images: `[N, 3, h, w]`, normalised.
        truths: N images' objects.
        matches: from `match_batch`.
        path: what runs; its `proposals` and `head` do not matter here.
        heads: the heads to train on this path's regions, each with a loss of its own.
        generator: draws the samples; on the CPU.
    """
    levels = network.features(images, path)
    logits, deltas = network.rpn(levels)
    all_logits = torch.cat(logits, 1).float()
    all_deltas = torch.cat(deltas, 1).float()
    anchors = torch.cat([network.rpn.anchors(level) for level in range(len(levels))])
    objectness, anchor_boxes, count = [], [], 0
    for i, (truth, (labels, matched)) in enumerate(zip(truths, matches)):
        positive, negative = sample(labels, _ANCHORS_PER_IMAGE, 0.5, generator)
        chosen = torch.cat((positive, negative))
        wanted = torch.zeros(len(chosen), device=images.device)
        wanted[:len(positive)] = 1.0
        objectness.append(F.binary_cross_entropy_with_logits(all_logits[i, chosen], wanted, reduction='sum'))
        if len(positive):
            target = box_ops.encode(truth.boxes[matched[positive]], anchors[positive], proposal_ops.DELTA_WEIGHTS)
            anchor_boxes.append(F.smooth_l1_loss(all_deltas[i, positive], target, beta=_BOX_BETA, reduction='sum'))
        count += len(chosen)
    losses = {'objectness': torch.stack(objectness).sum() / count,
              'anchor_boxes': sum(anchor_boxes, all_deltas.sum() * 0.0) / count}

    regions, region_labels, targets, origins = [], [], [], []
    positives = []
    for i, truth in enumerate(truths):
        proposed, _ = network.select_proposals(network.rpn, logits, deltas, i, _TRAINING_PROPOSALS)
        boxes, labels, target = sample_regions(proposed, truth, _REGIONS_PER_IMAGE, _REGION_POSITIVE_SHARE, generator)
        positives.append(torch.arange(len(boxes), device=boxes.device) < len(target))
        regions.append(boxes)
        region_labels.append(labels)
        targets.append(target)
        origins.append(torch.full((len(boxes),), i, device=boxes.device))
    boxes, labels, target = torch.cat(regions), torch.cat(region_labels), torch.cat(targets)
    positive = torch.cat(positives)
    features = head_ops.cut_regions([level.float() for level in levels], boxes,
                                    proposal_ops.pyramid_levels(boxes, len(levels)), torch.cat(origins))
    wanted = box_ops.encode(target, boxes[positive], head_ops.DELTA_WEIGHTS)
    for head in heads:
        class_logits, box_deltas = network.heads.subnets[head](features)
        losses[f'classes_h{head}'] = F.cross_entropy(class_logits.float(), labels)
        losses[f'boxes_h{head}'] = F.smooth_l1_loss(box_deltas.float()[positive], wanted, beta=1.0,
                                                    reduction='sum') / max(len(boxes), 1)
    return losses
