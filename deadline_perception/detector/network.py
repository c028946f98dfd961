"""The multi-path detector, and one frame's way through it slot by slot."""
from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from deadline_perception.detector.backbone import Backbone
from deadline_perception.detector.configuration import DetectorConfig
from deadline_perception.detector.detections import Detections
from deadline_perception.detector.heads import Head, cut_regions, decode_detections
from deadline_perception.detector.operators import Switch
from deadline_perception.detector.proposals import DynamicProposals, RegionProposalNetwork
from deadline_perception.detector.pyramid import Pyramid
from deadline_perception.execution_path import ExecutionPath
from deadline_perception.latency.stopwatch import now_ms, synchronise

# Mean and spread of pixel values, BGR (those of ImageNet in that order, so that its weights can be a start).
PIXEL_MEAN = (103.53, 116.28, 123.675)
PIXEL_SPREAD = (57.375, 57.12, 58.395)


class MultiPathDetector(nn.Module):
    """Faster R-CNN with skip, switch, dynamic proposals and width.

    Args:
        config: the shape.
        class_names: what the labels mean, at least one.
    """

    def __init__(self, config: DetectorConfig, class_names: tuple[str, ...]) -> None:
        super().__init__()
        if not class_names:
            raise ValueError('class_names is empty, expected at least one class')
        self.config = config
        self.class_names = tuple(class_names)
        self.path_space = config.path_space
        self.backbone = Backbone(config)
        self.pyramid = Pyramid(config)
        self.rpn = RegionProposalNetwork(config)
        self.select_proposals = DynamicProposals(config)
        self.heads = Switch([Head(config, shape, len(class_names)) for shape in config.heads])
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
        """Identifies the shape, on which execution times depend; weights of the same shape share it."""
        text = json.dumps([asdict(self.config), len(self.class_names)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def weights_hash(self) -> str:
        """Identifies shape and weights, on which accuracy depends, at the precision that weights files keep."""
        digest = hashlib.sha256(self.network_hash.encode())
        for name, tensor in self.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().half().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def set_training_size(self, size: tuple[int, int]) -> None:
        """Prepares for training batches of another size than `input_size`; frames still run at `input_size`.

        Raises:
            ValueError: height or width in px is no positive multiple of the largest stride, 32.
        """
        if min(size) < 32 or size[0] % 32 or size[1] % 32:
            raise ValueError(f'training size is {size} px, expected positive multiples of 32 px')
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
        return self.normalise(pixels.permute(2, 0, 1)[None].float())

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
            run.run_slot()
        return run.detections()

    def warm_up(self, paths: Iterable[ExecutionPath], image_size: tuple[int, int] = (384, 640)) -> None:
        """Runs paths on noise, so that no later frame pays for first calls and for laying out weights."""
        noise = np.random.default_rng(0).integers(0, 256, (*image_size, 3), dtype=np.uint8)
        for path in paths:
            self.detect(noise, path)


class FrameRun:
    """One frame's way through the network; between two slots its plan may change.

    Attributes:
        slot: index of the next slot to run.
        path: the plan; choices of passed slots are facts.
        slot_ms: times of the slots that have run, ms.
    """

    def __init__(self, network: MultiPathDetector, image_bgr: np.ndarray, path: ExecutionPath) -> None:
        if path not in network.path_space:
            raise ValueError(f'path {path} is not one of configuration {network.config_name!r}')
        self.network = network
        self.path = path
        self.slot = 0
        self.slot_ms: list[float] = []
        self._image = image_bgr
        self._stages: list[Tensor] = []
        self._result: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def finished(self) -> bool:
        """True once every slot has run."""
        return self.slot == len(self.network.path_space.slots)

    def redirect(self, path: ExecutionPath) -> None:
        """Changes the plan for what has not run yet.

        Raises:
            ValueError: the path is not the network's, or contradicts what has run.
        """
        if path == self.path:
            return
        space = self.network.path_space
        if path not in space or space.prefix(path, self.slot) != space.prefix(self.path, self.slot):
            raise ValueError(f'path {path} contradicts {self.path} before slot {self.slot}')
        self.path = path

    @torch.inference_mode()
    def run_slot(self) -> float:
        """Runs the next slot, waits until the device has finished it, and returns its time in ms.

        Raises:
            ValueError: the frame has finished already.
        """
        if self.finished:
            raise ValueError('the frame has passed its last slot')
        started = now_ms()
        name = self.network.path_space.slots[self.slot].name
        if name.startswith('stage'):
            self._run_stage(int(name[5:]))
        elif name.startswith('skip'):
            self._features = self.network.backbone.skips[int(name[4:])](self._features, self.path)
        else:
            getattr(self, f'_run_{name}')()
        synchronise(self.network.device)
        elapsed = now_ms() - started
        self.slot_ms.append(elapsed)
        self.slot += 1
        return elapsed

    def detections(self) -> Detections:
        """The objects found, in px of the original image.

        Raises:
            ValueError: the frame has not finished.
        """
        if self._result is None or not self.finished:
            raise ValueError(f'the frame is before slot {self.slot}, expected it to have finished')
        return self._detections

    def _run_pre(self) -> None:
        self._features = self.network.preprocess(self._image)

    def _run_stage(self, stage: int) -> None:
        if stage > 1:
            self._stages.append(self._features)
        self._features = self.network.backbone.kept(stage, self._features, self.path.width)

    def _run_pyramid(self) -> None:
        self._levels = self.network.pyramid([*self._stages, self._features], self.path.pyramid_width)

    def _run_rpn(self) -> None:
        self._logits, self._deltas = self.network.rpn(self._levels)

    def _run_proposals(self) -> None:
        self._boxes, self._box_levels = self.network.select_proposals(
            self.network.rpn, self._logits, self._deltas, 0, self.path.proposals)

    def _run_head(self) -> None:
        regions = cut_regions(self._levels, self._boxes, self._box_levels)
        self._class_logits, self._class_deltas = self.network.heads(regions, self.path)

    def _run_post(self) -> None:
        self._result = decode_detections(self._class_logits, self._class_deltas, self._boxes, self.network.input_size)
        boxes, scores, labels = (part.cpu().numpy() for part in self._result)
        scale = np.divide(self._image.shape[:2], self.network.input_size)[[1, 0, 1, 0]]
        self._detections = Detections(boxes * scale, scores, labels)
