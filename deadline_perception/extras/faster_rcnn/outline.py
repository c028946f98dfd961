"""The Faster R-CNN without its layers, see `MultiPathOutline`. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.eager import Arrays
from deadline_perception.extras.faster_rcnn.configuration import DetectorConfig
from deadline_perception.networks.multi_path import array_forms as forms
from deadline_perception.networks.multi_path.outline import MultiPathOutline

STRIDES = (4, 8, 16, 32)
PROPOSAL_DELTA_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
PROPOSAL_NMS_IOU = 0.7
MIN_SIDE_PX = 2.0


class FasterRcnnOutline(MultiPathOutline):
    """What follows from the shape of a Faster R-CNN alone."""

    config: DetectorConfig
    strides = STRIDES
    pyramid_stages = (1, 2, 3, 4)
    layers = (
        'backbone pyramid rpn heads stem convolution1 norm1 convolution2 norm2 first_blocks kept_blocks skips '
        'laterals convolution outputs convolutions norms shortcut shortcut_norm first others classes deltas '
        'weight bias mean deviation'
    )

    def proposals(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """As `DynamicProposals`."""
        size = self.input_size_on(path)
        count, levels = int(path['proposals']), len(STRIDES)
        scores, deltas, origins = [], [], []
        for logits, of_level, anchors in zip(
            values['rpn'][:levels], values['rpn'][levels:], anchor_levels(self.config, size)
        ):
            most = min(self.config.nms_candidates, 2 * count)
            chosen = forms.best_first(logits[0], most)
            scores.append(logits[0][chosen])
            deltas.append(of_level[0][chosen])
            origins.append(anchors[chosen])
        boxes = forms.decode(
            np.concatenate(deltas), np.concatenate(origins), PROPOSAL_DELTA_WEIGHTS
        )
        boxes = forms.clip(boxes, size)
        sides = boxes[:, 2:] - boxes[:, :2]
        is_large = (sides >= MIN_SIDE_PX).all(1)
        order = forms.best_first(np.concatenate(scores), len(boxes))
        order = order[is_large[order]]
        boxes = boxes[order]
        kept = forms.nms(boxes, PROPOSAL_NMS_IOU)
        return (forms.padded(boxes[kept], count),)

    def post(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """See `MultiPathOutline`."""
        size = self.input_size_on(path)
        return forms.detections(values['head'], values['proposals'][0], None, size)


@cache
def anchor_levels(config: DetectorConfig, size: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Anchors `[A, 4]` of each level, xyxy in px of an image of height and width `size`, multiples of 32."""
    return tuple(
        forms.anchors(size, stride, sizes, config.anchor_ratios)
        for stride, sizes in zip(STRIDES, config.anchor_sizes_px)
    )
