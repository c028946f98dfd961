"""One frame's way through the network, slot by slot; between two slots its plan may change."""
from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from deadline_perception.detector.detections import Detections
from deadline_perception.detector.heads import decode_detections
from deadline_perception.execution_path import ExecutionPath
from deadline_perception.latency.stopwatch import now_ms, wait_for_stream

if TYPE_CHECKING:
    from deadline_perception.detector.network import MultiPathDetector


class FrameRun:
    """One frame on its way.

    Args:
        network: the detector.
        image_bgr: uint8 `[H, W, 3]`.
        path: the plan.

    Attributes:
        slot: index of the next slot to run.
        path: the plan; choices of passed slots are facts.
        slot_ms: times of the slots that have run, ms.

    Raises:
        ValueError: the path is not one of the network's.
    """

    def __init__(self, network: MultiPathDetector, image_bgr: np.ndarray, path: ExecutionPath) -> None:
        if path not in network.path_space:
            raise ValueError(f'path {path} is not one of configuration {network.config_name!r}')
        self.network = network
        self.path = path
        self.slot = 0
        self.slot_ms: list[float] = []
        self._image = image_bgr
        self._values: dict[str, tuple[Tensor, ...]] = {}
        self._regions = 0
        self._detections: Detections | None = None
        self._engine = network.engine
        self._number = self._engine.begin_frame()

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

    def fork(self) -> FrameRun:
        """A second run of the frame from here on: both keep what has been computed, and neither disturbs the other.

        Raises:
            ValueError: the engine's buffers serve one run at a time.
        """
        if self._engine.reuses_buffers:
            raise ValueError(f'engine {self._engine.identity} reuses its buffers, expected one that runs can share')
        other = copy(self)
        other.slot_ms, other._values = list(self.slot_ms), dict(self._values)
        return other

    @torch.inference_mode()
    def run_segment(self) -> float:
        """Runs the next slot, waits until the device has finished it, and returns its time in ms.

        Raises:
            ValueError: the frame has finished already, or, where the engine reuses buffers, another has begun since.
        """
        if self.finished:
            raise ValueError('the frame has passed its last slot')
        self._engine.check_frame(self._number)
        started = now_ms()
        name = self.network.path_space.slots[self.slot].name
        if name == 'pre':
            self._run_pre()
        elif name == 'post':
            self._run_post()
        else:
            self._run_segment(name)
        wait_for_stream(self.network.device)
        elapsed = now_ms() - started
        self.slot_ms.append(elapsed)
        self.slot += 1
        return elapsed

    def detections(self) -> Detections:
        """The objects found, in px of the original image.

        Raises:
            ValueError: the frame has not finished.
        """
        if self._detections is None or not self.finished:
            raise ValueError(f'the frame is before slot {self.slot}, expected it to have finished')
        return self._detections

    def proposals(self) -> np.ndarray:
        """Regions that may hold an object, in px of the original image: float32 `[N, 4]`; none before there are any."""
        if 'proposals' not in self._values:
            return np.zeros((0, 4), np.float32)
        boxes = self._values['proposals'][0][:self._regions].float().cpu().numpy()
        return (boxes * self._scale()).astype(np.float32)

    def _scale(self) -> np.ndarray:
        """From px of the network's input to px of the image: `[4]`, for the corners of boxes."""
        return np.divide(self._image.shape[:2], self.network.input_size)[[1, 0, 1, 0]]

    def _run_pre(self) -> None:
        self._values['stage0'] = self._engine.hold('stage0', (self.network.preprocess(self._image),))

    def _run_segment(self, name: str) -> None:
        segment = self.network.path_space.segment(self.slot, self.path)
        if segment is None:
            return
        made = f'stage{self.network.skip_stages[int(name[4:])]}' if name.startswith('skip') else name
        compute = partial(self.network.compute, name, self.path)
        inputs = {source: self._values[source] for source in self.network.reads(name)}
        if name == 'proposals':
            outputs = compute(inputs)
            self._regions = len(outputs[0])
            self._values[made] = self._engine.hold(made, outputs, self.path.proposals)
        else:
            self._values[made] = self._engine.run(segment, made, compute, inputs)

    def _run_post(self) -> None:
        logits, deltas, boxes = (part[:self._regions] for part in (*self._values['head'], self._values['proposals'][0]))
        result = decode_detections(logits, deltas, boxes, self.network.input_size)
        found, scores, labels = (part.cpu().numpy() for part in result)
        self._detections = Detections(found * self._scale(), scores, labels)
