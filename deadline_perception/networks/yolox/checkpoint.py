"""Weights of a YOLOX-Nano on disk: one safetensors file that says which network it belongs to."""

from __future__ import annotations

import reprlib
from pathlib import Path

import torch

from deadline_perception.core.decoding import decode
from deadline_perception.core.device import check_device
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.networks.multi_path.checkpoint import (
    WithoutMemory,
    read_weights,
)
from deadline_perception.networks.weights_file import (
    CheckpointError,
    read_calibration,
    read_metadata,
)
from deadline_perception.networks.yolox.configuration import YoloxConfig
from deadline_perception.networks.yolox.network import YoloxDetector

KIND = 'yolox'


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
