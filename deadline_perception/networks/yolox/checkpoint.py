"""Weights of a YOLOX-Nano on disk: one safetensors file that says which network it belongs to."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from pathlib import Path

import torch

from deadline_perception.core.decoding import decode
from deadline_perception.core.device import check_device
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.networks.multi_path.checkpoint import (
    WithoutMemory,
    read_weights,
    write_weights,
)
from deadline_perception.networks.weights_file import (
    CheckpointError,
    read_calibration,
    read_metadata,
)
from deadline_perception.networks.yolox.configuration import YoloxConfig
from deadline_perception.networks.yolox.network import YoloxDetector

KIND = 'yolox'


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
    write_weights(network, file, {'kind': KIND, 'config': network.config.to_json(), **facts})


def load_yolox(weights: Path, device: str = 'cpu') -> YoloxDetector:
    """The detector that a weights file describes, in evaluation mode.

    Raises:
        CheckpointError: the file is missing, damaged, or holds another network.
        DeviceNotFound: the device is not there.
        ValueError: no kind of device has that name.
    """
    check_device(device)
    weights = Path(weights)
    metadata, class_names = read_metadata(weights)
    if metadata.get('kind') != KIND:
        raise CheckpointError(
            f'weights file {weights} holds {reprlib.repr(metadata.get("kind", "a detector"))}, '
            f'expected a {KIND}'
        )
    try:
        config = decode(parse_json(metadata['config']), YoloxConfig, 'configuration')
        with WithoutMemory():
            network = YoloxDetector(config, class_names)
    except ValueError as error:
        raise CheckpointError(f'weights file {weights} cannot be used: {error}') from error
    tensors = read_weights(weights, network)
    network.load_state_dict(tensors, assign=True)
    network.score_calibration = read_calibration(weights, metadata, len(class_names))
    return network.to(device).to(memory_format=torch.channels_last).eval()
