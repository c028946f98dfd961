"""Layers found by running networks."""
from __future__ import annotations

import pytest

torch = pytest.importorskip('torch')

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from deadline_perception.wcet.layer_trace import trace_layers  # noqa: E402
from deadline_perception.wcet.layers import (  # noqa: E402
    ConvolutionShape,
    ElementwiseShape,
    GroupNormShape,
    LinearShape,
    ResizeShape,
    SuppressionShape,
)


@pytest.mark.parametrize('mode', [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_finds_the_layers_of_a_list_of_modules(mode: type) -> None:
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(inplace=True),
                            nn.MaxPool2d(2), nn.Conv2d(8, 4, 1, stride=2), nn.Flatten(), nn.Linear(24, 5, bias=False),
                            nn.Linear(5, 2))
    with mode():
        found = trace_layers(lambda: network(torch.zeros(2, 3, 8, 12)))
    assert found == (
        ConvolutionShape(3, 8, 3, 1, 8, 12, batch=2), GroupNormShape(8, 2, 8, 12, batch=2),
        ElementwiseShape(2 * 8 * 96), ResizeShape(2 * 8 * 96, 2 * 8 * 24, taps=4),
        ConvolutionShape(8, 4, 1, 2, 4, 6, batch=2), LinearShape(2, 24, 5), LinearShape(2, 5, 2))


def test_finds_resize_sum_and_suppression() -> None:
    from torchvision.ops import nms

    def run() -> None:
        x = F.interpolate(torch.zeros(1, 2, 3, 3), scale_factor=2.0, mode='nearest')
        x = x + x
        nms(torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4]]), torch.tensor([0.5, 0.4]), 0.5)
        nms(torch.empty(0, 4), torch.empty(0), 0.5)

    assert trace_layers(run) == (ResizeShape(18, 72), ElementwiseShape(72, inputs=2), SuppressionShape(2))
