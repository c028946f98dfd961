"""Gradients of active neurons alone, and iterations that keep a budget on a simulated clock."""

import math

import numpy as np
import pytest
import torch
from elastic_training import (
    ActiveDescent,
    BudgetTooSmall,
    TimeBoundTrainer,
    gradients,
)
from element_form import MaskedNetwork
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_elastic import BLOCKS, images, made_elastic
from torch.nn import functional as F

from deadline_perception.engines.sliced_layers import kept_ranges

LABELS = torch.arange(8) % 5


def active_places(layer, name: str, activation) -> torch.Tensor:
    """Where a weight is used: bool, in its shape."""
    weight = getattr(layer, name)
    used = torch.ones(weight.shape, dtype=torch.bool)
    for axis, spans in layer.axes.get(name, {}).items():
        along = torch.zeros(weight.shape[axis], dtype=torch.bool)
        for begin, end in kept_ranges(spans, activation.kept):
            along[begin:end] = True
        used &= along.view([-1 if place == axis else 1 for place in range(weight.dim())])
    return used


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=2).map(tuple),
    st.sampled_from((0.25, 0.5, 0.7, 1.0)),
)
def test_gradients_are_those_of_the_masked_network(kinds, utilisation):
    network = made_elastic(kinds)
    activation = network.activate(utilisation)
    value, found = gradients(network, activation, F.cross_entropy, images(), LABELS)
    weights = list(network.parameters())
    masked = F.cross_entropy(MaskedNetwork(network, activation).compute(images()), LABELS)
    expected = dict(zip(map(id, weights), torch.autograd.grad(masked, weights, allow_unused=True)))
    assert value == pytest.approx(float(masked.detach()), rel=1e-4)
    for stretch, weight, slope in found:
        dense = expected[id(weight)]
        begin = stretch.storage_offset() - weight.storage_offset()
        part = dense.as_strided(stretch.shape, stretch.stride(), begin)
        torch.testing.assert_close(slope, part, rtol=1e-3, atol=1e-5)
    before = {id(weight): weight.detach().clone() for weight in weights}
    ActiveDescent(0.1).step(found)
    moved = 0
    for layer in network.elastic_layers():
        for name, weight in layer.named_parameters(recurse=False):
            used = active_places(layer, name, activation)
            changed = weight.detach() != before[id(weight)]
            assert not changed[~used].any()
            if expected[id(weight)] is not None:
                assert not expected[id(weight)][~used].any()
            moved += int(changed[used].sum())
    assert moved > 0


def test_steps_are_those_of_gradient_descent_with_momentum():
    network = made_elastic()
    other = made_elastic()
    descent = ActiveDescent(0.01)
    optimiser = torch.optim.SGD(other.parameters(), 0.01, 0.9)
    for seed in range(3):
        whole = network.activate(1.0)
        descent.step(gradients(network, whole, F.cross_entropy, images(8, seed), LABELS)[1])
        optimiser.zero_grad()
        F.cross_entropy(other(images(8, seed)), LABELS).backward()
        optimiser.step()
    for one, two in zip(network.parameters(), other.parameters()):
        torch.testing.assert_close(one, two)


def test_gradients_that_are_not_finite_change_nothing():
    network = made_elastic()
    before = [weight.detach().clone() for weight in network.parameters()]
    no_number = lambda y, labels: y.sum() * math.nan  # noqa: E731
    _, found = gradients(network, network.activate(0.5), no_number, images(), LABELS)
    ActiveDescent(0.1).step(found)
    assert all(torch.equal(one, two) for one, two in zip(before, network.parameters()))


class SimulatedDevice:
    """Time passes by the size of the sub-network, with noise and slow phases."""

    def __init__(self, seed: int = 0) -> None:
        self.now_ms = 0.0
        self._rng = np.random.default_rng(seed)
        self._phase = 1.0

    def loss(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(outputs, labels)

    def run(self, network, inputs, activation):
        expected_ms = (5.0 + 40.0 * activation.utilisation**2) * self._phase
        self.now_ms += expected_ms * self._rng.lognormal(0.0, 0.08)
        if self._rng.random() < 0.002:
            self._phase = float(self._rng.uniform(1.0, 1.4))


def simulated_trainer(budget_ms: float, seed: int = 0, **options) -> TimeBoundTrainer:
    network = made_elastic(('plain',), settings=(0.1, 0.25, 0.5, 0.75, 1.0))
    device = SimulatedDevice(seed)
    network.body.register_forward_pre_hook(lambda body, inputs: device.run(body, *inputs))
    trainer = TimeBoundTrainer(
        network,
        device.loss,
        budget_ms=budget_ms,
        learning_rate=1e-3,
        seed=seed,
        clock_ms=lambda: device.now_ms,
        **options,
    )
    trainer.measure(images(1), LABELS[:1])
    return trainer


@pytest.mark.parametrize('budget_ms', [11.0, 40.0])
def test_iterations_end_within_the_budget_with_the_target_probability(budget_ms):
    trainer = simulated_trainer(budget_ms, target_miss_probability=0.02)
    done = [trainer.iterate(images(1), LABELS[:1]) for _ in range(350)]
    ran = [iteration for iteration in done if iteration is not None]
    assert len(ran) > 280
    assert sum(not iteration.in_time for iteration in ran) <= 0.035 * len(ran)
    assert all(iteration.bound_ms <= budget_ms for iteration in ran)


def test_says_the_smallest_budget_that_would_do():
    words = 'budget is 2 ms, expected at least .* ms, .*utilisation 0.1'
    with pytest.raises(BudgetTooSmall, match=words):
        simulated_trainer(2.0)
