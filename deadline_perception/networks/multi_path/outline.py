"""The multi-path detector without its layers: what its segments read and make, and one frame's way through them. Needs no
torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.named import named
from deadline_perception.core.opencv import cv2
from deadline_perception.engines.eager import ArrayCompute, Arrays
from deadline_perception.engines.segment_run import check_image
from deadline_perception.networks.multi_path import array_forms as forms
from deadline_perception.networks.multi_path.configuration import stored_shape
from deadline_perception.networks.multi_path.shape import DetectorShape
from deadline_perception.networks.own_detector import DetectorRun, OwnDetector


class MultiPathOutline(OwnDetector):
    """What follows from the shape of a multi-path detector alone.

    Attributes:
        strides: of the pyramid's levels, in px.
        pyramid_stages: numbers of the stages that the pyramid reads.
    """

    strides: tuple[int, ...]
    pyramid_stages: tuple[int, ...]
    config: DetectorShape

    def declare(
        self,
        config: DetectorShape,
        class_names: tuple[str, ...],
    ) -> None:
        """Takes over a shape, and what the labels mean."""
        self.config_name = config.name
        self.class_names = class_names
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

    @abstractmethod
    def proposals(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """Boxes of regions, as the network selects them; and what the family keeps of each."""

    @abstractmethod
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

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> FrameRun:
        """See `Network`; the path may change while the frame runs."""
        return FrameRun(self, image_bgr, path)


class FrameRun(DetectorRun):
    """One frame of a multi-path detector; see `MultiPathOutline.start`."""

    network: MultiPathOutline

    def compute_segment(self, name: str, key: str) -> None:
        """See `DetectorRun`."""
        network = self.network
        engine = self._engine
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


def outline_of(config: str, class_names: tuple[str, ...]) -> MultiPathOutline:
    """The detector of a configuration, whatever its family, without layers.

    Args:
        config: as JSON, or the name of a built-in one.
        class_names: what the labels mean.

    Raises:
        ValueError: it is no configuration.
    """
    shape = stored_shape(config)
    outline: MultiPathOutline = named(shape.outline)()
    outline.declare(shape, class_names)
    return outline
