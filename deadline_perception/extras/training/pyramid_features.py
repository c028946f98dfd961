"""Features of batches of images, for training."""

from __future__ import annotations

from torch import Tensor

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.networks.multi_path.network import MultiPathDetector


def pyramid_features(
    network: MultiPathDetector, images: Tensor, path: ExecutionPath
) -> list[Tensor]:
    """Normalised images `[N, 3, h, w]` -> pyramid levels; backbone and pyramid in one go."""
    values: dict[str, tuple[Tensor, ...]] = {'pre': (images,)}
    for number, segment in enumerate(network.path_space.segments):
        if segment.phase == 'conv' and network.path_space.key(number, path) is not None:
            values[network.makes[segment.name]] = network.compute(segment.name, path, values)
    return list(values['pyramid'])
