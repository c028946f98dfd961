"""The regions that the first stage of a detector proposes in each image of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import batched_nms, nms

from deadline_perception.extras.faster_rcnn.outline import PROPOSAL_NMS_IOU
from deadline_perception.extras.faster_rcnn.proposals import DynamicProposals
from deadline_perception.networks.multi_path.dense.first_stage import DenseProposals
from deadline_perception.networks.multi_path.dense.outline import NMS_IOU


@torch.no_grad()
def proposals_of_batch(
    select: DynamicProposals | DenseProposals,
    answered: Sequence[Tensor | Sequence[Tensor]],
    proposals: int,
    size: tuple[int, int],
) -> list[np.ndarray]:
    """The boxes `[P, 4]` of every image, best first, on the CPU.

    Args:
        select: chooses among those of one image.
        answered: what the first stage gives of the batch.
        proposals: boxes of an image at most.
        size: height and width of the images in px.
    """
    if isinstance(select, DenseProposals):
        best, boxes, _ = select.ranked(*answered, proposals, size)
        return [
            of_image[nms(of_image, score, NMS_IOU)[:proposals]].cpu().numpy()
            for of_image, score in zip(boxes, best)
        ]
    boxes, scores = select.ranked(*answered, proposals, size)
    count = len(boxes)
    images = torch.arange(count, device=boxes.device).repeat_interleave(boxes.shape[1])
    boxes, scores = boxes.flatten(0, 1), scores.flatten()
    kept = batched_nms(boxes, scores, images, PROPOSAL_NMS_IOU)
    # In one piece: a GPU is waited for once.
    found = torch.cat((boxes, scores[:, None], images[:, None]), 1)[kept].cpu().numpy()
    found = found[found[:, 4] > -np.inf]
    return [found[found[:, 5] == image, :4][:proposals] for image in range(count)]
