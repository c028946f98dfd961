"""The statistics that frozen norms keep: measured on images, on random paths of every width.

Precise batch norm (Wu and Johnson 2021, section 3): every norm normalises by the statistics of the batch while they are
measured, so that each layer sees what it will see; the mean over several batches is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import torch
from torch import Tensor, nn

from deadline_perception.core.execution_path import WIDTH, ExecutionPath, PathSpace
from deadline_perception.extras.training.batch_proposals import proposals_of_batch
from deadline_perception.extras.training.pyramid_features import pyramid_features
from deadline_perception.extras.training.samples import SampleSource
from deadline_perception.extras.training.strategies import draw_path
from deadline_perception.extras.training.transfer import resized, to_batch
from deadline_perception.networks.multi_path import heads as head_ops
from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.networks.multi_path.operators import SlicedFrozenNorm, SlicedNorm

_BATCHES = 6  # of each width
_BATCH_IMAGES = 8
_REGIONS = 25  # of an image, for the norms of heads
_EPS = 1e-5  # added to variances, as PyTorch's norms do


class _Moments:
    """Means of values and of their squares, per channel, over batches; by norm and row."""

    def __init__(self) -> None:
        self._sums: dict[tuple[SlicedNorm, int], tuple[Tensor, int]] = {}

    def add(self, norm: SlicedNorm, values: Tensor) -> tuple[int, Tensor, Tensor]:
        """Counts a batch `[N, c, H, W]`; returns the norm's row, and mean and deviation `[c]` of the batch alone."""
        values = values.float()
        row = norm.rows[values.shape[1]]
        means = torch.stack((values.mean((0, 2, 3)), values.square().mean((0, 2, 3))))
        total, count = self._sums.get((norm, row), (torch.zeros_like(means), 0))
        self._sums[norm, row] = total + means, count + 1
        return row, *_mean_and_deviation(means)

    def __iter__(self) -> Iterator[tuple[SlicedNorm, int, Tensor, Tensor]]:
        """Norm, row, mean and deviation `[c]` over all batches."""
        for (norm, row), (total, count) in self._sums.items():
            yield norm, row, *_mean_and_deviation(total / count)


def _mean_and_deviation(means: Tensor) -> tuple[Tensor, Tensor]:
    mean, square = means
    return mean, ((square - mean.square()).clamp(min=0.0) + _EPS).sqrt()


@torch.no_grad()
def measure_statistics(
    network: MultiPathDetector,
    source: SampleSource,
    *,
    seed: int = 0,
    like: MultiPathDetector | None = None,
) -> int:
    """Sets the statistics of a network's frozen norms, in place; blocks meanwhile.

    Args:
        network: with frozen norms.
        source: draws the images.
        seed: of images and paths.
        like: a network with the same layers and group norms. Scales and shifts of the frozen norms are set so that
            they give, channel by channel, the mean and deviation that its norms give. Without, they are left as they
            are.

    Returns:
        The number of images.

    Raises:
        ValueError: the network's norms are not frozen.
    """
    if network.config.norm != 'frozen':
        raise ValueError(
            f'norms of {network.config_name!r} are {network.config.norm}, expected frozen ones'
        )
    if like is not None:
        given = _Moments()
        twins = dict(zip(_norms(like), _norms(network)))

        def count(norm: SlicedNorm, inputs: tuple[Tensor], output: Tensor) -> None:
            given.add(norm, output)

        with ExitStack() as hooks:
            for norm in twins:
                hooks.enter_context(norm.register_forward_hook(count))
            _run(like, source, seed)
        for norm, row, mean, deviation in given:
            twins[norm].weight[row, : len(mean)] = deviation * norm.weight[row, : len(mean)].sign()
            twins[norm].bias[row, : len(mean)] = mean

    found = _Moments()

    def use_batch(norm: SlicedFrozenNorm, inputs: tuple[Tensor]) -> None:
        _keep(norm, *found.add(norm, inputs[0]))

    norms = _norms(network)
    try:
        with ExitStack() as hooks:
            for norm in norms:
                norm.folds = False
                hooks.enter_context(norm.register_forward_pre_hook(use_batch))
            images = _run(network, source, seed)
    finally:
        for norm in norms:
            norm.folds = True
    for kept in found:
        _keep(*kept)
    return images


def _keep(norm: SlicedFrozenNorm, row: int, mean: Tensor, deviation: Tensor) -> None:
    norm.mean[row, : len(mean)] = mean
    norm.deviation[row, : len(mean)] = deviation


def _norms(network: nn.Module) -> list[SlicedNorm]:
    return [module for module in network.modules() if isinstance(module, SlicedNorm)]


def _run(network: MultiPathDetector, source: SampleSource, seed: int) -> int:
    """Runs backbone, pyramid and all heads on random paths of every width; returns the number of images."""
    training, network = network.training, network.train()  # no weights are laid out meanwhile
    generator = np.random.default_rng(seed)
    images = 0
    for batch in range(_BATCHES):
        samples = [source.draw(generator) for _ in range(_BATCH_IMAGES)]
        images += len(samples)
        pixels = network.normalise(to_batch(samples, network.pixel_mean.device))
        for path in _paths(network.path_space, generator, batch):
            size = network.input_size_on(path)
            levels = pyramid_features(network, resized(pixels, size), path)
            proposed = proposals_of_batch(
                network.select_proposals, network.rpn(levels), _REGIONS, size
            )
            boxes = torch.from_numpy(np.concatenate(proposed)).to(pixels.device)
            of_image = np.repeat(np.arange(len(proposed)), [len(regions) for regions in proposed])
            if len(boxes):
                regions = head_ops.region_features(
                    levels,
                    boxes,
                    head_ops.pyramid_levels(boxes, len(levels), network.strides[0]),
                    torch.from_numpy(of_image).to(pixels.device),
                    strides=network.strides,
                )
                for head in network.heads.subnets:
                    head(regions)
    network.train(training)
    return images


def _paths(space: PathSpace, generator: np.random.Generator, batch: int) -> Iterator[ExecutionPath]:
    """Random paths, of which every setting of every width has one; with other pairs of them in other batches."""
    widths = space.of_kind(WIDTH)
    for number in range(max(len(operator.settings) for operator in widths)):
        chosen = {
            operator.name: operator.settings[(number + batch * at) % len(operator.settings)]
            for at, operator in enumerate(widths)
        }
        yield draw_path(space, generator, skip_share=generator.random()).replace(**chosen)
