import pytest
import torch
from made_up_elastic import images, made_up
from torch import nn
from torchvision.ops import FrozenBatchNorm2d

from deadline_perception.extras.elastic.tracing import ConversionError, is_frozen_norm, trace


class Within(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.outer = nn.Sequential(nn.Conv2d(3, 4, 1), inner)

    def forward(self, x):
        return self.outer(x)


class Loop(nn.Module):
    def forward(self, x):
        while x.mean() > 0.1:
            x = x / 2
        return x


def test_names_the_layer_within_which_control_flow_depends_on_data():
    with pytest.raises(ConversionError, match='layer outer.1 cannot be traced: .*expected control'):
        trace(Within(Loop()), (images(1),))
    with pytest.raises(ConversionError, match=r'layer \(the network itself\) cannot be traced'):
        trace(Loop(), (images(1),))


def test_leaves_the_module_as_it_is():
    module = made_up(('batch',)).train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    trace(module, (images(2),))
    assert module.training
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())


def test_knows_torchvisions_frozen_norm():
    assert is_frozen_norm(FrozenBatchNorm2d(4)) and not is_frozen_norm(nn.BatchNorm2d(4))
