from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from python_run import run_python
from torch import nn
from torch.nn import functional as F

from deadline_perception.engines.sliced_layers import Convolution, Linear, Norm, Span
from deadline_perception.extras.channel_order import reorder
from deadline_perception.extras.elastic.elastic_layers import fixed
from deadline_perception.extras.sliced_group_norm import GroupNorm


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


def test_inference_keeps_one_dense_copy_of_each_cut_until_weights_change():
    layer = convolution().eval()
    with torch.no_grad():
        first, again = layer.used(HALF), layer.used(HALF)
        assert first[0] is again[0] and first[0].is_contiguous(memory_format=torch.channels_last)
        layer.dependants['half'] = 'made of it'
        layer.train()
        layer.eval()
        assert layer.used(HALF)[0] is not first[0] and not layer.dependants
        assert layer.used(Part((2, 3)))[0] is not layer.used(Part((2, 3)))[0], (
            'without a key nothing is kept'
        )


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
        torch.testing.assert_close(
            layer(x, HALF), F.conv2d(x, layer.weight[:3, :2], layer.bias[:3])
        )
        assert not torch.allclose(layer(x, HALF), before)


def test_columns_behind_a_concatenation_are_put_side_by_side():
    layer = Linear({'weight': {1: (Span(0, 4, 2), Span(2, 3))}}, nn.Linear(4 * 2 + 3, 5))
    weight, bias = layer.used(HALF)
    torch.testing.assert_close(weight, layer.weight[:, [0, 1, 2, 3, 8]])
    assert bias is layer.bias
    weight.sum().backward()
    assert layer.weight.grad.sum(0).tolist() == [5.0] * 4 + [0.0] * 4 + [5.0, 0.0, 0.0]


def test_reordering_moves_units_along_every_axis_and_leaves_a_group_without_an_order():
    layer = convolution()
    before, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    assert layer.used(HALF)[0].untyped_storage().data_ptr() == layer.weight.data_ptr()  # a view
    inputs, outputs = torch.tensor([2, 0, 3, 1]), torch.tensor([5, 4, 3, 2, 1, 0])
    reorder(layer, (inputs, outputs))
    torch.testing.assert_close(layer.weight.detach(), before[outputs][:, inputs])
    torch.testing.assert_close(layer.bias.detach(), bias[outputs])
    reorder(layer, (torch.argsort(inputs), None))
    torch.testing.assert_close(layer.weight.detach(), before[outputs])


class _Scale(Norm):
    """Twice the value of the channel, less one."""

    folds = True

    def scale_and_shift(self, cut):
        return torch.full((cut.kept[1],), 2.0), torch.full((cut.kept[1],), -1.0)

    def forward(self, x, cut):
        return 2.0 * x - 1.0


@pytest.mark.parametrize('own', [True, False])
def test_a_norm_is_computed_or_folded_never_both_and_copies_know_which(own):
    layer, norm, x = convolution().eval(), _Scale({}), torch.randn(1, 2, 5, 5)
    if own:
        layer.norm = norm
    expected = 2.0 * F.conv2d(x, layer.weight[:3, :2], layer.bias[:3]) - 1.0
    with torch.no_grad():
        for folds in (True, False, True):
            norm.folds = folds
            for _ in range(2):
                torch.testing.assert_close(
                    layer(x, HALF) if own else layer(x, HALF, norm), expected
                )
        if own:
            torch.testing.assert_close(fixed(layer, HALF)(x, HALF), expected)


@pytest.mark.parametrize('groups', [2, 4])
def test_a_grouped_convolution_keeps_whole_groups(groups):
    made = {0: (Span(0, 2, 4),)}
    layer = Convolution({'weight': made, 'bias': made}, nn.Conv2d(4, 8, 1, groups=groups))
    x = torch.randn(1, 4, 3, 3)
    whole = F.conv2d(x, layer.weight, layer.bias, groups=groups)
    torch.testing.assert_close(layer(x[:, :2], Part((1,))), whole[:, :4])


def test_a_group_norm_keeps_the_groups_of_the_whole():
    plain = nn.GroupNorm(4, 8, eps=0.1)
    nn.init.normal_(plain.weight)
    spans, x = (Span(0, 4, 2),), torch.randn(2, 8, 3, 3)
    layer = GroupNorm({'weight': {0: spans}, 'bias': {0: spans}}, plain)
    torch.testing.assert_close(layer(x[:, :4], Part((2,))), plain(x)[:, :4])
