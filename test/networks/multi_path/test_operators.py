import pytest
import torch
from path_spaces import space_of
from torch import nn

from deadline_perception.networks.multi_path.operators import Skip, SlicedConv2d, SlicedFrozenNorm

SPACE = space_of(2, proposals=(1,))


@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize('grad', [True, False])
def test_frozen_norm_is_part_of_the_convolution_and_equals_a_batch_norm_after_it(bias, grad):
    convolution = SlicedConv2d(3, 8, 3, bias=bias).eval()
    norm = SlicedFrozenNorm(8, (1.0, 0.5)).eval()
    plain = nn.BatchNorm2d(4, eps=1e-12).eval()
    for part in (norm.weight, norm.deviation):
        nn.init.uniform_(part, 0.5, 2.0)
    for part in (norm.bias, norm.mean, *([convolution.bias] if bias else [])):
        nn.init.normal_(part)
    for part, row in (
        (plain.weight, norm.weight),
        (plain.bias, norm.bias),
        (plain.running_mean, norm.mean),
        (plain.running_var, norm.deviation.square()),
    ):
        part.data.copy_(row[1, :4])
    x = torch.randn(2, 3, 6, 5)
    with torch.set_grad_enabled(grad):
        torch.testing.assert_close(convolution(x, 4, norm), plain(convolution.train()(x, 4)))
        torch.testing.assert_close(norm(convolution(x, 4)), plain(convolution(x, 4)))


class _Counting(nn.Module):
    calls = 0

    def forward(self, x, outputs=None):
        self.calls += 1
        return x + 1


def test_skipped_blocks_are_never_computed():
    blocks = [_Counting(), _Counting()]
    skip = Skip('skip1', blocks)
    x = torch.zeros(1, 2, 2, 2)
    assert torch.equal(skip(x, SPACE.parse('s01-w1.00-p1-h0')), x)
    assert [block.calls for block in blocks] == [0, 0]
    assert torch.equal(skip(x, SPACE.parse('s10-w1.00-p1-h0')), x + 2)
    assert [block.calls for block in blocks] == [1, 1]
