"""A training run on disk: weights, their average and the optimiser's state, so that it can be killed at any step."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Generic, TypeVar

import torch
from torch import Tensor

from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.untrusted_file import MOST_DIGITS, FileRefused
from deadline_perception.engines.tensor_file import read_header, read_tensors
from deadline_perception.engines.torch_network import TorchModule
from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.extras.weights_writer import write_tensors
from deadline_perception.networks.multi_path.checkpoint import first_not_finite
from deadline_perception.networks.multi_path.operators import SlicedNorm

Network = TypeVar('Network', bound=TorchModule)


class TrainingDiverged(DeadlinePerceptionError):
    """The loss is no longer finite."""


class ResumableTraining(Generic[Network]):
    """What the trainers have in common: weights, their average, the optimiser's state, and one weight update.

    Args:
        network: trained in place, with a `network_hash`. Its norms and biases do not decay.
        plan: how long and how fast.
        start: what the weights started from where the plan's seed does not say it; a state of another is refused.
        fused: AdamW's kernel; None leaves the choice to PyTorch.

    Attributes:
        average: running mean of the weights, by their names.
        optimiser: of the weights.
        step: steps that were made.
    """

    def __init__(
        self, network: Network, plan: TrainingPlan, start: str = '', *, fused: bool | None = None
    ) -> None:
        self.network, self.plan, self.start, self.step = network.train(), plan, start, 0
        weights = network.state_dict()
        self.average = {name: tensor.clone() for name, tensor in weights.items()}
        self._averaged = list(self.average.values()), list(weights.values())
        norms = {
            id(parameter)
            for module in network.modules()
            if isinstance(module, SlicedNorm)
            for parameter in module.parameters()
        }
        matrices = [p for p in network.parameters() if p.dim() >= 2 and id(p) not in norms]
        others = [p for p in network.parameters() if p.dim() < 2 or id(p) in norms]
        self.optimiser = torch.optim.AdamW(
            [
                {'params': matrices, 'weight_decay': plan.weight_decay},
                {'params': others, 'weight_decay': 0.0},
            ],
            lr=plan.learning_rate,
            fused=fused,
        )

    @property
    def _facts(self) -> dict[str, str]:
        """What decides the weights of a run, beside the network's shape, plan and start."""
        raise NotImplementedError

    @property
    def _recipe(self) -> str:
        return json.dumps(
            {'plan': asdict(self.plan), 'start': self.start, **self._facts}, sort_keys=True
        )

    def run(
        self,
        until: int | None = None,
        report: Callable[[int, dict[str, float]], None] | None = None,
        *,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Trains up to step `until` (default: the plan's end).

        Args:
            until: number of steps that are done then.
            report: called with the losses of every step.
            stop: asked after every step; True ends the run.

        Raises:
            TrainingDiverged: a loss or gradient is NaN or infinite; weights and average are those of the step before.
        """
        until = self.plan.steps if until is None else min(until, self.plan.steps)
        while self.step < until:
            losses = self._one_step()
            self.step += 1
            if report is not None:
                report(self.step, losses)
            if stop():
                break

    def _one_step(self) -> dict[str, float]:
        """Trains on what the plan draws for this step; gives its losses."""
        raise NotImplementedError

    def _begin_step(self) -> None:
        """Sets the rate of this step, and forgets the gradients of the one before."""
        for group in self.optimiser.param_groups:
            group['lr'] = self.plan.rate(self.step)
        self.optimiser.zero_grad(set_to_none=True)

    def _clip_gradients(self) -> Tensor:
        """Limits the gradients to the plan's norm; returns the norm that they had."""
        return torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.plan.clip_norm)

    def _refuse_diverged(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise TrainingDiverged(
                f'{what} is {value}; try a lower learning rate than {self.plan.learning_rate}'
            )

    @torch.no_grad()
    def _end_step(self) -> None:
        """Updates the weights by their gradients, and the average by them: faster at first, when it is far behind."""
        self._update()
        decay = min(self.plan.ema, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(*self._averaged, 1 - decay)

    def _update(self) -> None:
        self.optimiser.step()

    def save(self, file: Path) -> None:
        """Writes everything needed to go on, whole or not at all.

        Raises:
            TrainingDiverged: a weight is NaN or infinite; the file before, if any, stays.
            OSError: the file cannot be written, such as on a full disk; the one before stays too.
        """
        tensors: dict[str, Tensor] = {f'average.{k}': v for k, v in self.average.items()}
        tensors |= {f'weights.{k}': v for k, v in self.network.state_dict().items()}
        for index, state in self.optimiser.state_dict()['state'].items():
            tensors |= {f'optimiser.{index}.{k}': v for k, v in state.items()}
        broken = first_not_finite(tensors)
        if broken is not None:
            raise TrainingDiverged(
                f'{broken} is no longer finite after step {self.step}; '
                f'try a lower learning rate than {self.plan.learning_rate}'
            )
        write_tensors(
            file,
            tensors,
            {
                'step': str(self.step),
                'recipe': self._recipe,
                'network_hash': self.network.network_hash,
            },
        )

    def resume(self, file: Path) -> None:
        """Goes on where `save` left off.

        Raises:
            ValueError: the file is no training state, or one of another network or recipe.
        """
        try:
            header = read_header(file)
            metadata, tensors = header.metadata, read_tensors(file, header)
        except FileRefused as error:
            raise ValueError(f'{file} cannot be read as a training state: {error}') from error
        if metadata.get('network_hash') != self.network.network_hash:
            raise ValueError(
                f'{file} was saved for network {metadata.get("network_hash")}, '
                f'expected {self.network.network_hash}'
            )
        if metadata.get('recipe') != self._recipe:
            raise ValueError(
                f'{file} was saved for {metadata.get("recipe")}, expected {self._recipe}'
            )
        step = _step(metadata.get('step'), self.plan.steps, file)
        self._check(tensors, file)
        self.step = step
        self.network.load_state_dict(_below(tensors, 'weights.'))
        for name, tensor in _below(tensors, 'average.').items():
            self.average[name].copy_(tensor)
        state: dict[int, dict[str, Tensor]] = {}
        parameters = self._parameters
        for name, tensor in _below(tensors, 'optimiser.').items():
            index, key = name.split('.', 1)
            weight = parameters[int(index)]
            # Laid out in memory as its weight, which fused kernels ask for.
            tensor = (
                torch.empty_like(weight).copy_(tensor) if tensor.shape == weight.shape else tensor
            )
            state.setdefault(int(index), {})[key] = tensor
        self.optimiser.load_state_dict(
            {'state': state, 'param_groups': self.optimiser.state_dict()['param_groups']}
        )

    @property
    def _parameters(self) -> list[Tensor]:
        """The weights by the numbers that the optimiser has for them."""
        return [weight for group in self.optimiser.param_groups for weight in group['params']]

    def _check(self, tensors: dict[str, Tensor], file: Path) -> None:
        """Makes sure that tensors are what `save` writes of this network, before any of them is taken.

        Raises:
            ValueError: one is missing, unknown, of another shape, or not finite.
        """
        expected = {
            f'{part}.{k}': v.shape
            for part in ('weights', 'average')
            for k, v in self.average.items()
        }
        for index, weight in enumerate(self._parameters):
            if any(
                name.startswith(f'optimiser.{index}.') for name in tensors
            ):  # else it never had a gradient
                expected[f'optimiser.{index}.step'] = torch.Size([])
                for moment in ('exp_avg', 'exp_avg_sq'):
                    expected[f'optimiser.{index}.{moment}'] = weight.shape
        strange = sorted(expected.keys() ^ tensors.keys())
        if strange:
            what = 'lacks' if strange[0] in expected else 'holds'
            raise ValueError(
                f'{file} {what} {printable(strange[0], 100)}, expected the tensors of this network'
            )
        for name, tensor in tensors.items():
            if tensor.shape != expected[name]:
                raise ValueError(
                    f'{file} holds {name} of {list(tensor.shape)}, expected {list(expected[name])}'
                )
        broken = first_not_finite(tensors)
        if broken is not None:
            raise ValueError(f'{file} holds NaN or infinity in {broken}, expected finite values')


def _step(text: object, steps: int, file: Path) -> int:
    """The number of steps that were made, as a state notes it."""
    is_number = isinstance(text, str) and text.isascii() and text.isdecimal()
    if not is_number or len(text) > MOST_DIGITS or int(text) > steps:
        raise ValueError(
            f'{file} has step {printable(repr(text), 60)}, expected a whole number in [0, {steps}]'
        )
    return int(text)


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)
    }
