from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from deadline_perception.subnetwork.activation import UnitGroup, activate
from deadline_perception.subnetwork.channel_groups import Span
from deadline_perception.subnetwork.elastic_layers import ElasticBatchNorm, ElasticConvolution, ElasticLinear

GROUPS = (UnitGroup(4), UnitGroup(6), UnitGroup(3))
HALF = activate(GROUPS, 0.5, (0.5, 1.0))  # keeps 2, 3 and 1


def convolution() -> ElasticConvolution:
    torch.manual_seed(0)
    return ElasticConvolution(nn.Conv2d(4, 6, 3), {'weight': {0: (Span(1, 6, 1),), 1: (Span(0, 4, 1),)},
                                                   'bias': {0: (Span(1, 6, 1),)}})


def test_what_a_sub_network_uses_is_a_view():
    layer = convolution()
    weight, bias = layer.used(HALF)
    assert weight.shape == (3, 2, 3, 3) and bias.shape == (3,)
    assert weight.untyped_storage().data_ptr() == layer.weight.untyped_storage().data_ptr()


def test_inference_keeps_one_dense_copy_of_each_setting_until_weights_change():
    layer = convolution().eval()
    with torch.no_grad():
        first, again = layer.used(HALF), layer.used(HALF)
        assert first[0] is again[0] and first[0].is_contiguous(memory_format=torch.channels_last)
        layer.train()
        layer.eval()
        assert layer.used(HALF)[0] is not first[0]
        other = activate(GROUPS, 0.4, (0.5, 1.0))  # no setting: nothing is kept
        assert layer.used(other)[0] is not layer.used(other)[0]


def test_columns_behind_a_concatenation_are_put_side_by_side():
    layer = ElasticLinear(nn.Linear(4 * 2 + 3, 5), {'weight': {1: (Span(0, 4, 2), Span(2, 3, 1))}})
    weight, bias = layer.used(HALF)
    torch.testing.assert_close(weight, layer.weight[:, [0, 1, 2, 3, 8]])
    assert bias is layer.bias
    weight.sum().backward()
    assert layer.weight.grad.sum(0).tolist() == [5.0] * 4 + [0.0] * 4 + [5.0, 0.0, 0.0]


def test_reordering_moves_units_along_every_axis():
    layer = convolution()
    before, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    orders = [torch.tensor([2, 0, 3, 1]), torch.tensor([5, 4, 3, 2, 1, 0]), torch.arange(3)]
    layer.reorder(orders)
    torch.testing.assert_close(layer.weight.detach(), before[orders[1]][:, orders[0]])
    torch.testing.assert_close(layer.bias.detach(), bias[orders[1]])


def norm() -> ElasticBatchNorm:
    torch.manual_seed(1)
    layer = nn.BatchNorm2d(6)
    nn.init.uniform_(layer.weight, 0.5, 2.0)
    nn.init.normal_(layer.bias)
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2.0)
    spans = (Span(1, 6, 1),)
    return ElasticBatchNorm(layer, {'weight': {0: spans}, 'bias': {0: spans}, 'running_mean': {1: spans},
                                    'running_var': {1: spans}}, 2).eval()


def test_a_norm_is_folded_into_the_convolution_in_inference_alone():
    layer = convolution().eval()
    layer.norm = norm()
    x = torch.randn(2, 2, 5, 5)
    expected = layer.norm(F.conv2d(x, layer.weight[:3, :2], layer.bias[:3]), HALF)
    torch.testing.assert_close(layer(x, HALF), expected)
    with torch.no_grad():
        torch.testing.assert_close(layer(x, HALF), expected, rtol=1e-4, atol=1e-5)
        assert len(layer._laid_out) == 1


def test_a_norm_in_training_mode_follows_its_own_setting():
    layer, x = norm().train(), torch.randn(8, 3, 4, 4)
    before = layer.running_mean.clone()
    layer(x, HALF)
    expected = 0.9 * before[0, :3] + 0.1 * x.mean((0, 2, 3))
    torch.testing.assert_close(layer.running_mean[0, :3], expected)
    assert torch.equal(layer.running_mean[1], before[1]) and torch.equal(layer.running_mean[0, 3:], before[0, 3:])
    layer.batches = 0
    layer(x, HALF)
    torch.testing.assert_close(layer.running_var[0, :3], x.var((0, 2, 3)))


@pytest.mark.parametrize('groups', [2, 4])
def test_a_grouped_convolution_keeps_whole_groups(groups):
    layer = ElasticConvolution(nn.Conv2d(4, 8, 1, groups=groups), {
        'weight': {0: (Span(0, 2, 4),)}, 'bias': {0: (Span(0, 2, 4),)}})
    half = activate((UnitGroup(2),), 0.5)
    x = torch.randn(1, 4, 3, 3)
    whole = F.conv2d(x, layer.weight, layer.bias, groups=groups)
    torch.testing.assert_close(layer(x[:, :2], half), whole[:, :4])
