"""The multi-path detector: its parts, and what each slot of a frame's way computes."""
from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from copy import copy
from dataclasses import asdict

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from deadline_perception.detector.backbone import Backbone
from deadline_perception.detector.configuration import DetectorConfig
from deadline_perception.detector.detections import Detections
from deadline_perception.detector.frame_run import FrameRun
from deadline_perception.detector.heads import Head, region_features
from deadline_perception.detector.operators import Switch
from deadline_perception.detector.proposals import DynamicProposals, RegionProposalNetwork
from deadline_perception.detector.pyramid import Pyramid
from deadline_perception.engine.cuda_graphs import CudaGraphs, CudaRecorder
from deadline_perception.engine.eager import Eager
from deadline_perception.execution_path import ExecutionPath, PathSpace

# Mean and spread of pixel values, BGR (those of ImageNet in that order, so that its weights can be a start).
PIXEL_MEAN = (103.53, 116.28, 123.675)
PIXEL_SPREAD = (57.375, 57.12, 58.395)


class MultiPathDetector(nn.Module):
    """Faster R-CNN with skip, switch, dynamic proposals and width.

    Args:
        config: the shape.
        class_names: what the labels mean, at least one.

    Attributes:
        engine: runs the segments.
    """

    def __init__(self, config: DetectorConfig, class_names: tuple[str, ...]) -> None:
        super().__init__()
        if not class_names:
            raise ValueError('class_names is empty, expected at least one class')
        self.config = config
        self.class_names = tuple(class_names)
        self.engine = Eager()
        self.register_load_state_dict_post_hook(lambda module, keys: module.engine.clear())
        self.backbone = Backbone(config)
        self.pyramid = Pyramid(config)
        self.rpn = RegionProposalNetwork(config)
        self.select_proposals = DynamicProposals(config)
        self.heads = Switch([Head(config, shape, len(class_names)) for shape in config.heads])
        self.path_space = PathSpace(self.backbone.skips_per_stage, self.backbone.stem.norm1.choices,
                                    self.pyramid.norms[0].choices, self.select_proposals.choices, len(self.heads.choices))
        # The stage that each skip operator belongs to.
        self.skip_stages = [stage for stage, count in enumerate(self.backbone.skips_per_stage, 1) for _ in range(count)]
        self.register_buffer('pixel_mean', torch.tensor(PIXEL_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer('pixel_scale', 1 / torch.tensor(PIXEL_SPREAD).view(1, 3, 1, 1), persistent=False)

    @property
    def config_name(self) -> str:
        """Name of the configuration."""
        return self.config.name

    @property
    def input_size(self) -> tuple[int, int]:
        """Height and width in px that images are resized to."""
        return self.config.input_size

    @property
    def device(self) -> str:
        """The processor that holds the weights, such as `cpu` or `cuda:0`."""
        return str(self.pixel_mean.device)

    @property
    def network_hash(self) -> str:
        """Identifies shape and precision, on which execution times depend; weights of the same shape share it."""
        precision = [str(self.precision)] * (self.precision != torch.float32)
        text = json.dumps([asdict(self.config), len(self.class_names), *precision], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def weights_hash(self) -> str:
        """Identifies shape and weights, on which accuracy depends, at the precision that weights files keep."""
        digest = hashlib.sha256(self.network_hash.encode())
        for name, tensor in self.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().half().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def precision(self) -> torch.dtype:
        """Type of weights and features."""
        return self.rpn.outputs.weight.dtype

    def use_half_precision(self) -> None:
        """Computes with float16 weights and features from now on, for GPUs; boxes and scores stay float32."""
        for parameter in self.parameters():
            parameter.data = parameter.data.half()
        self.train(self.training)  # drops what was laid out of the old weights

    def use_graphs(self) -> None:
        """Replays CUDA graphs from now on, each captured as its segment first runs; see `CudaGraphs`.

        Raises:
            ValueError: the network is not on a CUDA device.
        """
        self.engine = CudaGraphs(CudaRecorder(self.device))

    def train(self, mode: bool = True) -> MultiPathDetector:
        """Sets training or evaluation mode; the engine forgets what it prepared."""
        self.engine.clear()
        return super().train(mode)

    def _apply(self, function, recurse: bool = True) -> MultiPathDetector:
        self.engine.clear()
        return super()._apply(function, recurse)

    def set_training_size(self, size: tuple[int, int]) -> None:
        """Prepares for training batches of another size than `input_size`; frames still run at `input_size`.

        Raises:
            ValueError: height or width in px is no positive multiple of the largest stride, 32.
        """
        if min(size) < 32 or size[0] % 32 or size[1] % 32:
            raise ValueError(f'training size is {size} px, expected positive multiples of 32 px')
        if size != self.select_proposals.input_size:
            self.rpn.set_input_size(size)
            self.select_proposals.input_size = size

    def preprocess(self, image_bgr: np.ndarray) -> Tensor:
        """uint8 `[H, W, 3]` of any size -> normalised `[1, 3, h, w]` of the input size, channels last.

        Raises:
            ValueError: another type or shape.
        """
        if image_bgr.dtype != np.uint8 or image_bgr.ndim != 3 or image_bgr.shape[2] != 3 or 0 in image_bgr.shape:
            raise ValueError(f'image is {image_bgr.dtype} {image_bgr.shape}, expected uint8 [height, width, 3]')
        height, width = self.input_size
        if image_bgr.shape[:2] != (height, width):
            image_bgr = cv2.resize(image_bgr, (width, height), interpolation=cv2.INTER_LINEAR)
        pixels = torch.from_numpy(np.ascontiguousarray(image_bgr)).to(self.pixel_mean.device)
        return self.normalise(pixels.permute(2, 0, 1)[None].float()).to(self.precision)

    def normalise(self, pixels: Tensor) -> Tensor:
        """Pixel values 0 to 255 `[N, 3, h, w]`, BGR -> zero mean and unit spread."""
        return (pixels - self.pixel_mean) * self.pixel_scale

    def features(self, images: Tensor, path: ExecutionPath) -> list[Tensor]:
        """Normalised images `[N, 3, h, w]` -> pyramid levels; backbone and pyramid in one go."""
        x, stages, skip = images, [], 0
        for stage, count in enumerate(self.path_space.skips_per_stage, 1):
            x = self.backbone.kept(stage, x, path.width)
            for _ in range(count):
                x = self.backbone.skips[skip](x, path)
                skip += 1
            stages.append(x)
        return self.pyramid(stages, path.pyramid_width)

    def reads(self, slot: str) -> tuple[str, ...]:
        """The slots whose values `compute` takes for a slot between `pre` and `post`."""
        if slot.startswith('stage'):
            return (f'stage{int(slot[5:]) - 1}',)
        if slot.startswith('skip'):
            return (f'stage{self.skip_stages[int(slot[4:])]}',)
        if slot == 'pyramid':
            return tuple(f'stage{stage}' for stage in range(1, len(self.config.stage_channels) + 1))
        return {'rpn': ('pyramid',), 'proposals': ('pyramid', 'rpn'), 'head': ('pyramid', 'proposals')}[slot]

    def compute(self, slot: str, path: ExecutionPath, values: dict[str, tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """What a slot between `pre` and `post` makes of what earlier slots made; changes none of it.

        Args:
            slot: name of the slot; a skip operator only where the path runs it.
            path: the path.
            values: those that the slot `reads`, by the slot that made them. `stage0`: image `[1, 3, h, w]`; `stage1` to
                `stage4`: features, with the skip operators' work; `pyramid`: its levels; `rpn`: logits of each level,
                then deltas; `proposals`: boxes `[R, 4]` and levels `[R]`; `head`: logits `[R, 1 + classes]` and deltas
                `[R, 4]`.
        """
        if slot.startswith('stage'):
            stage = int(slot[5:])
            return (self.backbone.kept(stage, values[self.reads(slot)[0]][0], path.width),)
        if slot.startswith('skip'):
            skip = int(slot[4:])
            return (self.backbone.skips[skip](values[self.reads(slot)[0]][0], path),)
        if slot == 'pyramid':
            return tuple(self.pyramid([values[stage][0] for stage in self.reads(slot)], path.pyramid_width))
        levels = values['pyramid']
        if slot == 'rpn':
            logits, deltas = self.rpn(levels)
            return (*logits, *deltas)
        if slot == 'proposals':
            logits, deltas = values['rpn'][:len(levels)], values['rpn'][len(levels):]
            return self.select_proposals(self.rpn, logits, deltas, 0, path.proposals)
        boxes, box_levels = values['proposals']
        return self.heads(region_features(levels, boxes, box_levels), path)

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> FrameRun:
        """Begins one frame; nothing is computed yet.

        Args:
            image_bgr: uint8 `[H, W, 3]`.
            path: the plan; may be changed while the frame runs.

        Raises:
            ValueError: the path is not one of this network's.
        """
        return FrameRun(self, image_bgr, path)

    def detect(self, image_bgr: np.ndarray, path: ExecutionPath) -> Detections:
        """The objects in one image uint8 `[H, W, 3]`, found on one path."""
        run = self.start(image_bgr, path)
        while not run.finished:
            run.run_segment()
        return run.detections()

    def warm_up(self, paths: Iterable[ExecutionPath], image_size: tuple[int, int] = (384, 640)) -> None:
        """Runs paths on noise, so that no later frame pays for first calls and for laying out weights."""
        noise = np.random.default_rng(0).integers(0, 256, (*image_size, 3), dtype=np.uint8)
        for path in paths:
            self.detect(noise, path)
