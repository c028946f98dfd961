"""The dense detector without its layers, see `MultiPathOutline`. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.eager import Arrays
from deadline_perception.networks.multi_path import array_forms as forms
from deadline_perception.networks.multi_path.dense.configuration import (
    PYRAMID_STAGES,
    STRIDES,
)
from deadline_perception.networks.multi_path.outline import MultiPathOutline

DELTA_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
ANCHOR_RATIOS = (0.5, 1.0, 2.0)
_ANCHOR_STRIDES = 8  # an anchor's side in strides of its level
NMS_IOU = 0.75  # between boxes of any class; the last suppression is class by class
CANDIDATES = 4  # of the first suppression, to each box that it shall leave


class DenseOutline(MultiPathOutline):
    """What follows from the shape of a dense detector alone."""

    strides = STRIDES
    pyramid_stages = PYRAMID_STAGES
    layers = (
        'backbone pyramid rpn heads stem stem_norm laterals outputs coarser convolutions norms first kept_blocks '
        'skips widen widen_norm middle middle_norm narrow narrow_norm box_scales class_tower box_tower '
        'class_output box_output centre_output others classes deltas weight bias mean deviation'
    )

    def passes_over(self, segment: str, path: ExecutionPath) -> bool:
        """See `OwnDetector`; regions, where the first stage's own answer is taken."""
        return segment in ('regions', 'head') and path['head'] == '0'

    def proposals(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """As `DenseProposals`."""
        (logits,), (centred,), (deltas,) = values['rpn']
        size = self.input_size_on(path)
        count = int(path['proposals'])
        best = logits[:, 0]
        for of_class in logits.T[1:]:  # along the last axis, so short, it takes five times as long
            best = np.maximum(best, of_class)
        best = forms.sigmoid(best)
        best *= forms.sigmoid(centred)
        chosen = forms.best_first(best, CANDIDATES * count)
        anchors = all_anchors(size)[chosen]
        boxes = forms.clip(forms.decode(deltas[chosen], anchors, DELTA_WEIGHTS), size)
        kept = forms.nms(boxes, NMS_IOU)[:count]
        chosen = chosen[kept]
        scores = forms.sigmoid(logits[chosen])
        scores *= forms.sigmoid(centred[chosen])[:, None]
        return forms.padded(boxes[kept], count), forms.padded(scores, count)

    def post(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """See `MultiPathOutline`."""
        boxes, scores = values['proposals']
        size = self.input_size_on(path)
        return forms.detections(values['head'], boxes, scores, size)


def anchor_levels(size: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Anchors `[A, 4]` of each level, xyxy in px of an image of height and width `size`; centred on whole strides."""
    levels = []
    for stride in STRIDES:
        height, width = (-(-side // stride) * stride for side in size)
        side_px = float(_ANCHOR_STRIDES * stride)
        anchors = forms.anchors((height, width), stride, (side_px,), ANCHOR_RATIOS)
        levels.append(anchors - np.float32(stride / 2))
    return tuple(levels)


@cache
def all_anchors(size: tuple[int, int]) -> np.ndarray:
    """The same `[A, 4]`, level after level."""
    return np.concatenate(anchor_levels(size))
