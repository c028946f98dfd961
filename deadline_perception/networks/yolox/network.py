"""The detector: what each of its segments computes, and one frame's way through them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.opencv import cv2
from deadline_perception.engines.segment_run import check_image
from deadline_perception.networks.multi_path import boxes as box_ops
from deadline_perception.networks.multi_path.heads import suppressed
from deadline_perception.networks.own_detector import DetectorRun, OwnDetector
from deadline_perception.networks.yolox.configuration import STRIDES, YoloxConfig
from deadline_perception.networks.yolox.layers import Backbone, Head, Neck

_PADDING = 114  # value of the pixels beside the image, as in its training
_LEAST_SCORE = 0.01  # before calibration; of 0.05 it loses 1 to 3 AP50
_LARGEST_LOG_SIZE = 10.0  # of a box, in strides: above it there is no such image
_READS = {'backbone': 'pre', 'neck': 'backbone', 'head': 'neck', 'post': 'head'}


class YoloxDetector(OwnDetector):
    """YOLOX-Nano with a choice of the input's size.

    Args:
        config: the shape.
        class_names: what the labels mean, one for each of `config.sources`.

    Raises:
        ValueError: there is not one name for each class.
    """

    quantises = False  # its backbone in 8 bit has 3.4 dB of signal to error, 20 are asked for

    def __init__(self, config: YoloxConfig, class_names: Sequence[str]) -> None:
        super().__init__(config.name, class_names)
        if len(class_names) != len(config.sources):
            raise ValueError(
                f'there are {len(class_names)} class names, expected one for each of '
                f'{len(config.sources)} sources'
            )
        self.config = config
        self.path_space = config.path_space
        self.input_size = config.input_size
        self._sources = [len(of_class) for of_class in config.sources]
        self.backbone, self.neck, self.head = Backbone(), Neck(), Head(sum(self._sources))

    @property
    def shape(self) -> list[object]:
        """See `TorchNetwork`."""
        return ['yolox', self.config.identity]

    def preprocess(self, image_bgr: np.ndarray, path: ExecutionPath) -> np.ndarray:
        """uint8 `[H, W, 3]` of any size -> uint8 `[1, h, w, 3]` of the path's input size: the image in its own aspect
        in the upper left corner, grey beside or below it.

        Raises:
            ValueError: another type or shape.
        """
        check_image(image_bgr)
        height, width = self.input_size_on(path)
        fitted = _fitted_size(image_bgr.shape[:2], (height, width))
        if image_bgr.shape[:2] != fitted:
            image_bgr = cv2.resize(image_bgr, fitted[::-1], interpolation=cv2.INTER_LINEAR)
        if fitted == (height, width):
            return np.ascontiguousarray(image_bgr)[None]
        pixels = np.full((1, height, width, 3), _PADDING, np.uint8)
        pixels[0, : fitted[0], : fitted[1]] = image_bgr
        return pixels

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
        return suppressed(box_ops.clip(boxes, size), scores, size, _LEAST_SCORE)

    def decoded(self, maps: Sequence[Tensor], input_size: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """What `Head` gives of one image -> boxes `[K, 4]`, xyxy in px of the input, and scores `[K, classes]` in
        [0, 1], of the cells that may hold an object."""
        boxes, objectness, classes = (
            torch.cat([value[0].flatten(1) for value in maps[first::3]], 1).float()
            for first in range(3)
        )
        is_object = objectness[0].sigmoid()
        # NaN is not below the least, so that `Detections` refuses it and no road looks empty.
        kept = (~(is_object <= _LEAST_SCORE)).nonzero().flatten()
        corners, strides = _cells(input_size, boxes.device)
        boxes, strides = boxes[:, kept].T, strides[kept, None]
        centres = (boxes[:, :2] + corners[kept]) * strides
        halves = boxes[:, 2:].clamp(max=_LARGEST_LOG_SIZE).exp() * (strides / 2)
        is_other = 1.0 - classes[:, kept].T.sigmoid()
        # An object is of a class of the answer unless it is of none of the classes that stand for it.
        of_answer = [1.0 - group.prod(1) for group in is_other.split(self._sources, 1)]
        scores = torch.stack(of_answer, 1) * is_object[kept, None]
        return torch.cat((centres - halves, centres + halves), 1), scores

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> YoloxRun:
        """See `Network`; the path may change until the image is resized."""
        return YoloxRun(self, image_bgr, path)


@cache
def _fitted_size(image: tuple[int, int], available: tuple[int, int]) -> tuple[int, int]:
    """Height and width in px, at least 1, of an image that just fits into the available ones in its own aspect."""
    scale = min(have / side for have, side in zip(available, image))
    height, width = (min(have, max(1, round(side * scale))) for have, side in zip(available, image))
    return height, width


@cache
@torch.inference_mode(False)
def _cells(size: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Column and row `[K, 2]` of every cell of the levels, row by row, fine to coarse, and its stride in px `[K]`."""
    corners, strides = [], []
    for stride in STRIDES:
        rows, columns = (torch.arange(side // stride) for side in size)
        corners.append(torch.cartesian_prod(rows, columns).flip(1))
        strides.append(torch.full((len(rows) * len(columns),), float(stride)))
    return torch.cat(corners).float().to(device), torch.cat(strides).to(device)


class YoloxRun(DetectorRun):
    """One frame of the detector; see `YoloxDetector.start`."""

    network: YoloxDetector

    @torch.inference_mode()
    def compute(self, name: str, key: str) -> None:
        """See `SegmentRun`.

        Raises:
            ValueError: the image is none, or the engine's buffers hold another frame by now.
        """
        network, engine = self.network, self._engine
        engine.check_frame(self._number)
        if name == 'pre':
            pixels = network.preprocess(self._image, self.path)
            self._values = {name: engine.hold(name, (pixels,))}
            return
        is_last = name == 'post'
        values = engine.run(
            key,
            '' if is_last else name,
            partial(network.compute, name, self.path),
            self._values,
            is_selection=is_last,
        )
        if is_last:
            self._detections = self._in_the_image(*engine.arrays(values))
        self._values = {name: values}

    def _in_the_image(
        self, boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray
    ) -> Detections:
        (height, width) = self._image.shape[:2]
        fitted = _fitted_size((height, width), self.network.input_size_on(self.path))
        boxes = boxes * (2 * (width / fitted[1], height / fitted[0]))  # x and y in turn
        boxes = np.clip(boxes, 0.0, 2 * (width, height))
        inside = ~(boxes[:, 2:] <= boxes[:, :2]).any(1)
        boxes, scores, labels = boxes[inside], scores[inside], labels[inside]
        return self._calibrated(boxes, scores, labels)
