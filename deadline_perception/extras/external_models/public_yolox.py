"""The published weights of YOLOX-Nano, taken over from its ONNX file.

    python -m deadline_perception.extras.external_models.public_yolox yolox_nano.onnx yolox-nano.safetensors

The file (Apache 2.0, Megvii) is read with OpenVINO, and holds batch norms within the convolutions already. Of COCO's
classes those are kept that the configuration names as sources.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.engines.openvino_library import load_openvino
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.weights_writer import write_weights
from deadline_perception.networks.kinds import YOLOX
from deadline_perception.networks.yolox.configuration import YoloxConfig
from deadline_perception.networks.yolox.layers import Unit
from deadline_perception.networks.yolox.network import YoloxDetector

# In the file, weights and biases of convolutions with a norm have numbers for names, in the order of computation.
_FIRST_NUMBER, _NUMBERS_PER_UNIT = 1178, 3
_OUTPUTS = {'classes': 'cls_preds', 'boxes': 'reg_preds', 'objectness': 'obj_preds'}
FACTS = {
    'licence': 'Apache-2.0',
    'source': 'YOLOX-Nano, published by Megvii as part of YOLOX under Apache 2.0; taken from yolox_nano.onnx '
    'of Kazuhito00/YOLOX-ONNX-TFLite-Sample',
    'recipe': 'the published weights, their batch norms folded, as float16; of COCO 80 the classes '
    'that are named as sources',
}

# Of COCO's classes those that the shipped networks know, by the names that these have for them.
ROAD_SOURCES = {
    'vehicle': ('car', 'bus', 'truck'),
    'bike': ('bicycle',),
    'motorbike': ('motorcycle',),
    'traffic_light': ('traffic light',),
    'traffic_sign': ('stop sign',),
    'person': ('person',),
}
YOLOX_NANO = YoloxConfig(
    name='yolox-nano',
    input_size=(384, 640),
    scales=(1.0, 0.65, 0.5),  # 640x384, 416x256 and 320x192 px
    sources=tuple(ROAD_SOURCES.values()),
)


class WeightsRefused(DeadlinePerceptionError):
    """A file that is not YOLOX-Nano."""


@torch.no_grad()
def take_public_weights(network: YoloxDetector, file: Path) -> None:
    """Fills a network in place with the published weights.

    Args:
        network: whose sources are classes of COCO.
        file: `yolox_nano.onnx`.

    Raises:
        WeightsRefused: the file is another model, or a source is no class of COCO.
    """
    unknown = [name for names in network.config.sources for name in names if name not in COCO_NAMES]
    if unknown:
        raise WeightsRefused(f'source is {unknown[0]!r}, expected one of the 80 classes of COCO')
    rows = [COCO_NAMES.index(name) for names in network.config.sources for name in names]
    constants = _constants(file)
    try:
        for place, unit in enumerate(_units(network)):
            number = _FIRST_NUMBER + _NUMBERS_PER_UNIT * place
            _take(unit[0], constants[str(number)], constants[str(number + 1)])
        for place, level in enumerate(network.head.levels):
            for ours, theirs in _OUTPUTS.items():
                kept = rows if ours == 'classes' else slice(None)
                name = f'head.{theirs}.{place}'
                weight, bias = constants[f'{name}.weight'], constants[f'{name}.bias']
                _take(getattr(level, ours), weight[kept], bias[kept])
    except (KeyError, ValueError, IndexError) as error:
        raise WeightsRefused(f'{file} is not YOLOX-Nano as expected: {error}') from error
    network.train(network.training)  # drops what engines laid out of the weights before


def _units(network: YoloxDetector) -> list[Unit]:
    """Convolutions with SiLU in the order of computation, which is that of the layers."""
    return [module for module in network.modules() if isinstance(module, Unit)]


def _take(layer: nn.Conv2d, weight: np.ndarray, bias: np.ndarray) -> None:
    for name, given in (('weight', weight), ('bias', bias)):
        have: Tensor = getattr(layer, name)
        if have.shape != given.shape:
            raise ValueError(f'{name} of shape {given.shape}, expected {tuple(have.shape)}')
        have.copy_(torch.from_numpy(given))


def _constants(file: Path) -> dict[str, np.ndarray]:
    """Values of a file's constants by their names."""
    openvino = load_openvino()
    try:
        model = openvino.Core().read_model(file)
    except RuntimeError as error:
        raise WeightsRefused(
            f'{file} cannot be read as ONNX: {str(error).strip().splitlines()[-1]}'
        ) from error
    return {
        node.get_friendly_name(): np.array(node.data)
        for node in model.get_ops()
        if node.get_type_name() == 'Constant'
    }


def build_yolox(
    config: YoloxConfig,
    class_names: Sequence[str],
    *,
    seed: int = 0,
    device: str = 'cpu',
) -> YoloxDetector:
    """A detector with random weights, in evaluation mode, on `cpu`, `cuda` or `cuda:INDEX`.

    Raises:
        ValueError: there is not one name for each class.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = YoloxDetector(config, class_names)
    return network.to(device).to(memory_format=torch.channels_last).eval()


def save_yolox(network: YoloxDetector, file: Path, **facts: str) -> None:
    """Writes weights as float16, the configuration and further facts, such as the licence, whole or not at all.

    Raises:
        CheckpointError: a weight is NaN, or too large for float16; the file before, if any, stays.
    """
    if network.score_calibration is not None:
        facts = {'score_calibration': network.score_calibration.to_json(), **facts}
    write_weights(network, file, {'kind': YOLOX, 'config': network.config.to_json(), **facts})


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the shipped weights; prints one line where the file is refused."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('file', type=Path, help='yolox_nano.onnx')
    parser.add_argument('out', type=Path, help='safetensors file to write')
    args = parser.parse_args(argv)
    network = build_yolox(YOLOX_NANO, tuple(ROAD_SOURCES))
    try:
        take_public_weights(network, args.file)
    except WeightsRefused as error:
        print(error, file=sys.stderr)
        return 1
    save_yolox(network, args.out, **FACTS)
    return 0


if __name__ == '__main__':
    sys.exit(main())
