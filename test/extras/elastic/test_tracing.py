import pytest
from made_up_elastic import images
from torch import nn

from deadline_perception.extras.elastic.tracing import ConversionError, trace


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
