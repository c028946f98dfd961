"""Sub-convolution and sub-multiplication against the masked dense layer, values and gradients."""

import pytest
import torch
from element_form import (
    ElementNetwork,
    MaskedNetwork,
    element_masks,
    sub_convolution,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_elastic import images
from torch import nn

from deadline_perception.extras.elastic.elastic import elastic

pairs = st.integers(1, 2), st.integers(1, 2)  # stride and dilation


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 3), st.integers(0, 2), *pairs, st.booleans())
def test_sub_convolution_is_the_masked_one(seed, kernel, padding, stride, dilation, with_bias):
    torch.manual_seed(seed)
    x = torch.randn(2, 4, 9, 8) * (torch.rand(4, 9, 8) < 0.5)
    x[:, seed % 4] = 0.0
    layer = nn.Conv2d(4, 5, kernel, stride, padding, dilation, bias=with_bias)
    dense = layer(x)
    active = (torch.rand(dense.shape[1:]) < 0.4).float()
    active[seed % 5] = 0.0
    form = {name: getattr(layer, name) for name in ('stride', 'padding', 'dilation')}
    found = sub_convolution(x, layer.weight, layer.bias, active, **form)
    torch.testing.assert_close(found, dense * active)
    parameters = list(layer.parameters())
    wanted = torch.randn_like(dense)
    slopes = torch.autograd.grad((dense * active * wanted).sum(), parameters)
    for one, other in zip(slopes, torch.autograd.grad((found * wanted).sum(), parameters)):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)
        assert not other[seed % 5].any()  # exactly zero


def chain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 12),
        nn.ReLU(),
        nn.Linear(12, 3),
    )


@pytest.mark.parametrize('utilisation', [0.1, 0.4, 1.0])
def test_single_neurons_of_a_network(utilisation):
    network = elastic(chain(), (images(1),), images(), settings=(0.5, 1.0))
    masks = element_masks(network, images(64), utilisation)
    shapes = {name: tuple(mask.shape) for name, mask in masks.items()}
    assert sorted(shapes.values()) == [(8, 4, 4), (12,)]
    for mask in masks.values():
        assert int(mask.sum()) == max(1, int(utilisation * mask.numel()))
    whole = network.activate(1.0)
    with torch.no_grad():
        masked = MaskedNetwork(network, whole, masks).compute(images())
        found = ElementNetwork(network, whole, masks).compute(images())
    torch.testing.assert_close(found, masked)
