"""Trains a multi-path detector; can be killed and resumed at any step."""
from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from deadline_perception.detector.network import MultiPathDetector
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.learning.losses import path_losses, sample_anchors
from deadline_perception.learning.samples import Sample, SampleSource
from deadline_perception.learning.strategies import Strategy
from deadline_perception.learning.targets import Truth


class TrainingDiverged(DeadlinePerceptionError):
    """The loss is no longer finite."""


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how fast to learn.

    Attributes:
        steps: weight updates, >= 1.
        batch: images per step, >= 1.
        learning_rate: peak of AdamW's rate; linear warm-up, then a cosine down to 1 % of it.
        warm_up: steps of warm-up.
        weight_decay: AdamW's, on convolution and matrix weights.
        clip_norm: largest norm of a gradient.
        ema: largest decay of the averaged weights, which are the ones that ship, in [0, 1).
        seed: of samples, paths and anchors.
        half_precision: bfloat16 where it does no harm.
        crop: height and width in px of the windows that the first steps train on, multiples of 32; None trains on
            whole images from the start. Windows around objects take less time each and hold more of what matters.
        crop_share: share of the steps that train on windows, in [0, 1]; the batch grows to fill the same area.
        sizes: heights and widths in px, multiples of 32, of which every step on whole images draws one; none stands
            for the input size. A network that will be read at several sizes, or at unknown distances, gains by it.

    Raises:
        ValueError: a number lies outside its range.
    """

    steps: int
    batch: int = 4
    learning_rate: float = 6e-4
    warm_up: int = 150
    weight_decay: float = 0.05
    clip_norm: float = 5.0
    ema: float = 0.999
    seed: int = 0
    half_precision: bool = True
    crop: tuple[int, int] | None = None
    crop_share: float = 0.5
    sizes: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1:
            raise ValueError(f'steps is {self.steps} and batch {self.batch}, expected at least 1 each')
        if not 0.0 <= self.ema < 1.0:
            raise ValueError(f'ema is {self.ema}, expected a decay in [0, 1)')
        if not 0.0 <= self.crop_share <= 1.0:
            raise ValueError(f'crop_share is {self.crop_share}, expected a share in [0, 1]')
        for size in self.sizes if self.crop is None else (*self.sizes, self.crop):
            if min(size) < 32 or size[0] % 32 or size[1] % 32:
                raise ValueError(f'training size is {size} px, expected positive multiples of 32 px')

    def rate(self, step: int) -> float:
        """Learning rate of a step."""
        if step < self.warm_up:
            return self.learning_rate * (step + 1) / self.warm_up
        done = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))


class Trainer:
    """Holds what training changes: weights, their average, and the optimiser's state.

    Args:
        network: trained in place.
        source: draws samples of the network's input size.
        plan: how long and how fast.
        strategy: which paths a step runs.
    """

    def __init__(self, network: MultiPathDetector, source: SampleSource, plan: TrainingPlan,
                 strategy: Strategy) -> None:
        self.network = network.train()
        self.source = source
        self.plan = plan
        self.strategy = strategy
        self.step = 0
        self.average = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
        matrices = [p for p in network.parameters() if p.dim() >= 3]
        others = [p for p in network.parameters() if p.dim() < 3]
        self.optimiser = torch.optim.AdamW([{'params': matrices, 'weight_decay': plan.weight_decay},
                                            {'params': others, 'weight_decay': 0.0}], lr=plan.learning_rate)

    def run(self, until: int | None = None, report: Callable[[int, dict[str, float]], None] | None = None) -> None:
        """Trains up to step `until` (default: the plan's end), telling `report` each step's losses.

        Raises:
            TrainingDiverged: a loss is NaN or infinite; the weights are those of the step before.
        """
        until = self.plan.steps if until is None else min(until, self.plan.steps)
        try:
            while self.step < until:
                losses = self._train_step()
                self.step += 1
                if report is not None:
                    report(self.step, losses)
        finally:
            self.network.set_training_size(self.network.input_size)

    def _train_step(self) -> dict[str, float]:
        plan = self.plan
        draws = np.random.default_rng([plan.seed, self.step])
        size, crop = self._sizes(draws)
        self.network.set_training_size(crop or size)
        batch = max(1, plan.batch * math.prod(self.source.size) // math.prod(crop or size))
        # Every image has a generator of its own, so that it does not matter which process draws it.
        own = [np.random.default_rng([plan.seed, self.step, 1 + index]) for index in range(batch)]
        images, truths = to_batch([self.source.draw(generator, size, crop) for generator in own],
                                  self.network.pixel_mean.device)
        images = self.network.normalise(images).contiguous(memory_format=torch.channels_last)
        generators = [torch.Generator().manual_seed(int(generator.integers(2 ** 31))) for generator in own]
        anchors = sample_anchors(self.network, truths, generators)
        for group in self.optimiser.param_groups:
            group['lr'] = plan.rate(self.step)
        self.optimiser.zero_grad(set_to_none=True)
        shown: dict[str, Tensor] = {}
        lesson = None
        trained = self.strategy.paths(self.network.path_space, self.step / plan.steps, draws)
        for rank, one in enumerate(trained):
            with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=plan.half_precision):
                losses, lesson = path_losses(self.network, images, truths, anchors, one, generators, batch=batch,
                                             lesson=lesson)
            total = sum(losses.values())
            total.backward()
            if rank == 0:
                shown |= losses
            shown[f'path{rank}'] = total
        values = dict(zip(shown, torch.stack([value.detach() for value in shown.values()]).tolist()))
        for rank, one in enumerate(trained):
            if not math.isfinite(values[f'path{rank}']):
                raise TrainingDiverged(f'loss of step {self.step} on path {one.path} is {values[f"path{rank}"]}; '
                                       f'try a lower learning rate than {plan.learning_rate}')
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), plan.clip_norm)
        if not torch.isfinite(norm):
            raise TrainingDiverged(f'gradient of step {self.step} is {float(norm)}; '
                                   f'try a lower learning rate than {plan.learning_rate}')
        self.optimiser.step()
        decay = min(plan.ema, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, tensor in self.network.state_dict().items():
                self.average[name].lerp_(tensor, 1 - decay)
        return values

    def _sizes(self, draws: np.random.Generator) -> tuple[tuple[int, int], tuple[int, int] | None]:
        """Height and width in px that the images of this step are brought to, and of the windows cut from them."""
        plan = self.plan
        if plan.crop is not None and self.step < plan.crop_share * plan.steps:
            return self.source.size, plan.crop
        return (plan.sizes[draws.integers(len(plan.sizes))] if plan.sizes else self.source.size), None

    @property
    def _recipe(self) -> str:
        """All that decides the weights of a run, beside the network and the samples."""
        return json.dumps({'plan': asdict(self.plan), 'strategy': repr(self.strategy)}, sort_keys=True)

    def save(self, file: Path) -> None:
        """Writes everything needed to go on, whole or not at all."""
        tensors: dict[str, Tensor] = {f'average.{k}': v for k, v in self.average.items()}
        tensors |= {f'weights.{k}': v for k, v in self.network.state_dict().items()}
        for index, state in self.optimiser.state_dict()['state'].items():
            tensors |= {f'optimiser.{index}.{k}': v for k, v in state.items()}
        partial = file.with_name(file.name + '.partial')
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file({k: v.detach().contiguous() for k, v in tensors.items()}, partial,
                  metadata={'step': str(self.step), 'recipe': self._recipe, 'network_hash': self.network.network_hash})
        os.replace(partial, file)

    def resume(self, file: Path) -> None:
        """Goes on where `save` left off.

        Raises:
            ValueError: the file belongs to another network, plan or strategy.
        """
        with safe_open(file, framework='pt') as stored:
            metadata = stored.metadata()
            if metadata['network_hash'] != self.network.network_hash:
                raise ValueError(f'{file} was saved for network {metadata["network_hash"]}, '
                                 f'expected {self.network.network_hash}')
            if metadata['recipe'] != self._recipe:
                raise ValueError(f'{file} was saved for {metadata["recipe"]}, expected {self._recipe}')
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}
        self.step = int(metadata['step'])
        self.network.load_state_dict(_below(tensors, 'weights.'))
        self.average = {k: v.to(self.network.pixel_mean.device) for k, v in _below(tensors, 'average.').items()}
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _below(tensors, 'optimiser.').items():
            index, key = name.split('.', 1)
            state.setdefault(int(index), {})[key] = tensor
        self.optimiser.load_state_dict({'state': state,
                                        'param_groups': self.optimiser.state_dict()['param_groups']})


def to_batch(samples: list[Sample], device: torch.device) -> tuple[Tensor, list[Truth]]:
    """Samples -> pixel values `[N, 3, h, w]` float32 and the objects of each image."""
    images = torch.from_numpy(np.stack([sample.image_bgr for sample in samples])).to(device)
    truths = []
    for sample in samples:
        boxes = torch.from_numpy(sample.truth.boxes_xyxy_px).to(device)
        crowd = torch.from_numpy(sample.truth.crowd).to(device)
        labels = torch.from_numpy(sample.truth.labels).to(device)
        truths.append(Truth(boxes[~crowd], labels[~crowd], boxes[crowd]))
    return images.permute(0, 3, 1, 2).float(), truths


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix):]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
