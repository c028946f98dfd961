import torch
from torch import nn

from deadline_perception.engines.sliced_layers import Span
from deadline_perception.extras.elastic.activation import UnitGroup, activate
from deadline_perception.extras.elastic.elastic_layers import ElasticBatchNorm, elastic_layer

GROUPS = (UnitGroup(4), UnitGroup(6), UnitGroup(3))
HALF = activate(GROUPS, 0.5, (0.5, 1.0))  # keeps 2, 3 and 1


def norm() -> ElasticBatchNorm:
    torch.manual_seed(1)
    layer = nn.BatchNorm2d(6)
    nn.init.uniform_(layer.weight, 0.5, 2.0)
    nn.init.normal_(layer.bias)
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2.0)
    places = {'weight': 0, 'bias': 0, 'running_mean': 1, 'running_var': 1}
    spans = {name: {place: (Span(1, 6),)} for name, place in places.items()}
    return elastic_layer(spans, layer, 2).eval()


def test_a_norm_in_training_mode_follows_its_own_setting():
    layer, x = norm().train(), torch.randn(8, 3, 4, 4)
    before = layer.running_mean.clone()
    layer(x, HALF)
    expected = 0.9 * before[0, :3] + 0.1 * x.mean((0, 2, 3))
    torch.testing.assert_close(layer.running_mean[0, :3], expected)
    assert torch.equal(layer.running_mean[1], before[1])
    assert torch.equal(layer.running_mean[0, 3:], before[0, 3:])
    layer.batches = 0
    layer(x, HALF)
    torch.testing.assert_close(layer.running_var[0, :3], x.var((0, 2, 3)))
