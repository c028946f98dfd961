"""Weights of a YOLOX-Nano on disk: one safetensors file that says which network it belongs to."""

from __future__ import annotations

from pathlib import Path

from deadline_perception.core.decoding import decode
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.networks.multi_path.checkpoint import stored_network
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

    def make(config: str, class_names: tuple[str, ...]) -> YoloxDetector:
        return YoloxDetector(decode(parse_json(config), YoloxConfig, 'configuration'), class_names)

    return stored_network(weights, device, KIND, make)
