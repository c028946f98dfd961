"""Gradients of active neurons alone, and iterations that keep a budget on a simulated clock."""

import pytest
import torch
from elastic_training import (
    ActiveDescent,
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
