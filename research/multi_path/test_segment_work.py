"""Work of segments, counted by running them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip('torch')

from segment_work import SegmentWork, count_work  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torchvision.ops import nms  # noqa: E402
from traced_layers import traced_operations  # noqa: E402

from deadline_perception.core.execution_path import WIDTH, Operator, PathSpace, Segment  # noqa: E402
from deadline_perception.engines.eager import Eager  # noqa: E402
from deadline_perception.engines.segment_run import SegmentRun  # noqa: E402


class _Run(SegmentRun):
    """Reads the image, convolves it depthwise, and once more by as many channels as the path says."""

    def __init__(self, network: _Network, image: np.ndarray, path) -> None:
        super().__init__(network.path_space, path)
        self._network, self._image, self._value = network, image, ()

    def compute(self, name: str, key: str) -> None:
        engine = self._network.engine
        if name == 'pre':
            self._value = engine.hold('image', (self._image[None].astype(np.float32),))
        elif name == 'depthwise':
            self._value = engine.run(key, name, self.depthwise, {'image': self._value})
        else:
            self._value = engine.run(key, name, self.wide, {'depthwise': self._value})

    def depthwise(self, read):
        return (F.conv2d(read['image'][0], torch.ones(3, 1, 3, 3), padding=1, groups=3),)

    def wide(self, read):
        return (F.conv2d(read['depthwise'][0], torch.ones(self.path['width'], 3, 1, 1)).relu_(),)

    def result(self) -> object:
        return self._value


class _Network:
    segments = Segment('pre', 'pre'), Segment('depthwise', 'conv')
    wide = Segment('wide', 'conv', 'width', ('width',))
    path_space = PathSpace((Operator('width', WIDTH, (2, 4), 'w'),), (*segments, wide))
    input_size, device = (8, 10), 'cpu'

    def __init__(self) -> None:
        self.engine = Eager()

    def start(self, image: np.ndarray, path) -> _Run:
        return _Run(self, image, path)


def test_counts_by_hand() -> None:
    network = _Network()
    engine = network.engine
    found = count_work(network)
    positions = 80
    assert found.keys() == {'pre', 'depthwise', 'wide@w2', 'wide@w4'}
    assert found['pre'] == SegmentWork(0.0, 3 * positions * 4, 3 * positions * 4, 1.0)
    weights = 3 * 9
    # and the making of its weights
    assert found['depthwise'].operations == positions * weights + weights
    assert found['wide@w4'].operations == positions * 3 * 4 + 3 * 4 + positions * 4
    assert found['wide@w4'].store_bytes == 4 * (positions * 4 + 3 * 4 + positions * 4)
    assert network.engine is engine


@pytest.mark.parametrize('mode', [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_operations_of_a_list_of_modules(mode: type) -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 4, 1, stride=2),
        nn.Flatten(),
        nn.Linear(24, 5, bias=False),
        nn.Linear(5, 2),
    )
    with mode():
        found = traced_operations(lambda: network(torch.zeros(2, 3, 8, 12)))
    whole, halved, quartered = 2 * 8 * 12, 2 * 4 * 6, 2 * 2 * 3  # positions
    assert found == [
        whole * 8 * 3 * 9,
        3 * whole * 8,
        whole * 8,
        halved * 8 * 4,
        quartered * 4 * 8,
        2 * 24 * 5,
        2 * 5 * 2,
    ]


def test_operations_of_resize_sum_and_suppression() -> None:
    def run() -> None:
        x = F.interpolate(torch.zeros(1, 2, 3, 3), scale_factor=2.0, mode='nearest')
        F.interpolate(x, scale_factor=2.0, mode='bilinear')
        x = x + x
        nms(torch.tensor([[0.0, 0, 4, 4]] * 4), torch.tensor([0.5, 0.4, 0.3, 0.2]), 0.5)
        nms(torch.empty(0, 4), torch.empty(0), 0.5)

    assert traced_operations(run) == [72, 4 * 288, 2 * 72, 6, 0]
