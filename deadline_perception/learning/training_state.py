"""A training run on disk: weights, their average and the optimiser's state, so that it can be killed at any step."""
from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from deadline_perception.detector.checkpoint import first_not_finite
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.learning.training_plan import TrainingPlan
from deadline_perception.tensor_file import read_header, read_tensors, write_tensors
from deadline_perception.untrusted_file import FileRefused


class TrainingDiverged(DeadlinePerceptionError):
    """The loss is no longer finite."""


class ResumableTraining:
    """What the trainers have in common.

    Attributes:
        network: trained in place, with a `network_hash`.
        average: running mean of its weights, by their names.
        optimiser: of its weights.
        plan: of the run.
        step: steps that were made.
    """

    network: nn.Module
    average: dict[str, Tensor]
    optimiser: torch.optim.Optimizer
    plan: TrainingPlan
    step: int

    @property
    def _recipe(self) -> str:
        """All that decides the weights of a run, beside the network's shape."""
        raise NotImplementedError

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
            raise TrainingDiverged(f'{broken} is no longer finite after step {self.step}; '
                                   f'try a lower learning rate than {self.plan.learning_rate}')
        write_tensors(file, tensors, {'step': str(self.step), 'recipe': self._recipe,
                                      'network_hash': self.network.network_hash})

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
            raise ValueError(f'{file} was saved for network {metadata.get("network_hash")}, '
                             f'expected {self.network.network_hash}')
        if metadata.get('recipe') != self._recipe:
            raise ValueError(f'{file} was saved for {metadata.get("recipe")}, expected {self._recipe}')
        self.step = int(metadata['step'])
        self.network.load_state_dict(_below(tensors, 'weights.'))
        for name, tensor in _below(tensors, 'average.').items():
            self.average[name].copy_(tensor)
        state: dict[int, dict[str, Tensor]] = {}
        parameters = [parameter for group in self.optimiser.param_groups for parameter in group['params']]
        for name, tensor in _below(tensors, 'optimiser.').items():
            index, key = name.split('.', 1)
            weight = parameters[int(index)]
            # Laid out in memory as its weight, which fused kernels ask for.
            tensor = torch.empty_like(weight).copy_(tensor) if tensor.shape == weight.shape else tensor
            state.setdefault(int(index), {})[key] = tensor
        self.optimiser.load_state_dict({'state': state,
                                        'param_groups': self.optimiser.state_dict()['param_groups']})


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix):]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
