from dataclasses import replace

import numpy as np
import pytest
import torch
from invented_networks import SINGLE

from deadline_perception.detector.configuration import COMPACT
from deadline_perception.detector.network import MultiPathDetector
from deadline_perception.detector.path_layers import path_layers
from deadline_perception.execution_path import SKIP
from deadline_perception.wcet.layer_trace import trace_layers
from deadline_perception.wcet.layers import (
    ConvolutionShape,
    GroupNormShape,
    LayerKind,
    LinearShape,
    RegionFeaturesShape,
    SuppressionShape,
)


@pytest.fixture(scope='module')
def detector() -> MultiPathDetector:
    torch.manual_seed(0)
    return MultiPathDetector(replace(COMPACT, norm='group'), ('vehicle', 'bike')).eval()


def test_layers_of_a_path(detector: MultiPathDetector) -> None:
    space = detector.path_space
    layers = path_layers(detector, space.smallest)
    assert {layer.kind for layer in layers} == set(LayerKind)
    assert layers[0] == ConvolutionShape(3, 8, 3, 2, 192, 320)
    positions = sum((192 // stride) * (320 // stride) for stride in (4, 8, 16, 32))
    assert RegionFeaturesShape(10, 32, positions) in layers
    assert [layer.boxes for layer in layers if isinstance(layer, SuppressionShape)] == [4 * 20, 10 * 2]


def test_a_skipped_block_takes_its_layers_away(detector: MultiPathDetector) -> None:
    space = detector.path_space
    kept = space.smallest.replace(**{skip.name: 'run' for skip in space.of_kind(SKIP)})
    skipped = kept.replace(skip0='skip')
    fewer = [len(path_layers(detector, path)) for path in (kept, skipped)]
    assert fewer[0] - fewer[1] == 7  # two convolutions and norms, a sum, two ReLU


def test_frozen_norms_are_no_layers(detector: MultiPathDetector) -> None:
    path = detector.path_space.smallest
    frozen = path_layers(MultiPathDetector(COMPACT, ('vehicle', 'bike')).eval(), path)
    assert frozen == tuple(layer for layer in path_layers(detector, path) if not isinstance(layer, GroupNormShape))


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
    with pytest.raises(ValueError, match="path whole is not one of configuration 'compact'"):
        path_layers(detector, SINGLE.largest)
