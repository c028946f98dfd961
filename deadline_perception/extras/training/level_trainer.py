"""Trains all levels of a nested classifier together; can be killed and resumed at any step.

Every step minimises the mean of the losses of all levels on one batch (nested-network thesis, section 3, after Kim et
al. 2018), so that one set of weights serves each of them.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from deadline_perception.extras.several_networks.classifier.network import (
    LevelNorm,
    NestedClassifier,
)
from deadline_perception.extras.training.crop_samples import CropSource
from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.extras.training.training_state import ResumableTraining

_STATISTICS_BATCHES = 30


def possible_loss(logits: Tensor, possible: Tensor) -> Tensor:
    """Mean of `-log(probability that the class is one of the possible ones)`; the cross entropy where that is one.

    Of logits `[N, C]` and possible classes, bool `[N, C]`, at least one in each row.
    """
    allowed = logits.masked_fill(~possible, -math.inf)
    return (logits.logsumexp(1) - allowed.logsumexp(1)).mean()


class LevelTrainer(ResumableTraining[NestedClassifier]):
    """Trains a network in place, all levels on every batch; the plan's `crop`, `sizes` and `bfloat16` say nothing here.

    Raises:
        ValueError: source and network have other classes, or other sizes of crops.
    """

    def __init__(
        self, network: NestedClassifier, source: CropSource, plan: TrainingPlan, start: str = ''
    ) -> None:
        if source.class_names != network.class_names or source.input_px != network.config.input_px:
            raise ValueError(
                f'crops of {source.input_px} px are of the classes {source.class_names}, expected '
                f'{network.config.input_px} px and {network.class_names}'
            )
        super().__init__(network, plan, start)
        self.source, self.ratios = source, network.config.ratios
        self._data = source.digest

    def losses(self, crops: Tensor, possible: Tensor) -> Tensor:
        """Loss `[levels]` of each level, on normalised crops `[N, 3, h, w]` of possible classes, bool `[N, C]`."""
        return torch.stack(
            [possible_loss(self.network.logits(crops, ratio), possible) for ratio in self.ratios]
        )

    def _one_step(self) -> dict[str, float]:
        """The losses are `mean`, and `level1` and so on."""
        crops, possible = self._batch([self.plan.seed, self.step])
        self._begin_step()
        losses = self.losses(crops, possible)
        mean = losses.mean()
        mean.backward()
        norm = float(self._clip_gradients())
        values = {
            'mean': mean.item(),
            **{f'level{number}': value for number, value in enumerate(losses.tolist(), 1)},
        }
        self._refuse_diverged(f'loss of step {self.step}', values['mean'])
        self._refuse_diverged(f'gradient of step {self.step}', norm)
        self._end_step()
        return values

    def _batch(self, seed: list[int]) -> tuple[Tensor, Tensor]:
        batch = self.source.draw(np.random.default_rng(seed), self.plan.batch)
        return self.network.normalise_crops(batch.crops), torch.from_numpy(batch.possible).to(
            self.network.device
        )

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
    def _facts(self) -> dict[str, str]:
        """See `ResumableTraining`."""
        return {'data': self._data}


def _norms(network: NestedClassifier) -> list[LevelNorm]:
    return [module for module in network.modules() if isinstance(module, LevelNorm)]
