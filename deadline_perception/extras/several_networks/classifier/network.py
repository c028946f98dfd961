"""A real-time nested network: ten levels of one set of weights, each a prefix of the channels of the next.

Source: nested-network thesis, section 3: the level of a job is chosen right before it starts, a level's ratio decides
how many channels each convolution gives, and training minimises the mean of the levels' losses. The convolutions differ
from the thesis's, whose classifier was written for another framework; norms have statistics for every level, folded
into the convolutions (as in the detector), so that they cost nothing in a job.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.core.decoding import Number
from deadline_perception.core.detections import Classification
from deadline_perception.core.execution_path import (
    LEVEL,
    ExecutionPath,
    Operator,
    PathSpace,
    Segment,
)
from deadline_perception.core.opencv import cv2
from deadline_perception.engines.segment_run import SegmentRun, check_image
from deadline_perception.engines.sliced_layers import Cut
from deadline_perception.engines.torch_network import TorchModule
from deadline_perception.extras.channel_order import reorder
from deadline_perception.networks.multi_path.operators import (
    SlicedConv2d,
    SlicedFrozenNorm,
    SlicedLinear,
)
from deadline_perception.networks.multi_path.shape import Name, Shape

RATIOS = (
    1 / 64,
    1 / 32,
    1 / 20,
    1 / 16,
    1 / 12,
    1 / 8,
    1 / 6,
    1 / 4,
    1 / 2,
    1.0,
)  # thesis, section 3.1
_EPS = 1e-5  # added to variances, as PyTorch's norms do
_MOMENTUM = 0.05
_EXAMPLE_PX = 64
_MOST_LAYERS, _MOST_CHANNELS, _MOST_SIDE_PX = 100, 10_000, 2048


@dataclass(frozen=True)
class ClassifierConfig(Shape):
    """Shape of a nested classifier.

    Attributes:
        name: part of file names.
        channels: of each 3x3 convolution at full width.
        strides: of each convolution, 1 or 2.
        input_px: side of the square that crops are resized to, divisible by all strides together.
        ratios: of each level, ascending in (0, 1], the last is 1; a level has `round(channels * ratio)` channels.

    Raises:
        ValueError: a number lies outside its range, or two levels have equally many channels somewhere.
    """

    name: Name = 'crop_classifier'
    channels: tuple[int, ...] = (64, 64, 128, 192)
    strides: tuple[int, ...] = (2, 1, 2, 2)
    input_px: int = 32
    ratios: tuple[Number, ...] = RATIOS

    def __post_init__(self) -> None:
        # It may come with a file from anywhere, which must not decide how much memory a process takes.
        counts = self.channels
        if (
            not 1 <= len(counts) <= _MOST_LAYERS
            or not 1 <= min(counts) <= max(counts) <= _MOST_CHANNELS
        ):
            raise ValueError(
                f'channels are {reprlib.repr(counts)}, expected whole numbers from 1 to '
                f'{_MOST_CHANNELS} for each of at most {_MOST_LAYERS} convolutions'
            )
        if not 1 <= self.input_px <= _MOST_SIDE_PX:
            raise ValueError(f'input_px is {self.input_px} px, expected 1 to {_MOST_SIDE_PX} px')
        if len(self.strides) != len(self.channels) or not all(
            stride in (1, 2) for stride in self.strides
        ):
            raise ValueError(
                f'strides are {self.strides}, expected 1 or 2 for each of {len(self.channels)} '
                'convolutions'
            )
        stride = math.prod(self.strides)
        if self.input_px < stride or self.input_px % stride:
            raise ValueError(f'input_px is {self.input_px} px, expected a multiple of {stride} px')
        if (
            not self.ratios
            or list(self.ratios) != sorted(set(self.ratios))
            or self.ratios[0] <= 0
            or self.ratios[-1] != 1.0
        ):
            raise ValueError(
                f'ratios are {self.ratios}, expected fractions in (0, 1], ascending to 1'
            )
        for count in self.channels:
            widths = [round(count * ratio) for ratio in self.ratios]
            if widths[0] < 1 or len(set(widths)) < len(widths):
                raise ValueError(
                    f'levels of a convolution of {count} channels have {widths} of them, expected at '
                    f'least 1 and another number at each level'
                )

    @property
    def identity(self) -> dict[str, object]:
        """All that decides times and the meaning of weights."""
        return {name: value for name, value in self.record.items() if name != 'name'}

    @property
    def positions(self) -> int:
        """Places of the last features."""
        return (self.input_px // math.prod(self.strides)) ** 2

    @cached_property
    def path_space(self) -> PathSpace:
        """One operator: the level, decided as the first convolution begins."""
        level = Operator(
            'level',
            LEVEL,
            self.ratios,
            'l',
            labels=tuple(str(n + 1) for n in range(len(self.ratios))),
        )
        convolutions = [
            Segment(f'conv{number + 1}', 'conv', None if number else 'level', ('level',))
            for number in range(len(self.channels))
        ]
        return PathSpace(
            (level,),
            (Segment('pre', 'pre'), *convolutions, Segment('head', 'head', None, ('level',))),
        )


class LevelNorm(SlicedFrozenNorm):
    """A norm with scale, shift and statistics for every level. While training it normalises by the batch (as the
    switchable norms of slimmable networks, Yu et al. 2019, section 3.3) and follows its statistics.

    Attributes:
        momentum: share of a batch in the statistics that are kept.
    """

    momentum = _MOMENTUM

    def train(self, mode: bool = True) -> LevelNorm:
        """While training, no convolution takes the norm into its weights."""
        self.folds = not mode
        return super().train(mode)

    def forward(self, x: Tensor, cut: Cut | None = None) -> Tensor:
        """`[N, c, H, W]` -> the same shape; c is one of the layer's widths."""
        if not self.training:
            return super().forward(x)
        count = x.shape[1]
        row = self.rows[count]
        with torch.no_grad():
            variance, mean = torch.var_mean(x, (0, 2, 3), correction=0)
            self.mean[row, :count].lerp_(mean, self.momentum)
            self.deviation[row, :count].lerp_((variance + _EPS).sqrt(), self.momentum)
        return F.batch_norm(
            x, None, None, self.weight[row, :count], self.bias[row, :count], training=True, eps=_EPS
        )


class NestedClassifier(TorchModule):
    """Says what a crop shows.

    Args:
        config: the shape.
        class_names: what the scores stand for, at least one.

    Attributes:
        channel_orders: for each convolution, the place of each of its channels as it was trained or converted; levels
            take the first ones.
    """

    result_type = Classification

    def __init__(self, config: ClassifierConfig, class_names: Sequence[str]) -> None:
        super().__init__(config.name, class_names)
        self.config = config
        self.path_space = config.path_space
        inputs = (3, *config.channels[:-1])
        self.convolutions = nn.ModuleList(
            SlicedConv2d(before, count, 3, stride=stride)
            for before, count, stride in zip(inputs, config.channels, config.strides)
        )
        self.norms = nn.ModuleList(LevelNorm(count, config.ratios) for count in config.channels)
        self.head = SlicedLinear(config.positions, config.channels[-1], len(self.class_names))
        self.channel_orders = tuple(tuple(range(count)) for count in config.channels)

    @property
    def input_size(self) -> tuple[int, int]:
        """Height and width in px that crops are resized to."""
        return self.config.input_px, self.config.input_px

    @property
    def shape(self) -> list[object]:
        """See `TorchNetwork`."""
        return ['nested_classifier', self.config.identity, len(self.class_names)]

    @torch.no_grad()
    def reorder(self, orders: Sequence[Sequence[int]]) -> None:
        """Puts channels into another order, most important first; the largest level computes what it did.

        The other levels then consist of other channels, so it belongs before their training.

        Args:
            orders: for each convolution a permutation of its channels, by their present places.

        Raises:
            ValueError: an order is no permutation.
        """
        if [sorted(order) for order in orders] != [
            list(range(count)) for count in self.config.channels
        ]:
            raise ValueError(
                f'orders have {[len(order) for order in orders]} places, expected a permutation of '
                f'{list(self.config.channels)} channels'
            )
        before: Tensor | None = None
        for convolution, norm, order in zip(self.convolutions, self.norms, orders):
            reorder(convolution, (torch.tensor(order), before))
            reorder(norm, (torch.tensor(order),))
            before = torch.tensor(order)
        reorder(self.head, (None, before))
        self.channel_orders = tuple(
            tuple(had[place] for place in order) for had, order in zip(self.channel_orders, orders)
        )
        self.train(self.training)  # the engine forgets the old order too

    def example(self, image_bgr: np.ndarray) -> np.ndarray:
        """What this network is given of a camera image, uint8 `[H, W, 3]`, to measure its times on: a window of it."""
        height, width = image_bgr.shape[:2]
        side = min(height, width, _EXAMPLE_PX)
        top, left = (height - side) // 2, (width - side) // 2
        return np.ascontiguousarray(image_bgr[top : top + side, left : left + side])

    def resize(self, crop_bgr: np.ndarray) -> np.ndarray:
        """A crop, uint8 `[H, W, 3]` of any size, at the size of the input.

        Raises:
            ValueError: another type or shape, or no pixel.
        """
        check_image(crop_bgr, 'crop')
        if crop_bgr.shape[:2] == self.input_size:
            return crop_bgr
        shrinks = min(crop_bgr.shape[:2]) >= self.config.input_px
        return cv2.resize(
            crop_bgr,
            self.input_size[::-1],
            interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR,
        )

    def normalise_crops(self, crops: np.ndarray) -> Tensor:
        """Crops of the input's size, uint8 `[N, h, w, 3]` -> zero mean and unit deviation `[N, 3, h, w]`, channels
        last."""
        pixels = (
            torch.from_numpy(np.ascontiguousarray(crops))
            .to(self.pixel_mean.device)
            .permute(0, 3, 1, 2)
            .float()
        )
        return self.normalise(pixels)

    def compute(self, segment: str, ratio: float, features: Tensor) -> Tensor:
        """What a segment after `pre` makes, at the ratio of a level, of the features `[N, c, h, w]` before it.

        Features, or of `head` logits `[N, classes]`.
        """
        if segment == 'head':
            return self.head(features.permute(0, 2, 3, 1).flatten(1))
        number = int(segment.removeprefix('conv')) - 1
        outputs = round(self.config.channels[number] * ratio)
        return F.relu(self.convolutions[number](features, outputs, self.norms[number]))

    def logits(self, crops: Tensor, ratio: float) -> Tensor:
        """Normalised crops `[N, 3, h, w]` -> logits `[N, classes]` of one level, in one go."""
        features = crops
        for segment in self.path_space.segments[1:]:
            features = self.compute(segment.name, ratio, features)
        return features

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> ClassifierRun:
        """See `Network`: one job on a crop, whose level may change until the first convolution has started."""
        return ClassifierRun(self, image_bgr, path)


class ClassifierRun(SegmentRun):
    """One job of a nested classifier; see `NestedClassifier.start`."""

    def __init__(
        self, network: NestedClassifier, crop_bgr: np.ndarray, path: ExecutionPath
    ) -> None:
        super().__init__(network.path_space, path, network.device)
        self.network = network
        self._crop = crop_bgr
        self._name, self._values = '', ()
        self._number = network.engine.begin_frame()

    @torch.inference_mode()
    def compute(self, name: str, key: str) -> None:
        """See `SegmentRun`.

        Raises:
            ValueError: the crop is none, or the engine's buffers hold another job by now.
        """
        network = self.network
        network.engine.check_frame(self._number)
        if name == 'pre':
            self._values = network.engine.hold(
                name, (network.normalise_crops(network.resize(self._crop)[None]),)
            )
        else:
            self._values = network.engine.run(
                key,
                name,
                partial(self._segment, name, self.path['level'], self._name),
                {self._name: self._values},
            )
        self._name = name

    def _segment(
        self, name: str, ratio: float, read: str, values: dict[str, tuple[Tensor, ...]]
    ) -> tuple[Tensor, ...]:
        return (self.network.compute(name, ratio, values[read][0]),)

    def result(self) -> Classification:
        """See `SegmentRun`: the score of each class; they add up to 1."""
        self.check_finished()
        logits = self.network.engine.arrays(self._values)[0][0].astype(np.float64)
        scores = np.exp(logits - logits.max())
        return Classification(scores / scores.sum())


def build_classifier(
    config: ClassifierConfig, class_names: Sequence[str], *, seed: int = 0, device: str = 'cpu'
) -> NestedClassifier:
    """A classifier with random weights, in evaluation mode, on `cpu`, `cuda` or `cuda:INDEX`.

    Raises:
        ValueError: there is no class.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = NestedClassifier(config, class_names)
    return network.to(device, memory_format=torch.channels_last).eval()
