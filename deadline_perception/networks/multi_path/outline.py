"""The multi-path detector without its layers: what its segments read and make, and one frame's way through them. Needs no
torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.opencv import cv2
from deadline_perception.engines.eager import ArrayCompute, Arrays
from deadline_perception.engines.segment_run import check_image
from deadline_perception.networks.multi_path import array_forms as forms
from deadline_perception.networks.multi_path.configuration import DetectorConfig, DetectorShape
from deadline_perception.networks.own_detector import DetectorRun, OwnDetector

STRIDES = (4, 8, 16, 32)
PROPOSAL_DELTA_WEIGHTS = (1.0, 1.0, 1.0, 1.0)
PROPOSAL_NMS_IOU = 0.7
MIN_SIDE_PX = 2.0


class MultiPathOutline(OwnDetector):
    """What follows from the shape of a multi-path detector alone.

    Attributes:
        strides: of the pyramid's levels, in px.
        pyramid_stages: numbers of the stages that the pyramid reads.
    """

    strides: tuple[int, ...] = STRIDES
    pyramid_stages: tuple[int, ...] = (1, 2, 3, 4)
    layers = (
        'backbone pyramid rpn heads stem convolution1 norm1 convolution2 norm2 first_blocks kept_blocks skips '
        'laterals convolution outputs convolutions norms shortcut shortcut_norm first others classes deltas '
        'weight bias mean deviation'
    )
    config: DetectorShape

    def declare(
        self,
        config: DetectorShape,
        class_names: tuple[str, ...],
    ) -> None:
        """Takes over a shape, and what the labels mean."""
        self.config_name, self.class_names = config.name, class_names
        self.config = config
        self.input_size = config.input_size
        self.path_space = config.path_space
        # The value that each segment makes: a skip operator goes on with its stage's features.
        self.makes: dict[str, str] = {}
        for segment in self.path_space.segments:
            is_skip = segment.name.startswith('skip')
            self.makes[segment.name] = (
                next(reversed(self.makes.values())) if is_skip else segment.name
            )

    def examines(self, path: ExecutionPath) -> bool:
        """The regions are examined by a head."""
        return True

    @property
    def shape(self) -> list[object]:
        """See `ShapedNetwork`."""
        return [self.config.identity, len(self.class_names)]

    def preprocess(self, image_bgr: np.ndarray, path: ExecutionPath) -> np.ndarray:
        """uint8 `[H, W, 3]` of any size -> uint8 `[1, h, w, 3]` of the path's input size.

        Raises:
            ValueError: another type or shape.
        """
        check_image(image_bgr)
        height, width = self.input_size_on(path)
        if image_bgr.shape[:2] != (height, width):
            image_bgr = cv2.resize(image_bgr, (width, height), interpolation=cv2.INTER_LINEAR)
        return np.ascontiguousarray(image_bgr)[None]

    def reads(self, segment: str) -> tuple[str, ...]:
        """The segments whose values `compute` takes for one after `pre`."""
        if segment.startswith('stage'):
            return ('pre',) if segment == 'stage1' else (f'stage{int(segment[5:]) - 1}',)
        if segment.startswith('skip'):
            return (self.makes[segment],)
        if segment == 'pyramid':
            return tuple(f'stage{stage}' for stage in self.pyramid_stages)
        return {
            'rpn': ('pyramid',),
            'proposals': ('rpn',),
            'regions': ('pyramid', 'proposals'),
            'head': ('regions',),
            'post': ('head', 'proposals'),
        }[segment]

    def array_form(self, segment: str, path: ExecutionPath) -> ArrayCompute | None:
        """`compute` of a segment on arrays, of those that need no weights; None for the others."""
        found = {'proposals': self.proposals, 'regions': self.regions}
        return partial(found[segment], path) if segment in found else None

    def proposals(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """As `DynamicProposals`."""
        assert isinstance(self.config, DetectorConfig)
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

    def regions(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """As `heads.features_of_rows`."""
        height, width = self.input_size_on(path)
        (rows,) = values['pyramid']
        boxes = values['proposals'][0]
        strides = self.strides
        shapes = tuple((1, -(-height // stride), -(-width // stride)) for stride in strides)
        return (forms.region_features(rows, shapes, boxes, strides),)

    def post(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """What was found: boxes `[D, 4]` in px of the path's input size, scores and labels `[D]`, most certain first.

        Args:
            path: the path.
            values: of `head`, none where no region was examined, and of `proposals`; see `MultiPathDetector.compute`.
        """
        size = self.input_size_on(path)
        return forms.detections(values['head'], values['proposals'][0], None, size)

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> FrameRun:
        """See `Network`; the path may change while the frame runs."""
        return FrameRun(self, image_bgr, path)


@cache
def anchor_levels(config: DetectorConfig, size: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Anchors `[A, 4]` of each level, xyxy in px of an image of height and width `size`, multiples of 32."""
    return tuple(
        forms.anchors(size, stride, sizes, config.anchor_ratios)
        for stride, sizes in zip(STRIDES, config.anchor_sizes_px)
    )


class FrameRun(DetectorRun):
    """One frame of a multi-path detector; see `MultiPathOutline.start`."""

    network: MultiPathOutline

    def compute_segment(self, name: str, key: str) -> None:
        """See `DetectorRun`."""
        network, engine = self.network, self._engine
        made = network.makes[name]
        if name == 'pre':
            self._values[made] = engine.hold(made, (network.preprocess(self._image, self.path),))
            return
        if name in ('regions', 'head') and not network.examines(self.path):
            self._values[made] = ()
            return
        inputs = {read: self._values[read] for read in network.reads(name)}
        if name == 'regions':
            inputs['pyramid'] = engine.joined(inputs['pyramid'])
        if name == 'post':
            arrays = {read: engine.arrays(values) for read, values in inputs.items()}
            self._detections = self._in_the_image(*network.post(self.path, arrays))
            return
        self._values[made] = engine.run(
            key,
            made,
            partial(network.compute, name, self.path),
            inputs,
            is_selection=name == 'proposals',
            on_arrays=network.array_form(name, self.path),
        )

    def _in_the_image(
        self,
        boxes: np.ndarray,
        scores: np.ndarray,
        labels: np.ndarray,
    ) -> Detections:
        (height, width), (own_height, own_width) = (
            self._image.shape[:2],
            self.network.input_size_on(self.path),
        )
        boxes = boxes * (2 * (width / own_width, height / own_height))  # x and y in turn
        return self._calibrated(boxes, scores, labels)
