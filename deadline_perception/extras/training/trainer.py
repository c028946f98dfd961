"""Trains a multi-path detector; can be killed and resumed at any step."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.extras.training.first_stage import first_stage_of
from deadline_perception.extras.training.losses import path_losses
from deadline_perception.extras.training.samples import Sample, SampleSource
from deadline_perception.extras.training.strategies import Strategy, TrainedPath
from deadline_perception.extras.training.targets import TargetObjects
from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.extras.training.training_state import ResumableTraining
from deadline_perception.extras.training.transfer import (
    add_up_gradients,
    in_bfloat16,
    resized,
    to_batch,
)
from deadline_perception.extras.workers import Workers
from deadline_perception.networks.multi_path.declaration import scale_of, scaled_size
from deadline_perception.networks.multi_path.network import MultiPathDetector

_DRAWING_THREADS = 8


@dataclass(frozen=True, eq=False)
class _DrawnImage:
    """An image, its objects and what is wanted of the first stage by input size; what goes on to draw its regions."""

    sample: Sample
    objects: dict[tuple[int, int], TargetObjects]
    anchors: dict[tuple[int, int], object]
    generator: np.random.Generator


@dataclass(frozen=True, eq=False)
class _Batch:
    """What one step trains on: images of all processes, those of this one as they are drawn, and paths with the input
    size in px of each."""

    images: int
    drawn: list[Future[_DrawnImage]]
    trained: list[tuple[TrainedPath, tuple[int, int]]]


class Trainer(ResumableTraining[MultiPathDetector]):
    """Trains a network in place, on the paths that a strategy chooses.

    Args:
        source: draws samples of the network's input size.
        workers: the processes that share every batch out. All hold the same weights and do the same steps; a run in
            several gives the weights of a run in one, up to the order of sums.
        start: see `ResumableTraining`.

    Raises:
        ValueError: there are more processes than images in a batch, or source and network have other classes.
    """

    def __init__(
        self,
        network: MultiPathDetector,
        source: SampleSource,
        plan: TrainingPlan,
        strategy: Strategy,
        workers: Workers = Workers(),
        start: str = '',
    ) -> None:
        if workers.count > plan.batch:
            raise ValueError(
                f'{workers.count} processes share batches of {plan.batch} images, expected at least '
                f'{workers.count} images'
            )
        if source.class_names != network.class_names:
            raise ValueError(
                f'classes of the samples are {source.class_names}, expected those of the network, '
                f'{network.class_names}'
            )
        super().__init__(network, plan, start, fused=network.pixel_mean.is_cuda)
        self.first_stage = first_stage_of(network)
        self.source, self.strategy, self.workers = source, strategy, workers

    def run(
        self,
        until: int | None = None,
        report: Callable[[int, dict[str, float]], None] | None = None,
        *,
        stop: Callable[[], bool] = lambda: False,
        ahead: int | None = None,
    ) -> None:
        """Trains up to step `until` (default: the plan's end).

        Args:
            until: number of steps that are done then.
            report: called with the losses of every step.
            stop: asked in every step; the first True, of whichever process, ends the run in all after that step.
            ahead: steps whose images are drawn beside the step before; None for 1 on a GPU and 0 on a CPU, which is
                busy. The weights are the same.

        Raises:
            TrainingDiverged: a loss or gradient is NaN or infinite; weights and average are those of the step before.
        """
        until = self.plan.steps if until is None else min(until, self.plan.steps)
        ahead = int(self.network.pixel_mean.is_cuda) if ahead is None else ahead
        batches: deque[_Batch] = deque()
        drawn = self.step
        with ThreadPoolExecutor(_DRAWING_THREADS) as pool:
            while self.step < until:
                while drawn <= self.step + ahead and drawn < until:
                    batches.append(self._draw(drawn, pool))
                    drawn += 1
                losses, stopped = self._train_step(batches.popleft(), stop())
                self.step += 1
                if report is not None:
                    report(self.step, losses)
                if stopped:
                    break

    def _draw(self, step: int, pool: ThreadPoolExecutor) -> _Batch:
        """Begins to draw what a step trains on; depends on nothing but plan, source and step."""
        plan = self.plan
        draws = np.random.default_rng([plan.seed, step])
        whole, crop = self.source.size, None
        if plan.crop is not None and step < plan.crop_share * plan.steps:
            crop = plan.crop
        elif plan.sizes:
            whole = plan.sizes[draws.integers(len(plan.sizes))]
        size = crop or whole
        images = max(
            self.workers.count, plan.batch * math.prod(self.source.size) // math.prod(size)
        )
        paths = self.strategy.paths(self.network.path_space, step / plan.steps, draws)
        if whole != self.source.size:  # a scale of the input already, not to be scaled again
            paths = [replace(one, path=_unscaled(one.path)) for one in paths]
        trained = [(one, scaled_size(size, scale_of(one.path))) for one in paths]
        # Every image has a generator of its own, so that it does not matter which process draws it.
        draw = partial(
            self._draw_image, size=whole, crop=crop, sizes={scaled for _, scaled in trained}
        )
        drawn = [
            pool.submit(draw, np.random.default_rng([plan.seed, step, 1 + index]))
            for index in self.workers.share(range(images))
        ]
        return _Batch(images, drawn, trained)

    def _draw_image(
        self,
        generator: np.random.Generator,
        size: tuple[int, int],
        crop: tuple[int, int] | None,
        sizes: set[tuple[int, int]],
    ) -> _DrawnImage:
        sample = self.source.draw(generator, size, crop)
        known = TargetObjects.of(sample.ground_truth, sample.named)
        objects = {scaled: known.resized(crop or size, scaled) for scaled in sorted(sizes)}
        anchors = {
            scaled: self.first_stage.targets(self.network, scaled, ground_truth, generator)
            for scaled, ground_truth in objects.items()
        }
        return _DrawnImage(sample, objects, anchors, generator)

    def _train_step(self, batch: _Batch, stop: bool) -> tuple[dict[str, float], bool]:
        """Losses of the step, and whether some process wants to stop."""
        plan, device = self.plan, self.network.pixel_mean.device
        drawn = [future.result() for future in batch.drawn]
        images = self.network.normalise(to_batch([image.sample for image in drawn], device))
        generators = [image.generator for image in drawn]
        self._begin_step()
        shown: dict[str, Tensor] = {}
        target = None
        for rank, (one, size) in enumerate(batch.trained):
            anchors = self.first_stage.joined(
                self.network, size, [image.anchors[size] for image in drawn], device
            )
            with in_bfloat16(device, plan.bfloat16):
                losses, target = path_losses(
                    self.network,
                    resized(images, size),
                    [image.objects[size] for image in drawn],
                    anchors,
                    one,
                    generators,
                    batch=batch.images,
                    target=target,
                )
            total = sum(losses.values())
            total.backward()
            if rank == 0:
                shown |= losses
            shown[f'path{rank}'] = total
        summed = torch.stack(
            [*(value.detach() for value in shown.values()), images.new_full((), stop)]
        )
        if self.workers.count > 1:
            summed = add_up_gradients(self.network.parameters(), summed)
        *summed, stopped, norm = torch.cat((summed, self._clip_gradients()[None])).tolist()
        values = dict(zip(shown, summed))
        for rank, (one, _) in enumerate(batch.trained):
            self._refuse_diverged(
                f'loss of step {self.step} on path {one.path}', values[f'path{rank}']
            )
        self._refuse_diverged(f'gradient of step {self.step}', norm)
        self._end_step()
        return values, stopped > 0.0

    @property
    def _facts(self) -> dict[str, str]:
        """See `ResumableTraining`."""
        return {'strategy': repr(self.strategy), 'data': self.source.digest}


def _unscaled(path: ExecutionPath) -> ExecutionPath:
    """The path on an input as it is."""
    if 'scale' not in path.space.place:
        return path
    return path.replace(scale=path.space.largest['scale'])
