"""Trains all levels of a nested classifier together; can be killed and resumed at any step.

Every step minimises the mean of the losses of all levels on one batch (nested-network thesis, section 3, after Kim et
al. 2018), so that one set of weights serves each of them.
"""
from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor

from deadline_perception.classifier.network import LevelNorm, NestedClassifier
from deadline_perception.learning.crop_samples import CropSource
from deadline_perception.learning.training_state import ResumableTraining, TrainingDiverged
from deadline_perception.learning.training_plan import TrainingPlan

_STATISTICS_BATCHES = 30


def possible_loss(logits: Tensor, possible: Tensor) -> Tensor:
    """Mean of `-log(probability that the class is one of the possible ones)`; the cross entropy where that is one.

    Args:
        logits: `[N, C]`.
        possible: bool `[N, C]`, at least one in each row.
    """
    allowed = logits.masked_fill(~possible, -math.inf)
    return (logits.logsumexp(1) - allowed.logsumexp(1)).mean()


class LevelTrainer(ResumableTraining):
    """Holds what training changes: weights, their average, and the optimiser's state.

    Args:
        network: trained in place.
        source: draws the crops.
        plan: how long and how fast; its `crop`, `sizes` and `bfloat16` say nothing here.
        start: what the weights started from where the plan's seed does not say it; a state of another is refused.

    Raises:
        ValueError: source and network have other classes, or other sizes of crops.
    """

    def __init__(self, network: NestedClassifier, source: CropSource, plan: TrainingPlan, start: str = '') -> None:
        if source.class_names != network.class_names or source.input_px != network.config.input_px:
            raise ValueError(f'crops of {source.input_px} px are of the classes {source.class_names}, expected '
                             f'{network.config.input_px} px and {network.class_names}')
        self.network, self.source, self.plan = network.train(), source, plan
        self.step, self.start = 0, start
        self.ratios = network.config.ratios
        self.average = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        norms = {id(parameter) for norm in _norms(network) for parameter in norm.parameters()}
        matrices = [p for p in network.parameters() if p.dim() >= 2 and id(p) not in norms]
        others = [p for p in network.parameters() if p.dim() < 2 or id(p) in norms]
        self.optimiser = torch.optim.AdamW([{'params': matrices, 'weight_decay': plan.weight_decay},
                                            {'params': others, 'weight_decay': 0.0}], lr=plan.learning_rate)
        self._data = source.digest

    def run(self, until: int | None = None, report: Callable[[int, dict[str, float]], None] | None = None, *,
            stop: Callable[[], bool] = lambda: False) -> None:
        """Trains up to step `until` (default: the plan's end).

        Args:
            until: number of steps that are done then.
            report: told the losses of every step: `mean`, and `level1` and so on.
            stop: asked after every step; True ends the run.

        Raises:
            TrainingDiverged: a loss or gradient is NaN or infinite; weights and average are those of the step before.
        """
        until = self.plan.steps if until is None else min(until, self.plan.steps)
        while self.step < until:
            losses = self._train_step()
            self.step += 1
            if report is not None:
                report(self.step, losses)
            if stop():
                break

    def losses(self, crops: Tensor, possible: Tensor) -> Tensor:
        """The loss of every level on one batch, `[levels]`; training minimises their mean.

        Args:
            crops: normalised, `[N, 3, h, w]`.
            possible: bool `[N, C]`.
        """
        return torch.stack([possible_loss(self.network.logits(crops, ratio), possible) for ratio in self.ratios])

    def _train_step(self) -> dict[str, float]:
        crops, possible = self._batch([self.plan.seed, self.step])
        for group in self.optimiser.param_groups:
            group['lr'] = self.plan.rate(self.step)
        self.optimiser.zero_grad(set_to_none=True)
        losses = self.losses(crops, possible)
        mean = losses.mean()
        mean.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.plan.clip_norm))
        values = {'mean': mean.item(), **{f'level{number}': value for number, value in enumerate(losses.tolist(), 1)}}
        for what, value in (('loss', values['mean']), ('gradient', norm)):
            if not math.isfinite(value):
                raise TrainingDiverged(f'{what} of step {self.step} is {value}; try a lower learning rate than '
                                       f'{self.plan.learning_rate}')
        self.optimiser.step()
        decay = min(self.plan.ema, (1 + self.step) / (10 + self.step))
        weights = self.network.state_dict()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.values()), [weights[name] for name in self.average], 1 - decay)
        return values

    def _batch(self, seed: list[int]) -> tuple[Tensor, Tensor]:
        batch = self.source.draw(np.random.default_rng(seed), self.plan.batch)
        return self.network.normalise_crops(batch.crops), torch.from_numpy(batch.possible).to(self.network.device)

    @torch.no_grad()
    def finish(self) -> None:
        """Gives the network the averaged weights, and its norms the statistics that these have on training crops.

        The statistics are means over batches, as Wu and Johnson 2021, section 3, propose. Training can go on only from
        a saved state.
        """
        self.network.load_state_dict(self.average)
        self.network.train()
        for number in range(_STATISTICS_BATCHES):
            for norm in _norms(self.network):
                norm.momentum = 1.0 / (number + 1)
            crops, _ = self._batch([self.plan.seed, self.plan.steps + number])
            for ratio in self.ratios:
                self.network.logits(crops, ratio)
        for norm in _norms(self.network):
            del norm.momentum
        self.network.eval()

    @property
    def _recipe(self) -> str:
        """All that decides the weights of a run, beside the network's shape."""
        return json.dumps({'plan': asdict(self.plan), 'data': self._data, 'start': self.start}, sort_keys=True)


def _norms(network: NestedClassifier) -> list[LevelNorm]:
    return [module for module in network.modules() if isinstance(module, LevelNorm)]
