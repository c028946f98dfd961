"""The detector without its layers: what follows from its shape, and one frame's way through its segments. Needs no
torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import accumulate

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.eager import Arrays
from deadline_perception.networks.multi_path import array_forms as forms
from deadline_perception.networks.own_detector import OwnDetector
from deadline_perception.networks.yolox.configuration import STRIDES, YoloxConfig

LEAST_SCORE = 0.01  # before calibration; of 0.05 it loses 1 to 3 AP50
_READS = {'backbone': 'pre', 'neck': 'backbone', 'head': 'neck', 'post': 'head'}
LARGEST_LOG_SIZE = 10.0  # of a box, in strides: above it there is no such image


class YoloxOutline(OwnDetector):
    """What follows from the shape of the detector alone."""

    quantises = False  # its backbone in 8 bit has 3.4 dB of signal to error, 20 are asked for
    layers = (
        'backbone neck head stem stages class_tower box_tower coarse_lateral down_middle middle_lateral down_fine '
        'to_middle up_middle to_coarse up_coarse main bypass blocks joined before depthwise after classes boxes '
        'objectness weight bias'
    )

    def declare(
        self,
        config: YoloxConfig,
        class_names: tuple[str, ...],
    ) -> None:
        """Takes over a shape, and what the labels mean.

        Raises:
            ValueError: there is not one name for each class.
        """
        if len(class_names) != len(config.sources):
            raise ValueError(
                f'there are {len(class_names)} class names, expected one for each of '
                f'{len(config.sources)} sources'
            )
        super().declare(config, class_names)
        self.sources = [len(of_class) for of_class in config.sources]

    @property
    def shape(self) -> list[object]:
        """See `ShapedNetwork`."""
        return ['yolox', self.config.identity]

    def post(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """What `Head` gives of one image, channels last -> boxes `[D, 4]` in px of the path's input size, scores and labels
        `[D]`."""
        size = self.input_size_on(path)
        boxes, objectness, classes = (
            np.concatenate(
                [value.reshape(-1, value.shape[-1]) for value in values['head'][first::3]]
            )
            for first in range(3)
        )
        is_object = forms.sigmoid(objectness[:, 0])
        # NaN is not below the least, so that `Detections` refuses it and no road looks empty.
        kept = (~(is_object <= LEAST_SCORE)).nonzero()[0]
        corners, strides = cells(size)
        boxes = boxes[kept]
        strides = strides[kept, None]
        centres = (boxes[:, :2] + corners[kept]) * strides
        log_sizes = np.minimum(boxes[:, 2:], LARGEST_LOG_SIZE)
        halves = np.exp(log_sizes) * (strides / 2)
        boxes = forms.clip(np.concatenate((centres - halves, centres + halves), 1), size)
        # An object is of a class of the answer unless it is of none of the classes that stand for it.
        starts = [0, *accumulate(self.sources)][:-1]
        is_other = 1.0 - forms.sigmoid(classes[kept])
        is_none = np.multiply.reduceat(is_other, starts, axis=1)
        scores = (1.0 - is_none) * is_object[kept, None]
        return forms.suppressed(boxes, scores, size, LEAST_SCORE)

    def reads(self, segment: str) -> tuple[str, ...]:
        """See `OwnDetector`."""
        return (_READS[segment],)


@cache
def cells(size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Column and row `[K, 2]` of every cell of the levels, row by row, fine to coarse, and its stride in px `[K]`."""
    corners = []
    strides = []
    for stride in STRIDES:
        rows, columns = (np.arange(side // stride, dtype=np.float32) for side in size)
        corners.append(np.stack(np.meshgrid(columns, rows), -1).reshape(-1, 2))
        strides.append(np.full(len(corners[-1]), stride, np.float32))
    return np.concatenate(corners), np.concatenate(strides)
