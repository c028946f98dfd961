"""The detector: its layers, and what each of its segments computes with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.torch_network import TorchModule
from deadline_perception.networks.multi_path import boxes as box_ops
from deadline_perception.networks.multi_path.heads import suppressed
from deadline_perception.networks.yolox.configuration import YoloxConfig
from deadline_perception.networks.yolox.layers import Backbone, Head, Neck
from deadline_perception.networks.yolox.outline import (
    LARGEST_LOG_SIZE,
    LEAST_SCORE,
    YoloxOutline,
    cells,
)

_READS = {'backbone': 'pre', 'neck': 'backbone', 'head': 'neck', 'post': 'head'}


class YoloxDetector(TorchModule, YoloxOutline):
    """YOLOX-Nano with a choice of the input's size.

    Args:
        config: the shape.
        class_names: what the labels mean, one for each of `config.sources`.

    Raises:
        ValueError: there is not one name for each class.
    """

    def __init__(self, config: YoloxConfig, class_names: Sequence[str]) -> None:
        super().__init__(config.name, class_names)
        self.declare(config, tuple(class_names))
        self.backbone, self.neck, self.head = Backbone(), Neck(), Head(sum(self.sources))

    def compute(
        self, segment: str, path: ExecutionPath, values: dict[str, tuple[Tensor, ...]]
    ) -> tuple[Tensor, ...]:
        """What a segment after `pre` makes of what the one before it made; changes none of it.

        Args:
            segment: its name.
            path: the path.
            values: by the segment that made them. `pre`: image `[1, 3, h, w]`, uint8; `backbone` and `neck`: features of
                three levels; `head`: see `Head`. `post` makes boxes `[D, 4]` in px of the path's input size, scores and
                labels `[D]`.
        """
        given = values[_READS[segment]]
        if segment == 'backbone':
            return tuple(self.backbone(given[0].float()))
        if segment == 'neck':
            return self.neck(given)
        if segment == 'head':
            return self.head(given)
        size = self.input_size_on(path)
        boxes, scores = self.decoded(given, size)
        return suppressed(box_ops.clip(boxes, size), scores, size, LEAST_SCORE)

    def decoded(self, maps: Sequence[Tensor], input_size: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """What `Head` gives of one image -> boxes `[K, 4]`, xyxy in px of the input, and scores `[K, classes]` in
        [0, 1], of the cells that may hold an object."""
        boxes, objectness, classes = (
            torch.cat([value[0].flatten(1) for value in maps[first::3]], 1).float()
            for first in range(3)
        )
        is_object = objectness[0].sigmoid()
        # NaN is not below the least, so that `Detections` refuses it and no road looks empty.
        kept = (~(is_object <= LEAST_SCORE)).nonzero().flatten()
        corners, strides = _cells(input_size, boxes.device)
        boxes, strides = boxes[:, kept].T, strides[kept, None]
        centres = (boxes[:, :2] + corners[kept]) * strides
        halves = boxes[:, 2:].clamp(max=LARGEST_LOG_SIZE).exp() * (strides / 2)
        is_other = 1.0 - classes[:, kept].T.sigmoid()
        # An object is of a class of the answer unless it is of none of the classes that stand for it.
        of_answer = [1.0 - group.prod(1) for group in is_other.split(self.sources, 1)]
        scores = torch.stack(of_answer, 1) * is_object[kept, None]
        return torch.cat((centres - halves, centres + halves), 1), scores


@cache
@torch.inference_mode(False)
def _cells(size: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """See `cells`."""
    corners, strides = (torch.from_numpy(part).to(device) for part in cells(size))
    return corners, strides
