from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from python_run import run_python
from torch import nn
from torch.nn import functional as F

from deadline_perception.engines.sliced_layers import Convolution, Span
from deadline_perception.extras.channel_order import reorder


class Part(NamedTuple):
    kept: tuple[int, ...]
    key: object = None
    row: int = 0


HALF = Part((2, 3, 1), key='half')  # of 4, 6 and 3


def convolution() -> Convolution:
    torch.manual_seed(0)
    return Convolution(
        {'weight': {0: (Span(1, 6),), 1: (Span(0, 4),)}, 'bias': {0: (Span(1, 6),)}},
        nn.Conv2d(4, 6, 3),
    )


_STRIDED = """
import torch
from torch import nn
from torch.nn import functional as F
from deadline_perception.engines.sliced_layers import Convolution, Span
from engines.test_sliced_layers import Part

torch.set_num_threads(2)
torch.manual_seed(0)
own = nn.Conv2d(8, 16, 1, stride=2)
layer = Convolution({'weight': {0: (Span(1, 16),), 1: (Span(0, 8),)}, 'bias': {0: (Span(1, 16),)}}, own)
x = torch.randn(3, 8, 8, 16).contiguous(memory_format=torch.channels_last)
for _ in range(100):
    layer.zero_grad()
    y = layer(x, Part((8, 16)))
    y.square().sum().backward()
torch.testing.assert_close(y, own(x))
with torch.backends.mkldnn.flags(enabled=False):
    expected = torch.autograd.grad(own(x).square().sum(), own.weight)[0]
torch.testing.assert_close(layer.weight.grad, expected, rtol=1e-4, atol=1e-3)
"""


@pytest.mark.slow
def test_the_gradient_of_a_strided_layer_of_few_channels_leaves_memory_alone():
    """oneDNN's own ends the process or is wrong; a process of its own, for it would end this one."""
    run = run_python('-c', _STRIDED, cwd=Path(__file__).parents[1], timeout=120)
    assert run.returncode == 0, run.stderr[-2000:]


@pytest.mark.parametrize(
    'change',
    [
        lambda layer, other: layer.load_state_dict(other.state_dict()),
        lambda layer, other: layer._apply(lambda part: part.copy_(0.5 * part)),
        lambda layer, other: reorder(layer, (torch.tensor([3, 2, 1, 0]), None)),
    ],
)
def test_dense_copies_follow_new_weights(change):
    layer, x = convolution().eval(), torch.randn(1, 2, 5, 5)
    with torch.no_grad():
        before = layer(x, HALF)
        change(layer, Convolution(layer.axes, nn.Conv2d(4, 6, 3)))
        after = layer(x, HALF)
        torch.testing.assert_close(after, F.conv2d(x, layer.weight[:3, :2], layer.bias[:3]))
        assert not torch.allclose(after, before)
