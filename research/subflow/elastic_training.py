"""Training whose iterations end within a time budget: each on the largest sub-network whose bound fits.

An iteration computes, differentiates and changes the weights of active neurons alone (SubFlow, section V-B). In the
prefix form these are views of the weights, so that forward pass, backward pass and the optimiser's step are dense and
as short as for a network of that size; weights and momentum of inactive neurons are not touched.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch
from time_bounds import TimeBounds
from torch import Tensor
from torch.nn import functional as F

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.sliced_layers import joined
from deadline_perception.extras.elastic.activation import Activation
from deadline_perception.extras.elastic.elastic import ElasticModule

Loss = Callable[[object, object], Tensor]
# of the iterations that train the largest sub-network that fits; the others any that fits
_LARGEST_SHARE = 0.5
MISS_PROBABILITY = 0.01
_ROUNDS = 5  # of each setting whose times count, after one that does not
_MOMENTUM = 0.9
_MOST_NORM = 5.0  # of a gradient over all weights; larger ones are scaled down


def class_loss(logits: Tensor, targets: tuple[Tensor]) -> Tensor:
    """Cross entropy of logits `[N, C]` and labels `[N]`."""
    return F.cross_entropy(logits, targets[0])


def distillation_loss(outputs: tuple[Tensor, Tensor], targets: tuple[Tensor, Tensor]) -> Tensor:
    """How far a detector's outputs are from those of the whole network, which need no labels.

    Args:
        outputs: logits `[N, anchors, classes]` and box offsets `[N, anchors, 4]`.
        targets: the same, of the whole network; an anchor's offsets count by its probability of being an object.
    """
    objects = 1.0 - targets[0].softmax(-1)[..., 0]
    box_errors = F.smooth_l1_loss(outputs[1], targets[1], reduction='none').sum(-1)
    boxes = (box_errors * objects).sum()
    found = outputs[0].log_softmax(-1)
    wanted = targets[0].log_softmax(-1)
    classes = F.kl_div(found, wanted, reduction='none', log_target=True).sum()
    return (classes + boxes) / objects.sum().clamp(min=1.0)


class BudgetTooSmall(DeadlinePerceptionError):
    """Not even the smallest sub-network can be trained within the budget."""


@contextmanager
def active_weights(
    network: ElasticModule, activation: Activation
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Lets a network compute with the weights of active neurons as leaves of the graph of gradients, while it lasts.

    Returns:
        Each stretch of a weight that the sub-network uses, a view that asks for its gradient, and the weight it is of.
        Weights that ask for no gradient are not among them.
    """
    stretches: list[tuple[Tensor, Tensor]] = []
    elastic_layers = list(network.elastic_layers())
    try:
        for layer in elastic_layers:
            used = []
            for name in layer.WEIGHTS:
                axis, pieces = layer.pieces(name, activation)
                weight = getattr(layer, name, None)
                if isinstance(weight, torch.nn.Parameter) and weight.requires_grad:
                    pieces = [piece.detach().requires_grad_() for piece in pieces]
                    stretches += [(piece, weight) for piece in pieces]
                used.append(joined(axis, pieces))
            layer.leaves = tuple(used)
        sliced = {id(parameter) for layer in elastic_layers for parameter in layer.parameters()}
        stretches += [
            (weight, weight)
            for weight in network.parameters()
            if id(weight) not in sliced and weight.requires_grad
        ]
        yield stretches
    finally:
        for layer in elastic_layers:
            layer.leaves = None


def gradients(
    network: ElasticModule, activation: Activation, loss: Loss, inputs: Tensor, targets: object
) -> tuple[float, list[tuple[Tensor, Tensor, Tensor]]]:
    """The loss of a sub-network, and its gradient for every weight that it uses.

    Returns:
        The loss, and for each stretch of a weight that it depends on: stretch, weight, gradient in the stretch's shape.
    """
    with active_weights(network, activation) as stretches:
        value = loss(network.body(inputs, activation), targets)
        found = torch.autograd.grad(value, [stretch for stretch, _ in stretches], allow_unused=True)
    return float(value.detach()), [
        (stretch, weight, gradient)
        for (stretch, weight), gradient in zip(stretches, found)
        if gradient is not None
    ]


class ActiveDescent:
    """Stochastic gradient descent with momentum on the weights of active neurons."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self._velocities: dict[int, Tensor] = {}

    @torch.no_grad()
    def step(self, found: Sequence[tuple[Tensor, Tensor, Tensor]]) -> None:
        """Changes the weights by what `gradients` found, in place; what is not finite changes nothing."""
        if not found:
            return
        stretches = [stretch.detach() for stretch, _, _ in found]
        slopes = [slope for _, _, slope in found]
        norms = torch.stack(torch._foreach_norm(slopes))
        norm = float(torch.linalg.vector_norm(norms))
        if not math.isfinite(norm):
            return
        if norm > _MOST_NORM:
            torch._foreach_mul_(slopes, _MOST_NORM / norm)
        velocities = [self._velocity(stretch, weight) for stretch, weight, _ in found]
        torch._foreach_mul_(velocities, _MOMENTUM)
        torch._foreach_add_(velocities, slopes)
        torch._foreach_add_(stretches, velocities, alpha=-self.learning_rate)

    @torch.no_grad()
    def rehearse(self, found: Sequence[tuple[Tensor, Tensor, Tensor]]) -> None:
        """Takes as long as a step, and changes nothing."""
        velocities = [self._velocity(stretch, weight) for stretch, weight, _ in found]
        for _ in range(2):
            torch._foreach_add(velocities, [slope for _, _, slope in found])

    def _velocity(self, stretch: Tensor, weight: Tensor) -> Tensor:
        """The stretch of a weight's velocity that lies as the weight's does."""
        velocity = self._velocities.get(id(weight))
        if velocity is None:
            velocity = self._velocities[id(weight)] = torch.zeros_like(
                weight, memory_format=torch.preserve_format
            )
        return velocity.as_strided(
            stretch.shape, stretch.stride(), stretch.storage_offset() - weight.storage_offset()
        )


@dataclass(frozen=True)
class Iteration:
    """One iteration of training: the loss before its step, and whether it ended within the budget."""

    loss: float
    in_time: bool


class TimeBoundTrainer:
    """Trains sub-networks one after the other, each iteration within a budget with the target probability.

    Half of the iterations train the largest sub-network whose bound fits the budget, the others any that fits, so that
    all of them learn. In the long run a share `MISS_PROBABILITY` of iterations exceeds its bound, see
    `TimeBounds`. While nothing fits, iterations of the smallest sub-network that change no weight tell when something
    does again.

    Args:
        network: its weights are changed; norms keep the statistics that they have.
        loss: of the network's output and a batch's targets.
        budget_ms: of one iteration, > 0; inf for no limit.

    Attributes:
        bounds: of an iteration's time; None until it is measured, or given.
    """

    def __init__(
        self,
        network: ElasticModule,
        loss: Loss,
        *,
        budget_ms: float,
        learning_rate: float,
        seed: int = 0,
    ) -> None:
        self.network = network
        self.budget_ms = budget_ms
        self.descent = ActiveDescent(learning_rate)
        self.bounds: TimeBounds | None = None
        self._loss = loss
        self._rng = random.Random(seed)

    def measure(self, inputs: Tensor, targets: object) -> None:
        """Times iterations of every setting, which change no weight; blocks meanwhile.

        Args:
            inputs, targets: one batch, of the size that training will use.

        Raises:
            BudgetTooSmall: the bound of the smallest setting exceeds the budget.
        """
        times = {setting: [] for setting in self.network.settings}
        for number in range(1 + _ROUNDS):
            for setting in self.network.settings:
                took_ms = self._probe(setting, inputs, targets)
                if number:
                    times[setting].append(took_ms)
        expected_ms = {setting: median(samples) for setting, samples in times.items()}
        spread = max(
            max(samples) / max(expected_ms[setting], 1e-6) for setting, samples in times.items()
        )
        self.bounds = TimeBounds(expected_ms, MISS_PROBABILITY, spread)
        fit = self.bounds.fit(self.budget_ms)
        if not fit.fits_budget:
            raise BudgetTooSmall(
                f'budget is {self.budget_ms:g} ms, expected at least {fit.bound_ms:.1f} ms, the bound '
                f'of an iteration of the smallest sub-network (utilisation {fit.utilisation:g}) on '
                f'this device'
            )

    def iterate(self, inputs: Tensor, targets: object) -> Iteration | None:
        """Trains on one batch; None, with no weight changed, where at present no bound fits the budget."""
        bounds_ms = self.bounds.bounds_ms
        fit = self.bounds.fit(self.budget_ms)
        if not fit.fits_budget:
            self.bounds.observe(fit.utilisation, self._probe(fit.utilisation, inputs, targets))
            return None
        utilisation = fit.utilisation
        if self._rng.random() >= _LARGEST_SHARE:
            fitting = [u for u, bound_ms in bounds_ms.items() if bound_ms <= self.budget_ms]
            utilisation = self._rng.choice(fitting)
        begun_ms = now_ms()
        value, found = self._gradients(utilisation, inputs, targets)
        self.descent.step(found)
        took_ms = now_ms() - begun_ms
        self.network.forget_copies()
        self.bounds.observe(utilisation, took_ms)
        return Iteration(value, took_ms <= self.budget_ms)

    def _probe(self, utilisation: float, inputs: Tensor, targets: object) -> float:
        """Time in ms of an iteration that changes no weight."""
        begun_ms = now_ms()
        self.descent.rehearse(self._gradients(utilisation, inputs, targets)[1])
        return now_ms() - begun_ms

    def _gradients(self, utilisation: float, inputs: Tensor, targets: object):
        activation = self.network.activate(utilisation)
        return gradients(self.network, activation, self._loss, inputs, targets)
