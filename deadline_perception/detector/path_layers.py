"""The layers that a multi-path detector runs on one path, for models of worst-case times."""
from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from deadline_perception.detector.network import MultiPathDetector
from deadline_perception.execution_path import ExecutionPath
from deadline_perception.wcet.layer_trace import trace_layers
from deadline_perception.wcet.layers import LayerShape, RegionFeaturesShape, SuppressionShape


def path_layers(network: MultiPathDetector, path: ExecutionPath) -> tuple[LayerShape, ...]:
    """The layers that a multi-path detector runs on one path, with as many regions as the path can have.

    Backbone, pyramid, region proposal network and head run on zeros; suppression and region features follow from
    the path's number of proposals, since how many regions an image yields differs.

    Args:
        network: the detector.
        path: one of its paths.

    Raises:
        ValueError: the path is not one of the network's.
    """
    if path not in network.path_space:
        raise ValueError(f'path {path} is not one of configuration {network.config_name!r}')
    levels: list[Tensor] = []
    logits: list[Tensor] = []

    def through_proposals() -> None:
        image = torch.zeros((1, 3, *network.input_size_on(path)), device=network.device)
        levels[:] = network.features(image.contiguous(memory_format=torch.channels_last), path)
        logits[:] = network.rpn(levels)[0]

    layers = list(_traced(through_proposals))
    keep = min(network.select_proposals.candidates, 2 * path['proposals'])
    layers.append(SuppressionShape(sum(min(keep, level.shape[1]) for level in logits)))
    channels = levels[0].shape[1]
    regions = RegionFeaturesShape(path['proposals'], channels, sum(level.shape[2] * level.shape[3] for level in levels))
    layers.append(regions)
    features = torch.zeros((path['proposals'], regions.bins ** 2 * channels), device=network.device)
    layers += _traced(lambda: network.heads(features, path))
    layers.append(SuppressionShape(path['proposals'] * len(network.class_names)))
    return tuple(layers)


def _traced(call: Callable[[], object]) -> tuple[LayerShape, ...]:
    """The layers of a second call: the first one lays out weights and folds norms into them."""
    with torch.no_grad():
        call()
    return trace_layers(call)
