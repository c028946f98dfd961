"""Layers found by running networks."""
from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip('torch')

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from deadline_perception.detector.configuration import COMPACT  # noqa: E402
from deadline_perception.detector.network import MultiPathDetector  # noqa: E402
from deadline_perception.execution_path import ExecutionPath  # noqa: E402
from deadline_perception.wcet.layer_trace import path_layers, trace_layers  # noqa: E402
from deadline_perception.wcet.layers import (  # noqa: E402
    ConvolutionShape,
    ElementwiseShape,
    GroupNormShape,
    LayerKind,
    LinearShape,
    RegionFeaturesShape,
    ResizeShape,
    SuppressionShape,
)


@pytest.fixture(scope='module')
def detector() -> MultiPathDetector:
    torch.manual_seed(0)
    return MultiPathDetector(COMPACT, ('vehicle', 'bike')).eval()


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


def test_layers_of_a_path(detector: MultiPathDetector) -> None:
    space = detector.path_space
    layers = path_layers(detector, space.smallest)
    assert {layer.kind for layer in layers} == set(LayerKind)
    assert layers[0] == ConvolutionShape(3, 8, 3, 2, 384, 640)
    positions = sum((384 // stride) * (640 // stride) for stride in (4, 8, 16, 32))
    assert RegionFeaturesShape(10, 32, positions) in layers
    assert [layer.boxes for layer in layers if isinstance(layer, SuppressionShape)] == [4 * 20, 10 * 2]


def test_a_skipped_block_takes_its_layers_away(detector: MultiPathDetector) -> None:
    space = detector.path_space
    kept = ExecutionPath((False,) * space.skips, 0.25, 10, 0, 0.5)
    skipped = ExecutionPath((True, *(False,) * (space.skips - 1)), 0.25, 10, 0, 0.5)
    fewer = [len(path_layers(detector, path)) for path in (kept, skipped)]
    assert fewer[0] - fewer[1] == 7  # two convolutions and norms, a sum, two ReLU


def test_finds_the_same_network_layers_as_a_frame(detector: MultiPathDetector) -> None:
    """What is worked out for region features, suppression and head agrees with a real frame."""
    path = detector.path_space.smallest
    image = np.random.default_rng(0).integers(0, 256, (384, 640, 3), dtype=np.uint8)
    in_frame = trace_layers(lambda: detector.detect(image, path))
    kinds = (ConvolutionShape, GroupNormShape)
    assert [s for s in in_frame if isinstance(s, kinds)] == [s for s in path_layers(detector, path)
                                                             if isinstance(s, kinds)]
    assert sum(isinstance(s, LinearShape) for s in in_frame) == 4


def test_refuses_a_path_of_another_network(detector: MultiPathDetector) -> None:
    with pytest.raises(ValueError, match="path .* is not one of configuration 'compact'"):
        path_layers(detector, ExecutionPath((True,), 1.0, 10, 0))
