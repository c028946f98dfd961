"""The multi-path detector: its parts, what each of its segments computes, and one frame's way through them."""
from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial

import cv2
import numpy as np
import torch
from torch import Tensor

from deadline_perception.detector.backbone import Backbone, Pyramid
from deadline_perception.detector.configuration import DetectorConfig
from deadline_perception.detector.declaration import scale_of, scaled_size
from deadline_perception.detector.detections import Detections
from deadline_perception.detector.heads import Head, decode_detections, region_features
from deadline_perception.detector.operators import Switch
from deadline_perception.detector.proposals import DynamicProposals, RegionProposalNetwork
from deadline_perception.engine.segment_run import SegmentRun, check_image
from deadline_perception.engine.torch_network import PIXEL_DEVIATION, PIXEL_MEAN, TorchModule
from deadline_perception.execution_path import ExecutionPath


class MultiPathDetector(TorchModule):
    """Faster R-CNN with skip, switch, dynamic proposals, width and scale.

    Args:
        config: the shape.
        class_names: what the labels mean, at least one.

    Attributes:
        result_type: of what its runs give.
    """

    result_type = Detections

    def __init__(self, config: DetectorConfig, class_names: tuple[str, ...]) -> None:
        super().__init__(config.name, class_names)
        self.config = config
        self.backbone = Backbone(config)
        self.pyramid = Pyramid(config)
        self.rpn = RegionProposalNetwork(config)
        self.select_proposals = DynamicProposals(config)
        self.heads = Switch([Head(config, shape, len(class_names)) for shape in config.heads])
        self.path_space = config.path_space
        # The value that each segment makes: a skip operator goes on with its stage's features.
        self.makes: dict[str, str] = {}
        for segment in self.path_space.segments:
            is_skip = segment.name.startswith('skip')
            self.makes[segment.name] = next(reversed(self.makes.values())) if is_skip else segment.name

    @property
    def input_size(self) -> tuple[int, int]:
        """Height and width in px that images are resized to, at most."""
        return self.config.input_size

    def input_size_on(self, path: ExecutionPath) -> tuple[int, int]:
        """Height and width in px that images are resized to on a path."""
        return scaled_size(self.input_size, scale_of(path))

    @property
    def shape(self) -> list[object]:
        """See `TorchNetwork`; the precision is part of it."""
        precision = [str(self.precision)] * (self.precision != torch.float32)
        return [self.config.identity, len(self.class_names), *precision]

    @property
    def precision(self) -> torch.dtype:
        """Type of weights and features."""
        return self.rpn.outputs.weight.dtype

    def use_float16(self) -> None:
        """Computes with float16 weights and features from now on, for GPUs; boxes and scores stay float32."""
        for parameter in self.parameters():
            parameter.data = parameter.data.half()
        self.train(self.training)  # drops what was laid out of the old weights

    def preprocess(self, image_bgr: np.ndarray, path: ExecutionPath) -> Tensor:
        """uint8 `[H, W, 3]` of any size -> normalised `[1, 3, h, w]` of the path's input size, channels last.

        Raises:
            ValueError: another type or shape.
        """
        check_image(image_bgr)
        height, width = self.input_size_on(path)
        if image_bgr.shape[:2] != (height, width):
            image_bgr = cv2.resize(image_bgr, (width, height), interpolation=cv2.INTER_LINEAR)
        pixels = torch.from_numpy(np.ascontiguousarray(image_bgr)).to(self.pixel_mean.device)
        # As `normalise`, over whole rows of pixels: over three channels at a time it takes three times as long.
        mean, scale = _pixel_rows(width, self.pixel_mean.device)
        rows = (pixels.view(height, -1).float() - mean).mul_(scale).to(self.precision)
        return rows.view(1, height, width, 3).permute(0, 3, 1, 2)

    def features(self, images: Tensor, path: ExecutionPath) -> list[Tensor]:
        """Normalised images `[N, 3, h, w]` -> pyramid levels; backbone and pyramid in one go."""
        values = {'pre': (images,)}
        for number, segment in enumerate(self.path_space.segments):
            if segment.phase == 'conv' and self.path_space.key(number, path) is not None:
                values[self.makes[segment.name]] = self.compute(segment.name, path, values)
        return list(values['pyramid'])

    def reads(self, segment: str) -> tuple[str, ...]:
        """The segments whose values `compute` takes for one between `pre` and `post`."""
        if segment.startswith('stage'):
            return ('pre',) if segment == 'stage1' else (f'stage{int(segment[5:]) - 1}',)
        if segment.startswith('skip'):
            return (self.makes[segment],)
        if segment == 'pyramid':
            return tuple(f'stage{stage}' for stage in range(1, len(self.config.stage_channels) + 1))
        return {'rpn': ('pyramid',), 'proposals': ('pyramid', 'rpn'), 'head': ('pyramid', 'proposals')}[segment]

    def compute(self, segment: str, path: ExecutionPath, values: dict[str, tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """What a segment between `pre` and `post` makes of what earlier ones made; changes none of it.

        Args:
            segment: its name; a skip operator only where the path runs it.
            path: the path.
            values: those that it `reads`, by the segment that made them. `pre`: image `[N, 3, h, w]`; `stage1` to
                `stage4`: features, with the skip operators' work; `pyramid`: its levels; `rpn`: logits of each level,
                then deltas; `proposals`: boxes `[R, 4]` and levels `[R]`; `head`: logits `[R, 1 + classes]` and deltas
                `[R, 4]`. For `head` also `regions` alone, their features, where these are gathered already.
        """
        if segment.startswith('stage'):
            return (self.backbone.kept(int(segment[5:]), values[self.reads(segment)[0]][0], path['width']),)
        if segment.startswith('skip'):
            return (self.backbone.skips[int(segment[4:])](values[self.makes[segment]][0], path),)
        if segment == 'pyramid':
            return tuple(self.pyramid([values[stage][0] for stage in self.reads(segment)], path['pyramid_width']))
        if segment == 'head':
            features = values['regions'][0] if 'regions' in values else self.gather_regions(values)
            return self.heads(features, path)
        levels = values['pyramid']
        if segment == 'rpn':
            logits, deltas = self.rpn(levels)
            return (*logits, *deltas)
        logits, deltas = values['rpn'][:len(levels)], values['rpn'][len(levels):]
        return self.select_proposals(logits, deltas, path['proposals'], self.input_size_on(path))

    @staticmethod
    def gather_regions(values: dict[str, tuple[Tensor, ...]]) -> Tensor:
        """Region features `[R, 49 * c]` of the pyramid's levels at the proposals."""
        return region_features(values['pyramid'], *values['proposals'])

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> FrameRun:
        """Begins one frame; nothing is computed yet.

        Args:
            image_bgr: uint8 `[H, W, 3]`.
            path: the plan; may be changed while the frame runs.

        Raises:
            ValueError: the path is not one of this network's.
        """
        return FrameRun(self, image_bgr, path)

    def warm_up(self, paths: Iterable[ExecutionPath], image_size: tuple[int, int] = (384, 640)) -> None:
        """Runs paths on noise, so that no later frame pays for first calls and for laying out weights."""
        noise = np.random.default_rng(0).integers(0, 256, (*image_size, 3), dtype=np.uint8)
        for path in paths:
            self.detect(noise, path)


@cache
@torch.inference_mode(False)
def _pixel_rows(width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation of the values of a row of pixels, each `[3 * width]`."""
    return (torch.tensor(PIXEL_MEAN, device=device).repeat(width),
            (1 / torch.tensor(PIXEL_DEVIATION, device=device)).repeat(width))


class FrameRun(SegmentRun):
    """One frame of a multi-path detector.

    Args:
        network: the detector.
        image_bgr: uint8 `[H, W, 3]`.
        path: the plan.

    Raises:
        ValueError: the path is not one of the network's.
    """

    def __init__(self, network: MultiPathDetector, image_bgr: np.ndarray, path: ExecutionPath) -> None:
        super().__init__(network.path_space, path, network.device)
        self.network = network
        self._image = image_bgr
        self._values: dict[str, tuple[Tensor, ...]] = {}
        self._regions = 0
        self._detections: Detections | None = None
        self._number = network.engine.begin_frame()

    def fork(self) -> FrameRun:
        """See `SegmentRun`.

        Raises:
            ValueError: the engine's buffers serve one run at a time.
        """
        if self.network.engine.reuses_buffers:
            raise ValueError(f'engine {self.network.engine.identity} reuses its buffers, expected one that runs can '
                             f'share')
        other = super().fork()
        other._values = dict(self._values)
        return other

    @torch.inference_mode()
    def compute(self, name: str, key: str) -> None:
        """See `SegmentRun`.

        Raises:
            ValueError: the engine's buffers hold another frame by now.
        """
        network = self.network
        network.engine.check_frame(self._number)
        if name == 'post':
            self._detections = self._decoded()
            return
        made = network.makes[name]
        if name == 'pre':
            self._values[made] = network.engine.hold(made, (network.preprocess(self._image, self.path),))
            return
        inputs = {read: self._values[read] for read in network.reads(name)}
        compute = partial(network.compute, name, self.path)
        if name == 'proposals':
            values = compute(inputs)
            self._regions = len(values[0])
            self._values[made] = network.engine.hold(made, values, self.path['proposals'])
        else:
            if name == 'head' and network.engine.layers_alone:
                inputs = {'regions': (network.gather_regions(inputs),)}
            self._values[made] = network.engine.run(key, made, compute, inputs)

    def result(self) -> Detections:
        """The objects found, in px of the original image.

        Raises:
            ValueError: the frame has not finished.
        """
        if self._detections is None or not self.finished:
            raise ValueError(f'the frame is before segment {self.segment}, expected it to have finished')
        return self._detections

    def _decoded(self) -> Detections:
        logits, deltas, boxes = (part[:self._regions] for part in (*self._values['head'], self._values['proposals'][0]))
        size = self.network.input_size_on(self.path)
        result = decode_detections(logits, deltas, boxes, size)
        found, scores, labels = (part.cpu().numpy() for part in result)
        scale = np.divide(self._image.shape[:2], size)[[1, 0, 1, 0]]  # of corners, x and y in turn
        return Detections(found * scale, scores, labels)
