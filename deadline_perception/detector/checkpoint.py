"""Weights on disk: one safetensors file that says which network it belongs to."""
from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from deadline_perception.detector.configuration import CONFIGURATIONS
from deadline_perception.detector.network import MultiPathDetector
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.device import check_device


class CheckpointError(DeadlinePerceptionError):
    """Weights that are missing, damaged, or made for another network."""


def build_detector(config: str, class_names: tuple[str, ...], *, seed: int = 0,
                   device: str = 'cpu') -> MultiPathDetector:
    """A detector with random weights, in evaluation mode.

    Args:
        config: name of a configuration, such as `compact`.
        class_names: what the labels mean.
        seed: of the random weights.
        device: `cpu`, `cuda` or `cuda:INDEX`.

    Raises:
        ValueError: no configuration, or no kind of device, has that name.
        DeviceNotFound: the device is not there.
    """
    if config not in CONFIGURATIONS:
        raise ValueError(f'configuration is {config!r}, expected one of {", ".join(CONFIGURATIONS)}')
    check_device(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        detector = MultiPathDetector(CONFIGURATIONS[config], class_names)
    return detector.to(device, memory_format=torch.channels_last).eval()


def save_detector(detector: MultiPathDetector, file: Path, **facts: str) -> None:
    """Writes the weights in half precision, whole or not at all.

    Args:
        detector: the network.
        file: safetensors file to write.
        facts: further text to keep with the weights, such as the recipe.
    """
    metadata = {'config': detector.config_name, 'class_names': json.dumps(detector.class_names),
                'network_hash': detector.network_hash, **facts}
    tensors = {name: tensor.detach().cpu().contiguous().half() for name, tensor in detector.state_dict().items()}
    partial = file.with_name(file.name + '.partial')
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, partial, metadata=metadata)
    os.replace(partial, file)


def load_detector(weights: Path, device: str = 'cpu') -> MultiPathDetector:
    """The detector that a weights file describes, in evaluation mode.

    Raises:
        CheckpointError: the file is missing, truncated, no safetensors file, or belongs to another network.
        DeviceNotFound: the device is not there.
        ValueError: no kind of device has that name.
    """
    check_device(device)
    weights = Path(weights)
    if not weights.is_file():
        raise CheckpointError(f'weights file {weights} does not exist')
    try:
        with safe_open(weights, framework='pt') as stored:
            metadata = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name).float() for name in stored.keys()}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f'weights file {weights} cannot be read as safetensors: {error}') from error
    if metadata.get('config') not in CONFIGURATIONS or 'class_names' not in metadata:
        raise CheckpointError(f'weights file {weights} names configuration {metadata.get("config")!r}, '
                              f'expected one of {", ".join(CONFIGURATIONS)} and its class names')
    try:
        class_names = json.loads(metadata['class_names'])
    except json.JSONDecodeError:
        class_names = None
    if not isinstance(class_names, list) or not class_names or not all(isinstance(n, str) for n in class_names):
        raise CheckpointError(f'weights file {weights} has class names {metadata["class_names"]!r}, '
                              f'expected a JSON list of names')
    broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise CheckpointError(f'weights file {weights} holds NaN or infinity in {broken[0]}, expected finite weights')
    detector = build_detector(metadata['config'], tuple(class_names))
    if metadata.get('network_hash') != detector.network_hash:
        raise CheckpointError(f'weights file {weights} was made for network {metadata.get("network_hash")}, but '
                              f'configuration {metadata["config"]!r} is now network {detector.network_hash}')
    try:
        detector.load_state_dict(tensors)
    except RuntimeError as error:
        raise CheckpointError(f'weights file {weights} does not fit configuration {metadata["config"]!r}: '
                              f'{str(error).splitlines()[-1].strip()}') from error
    return detector.to(device, memory_format=torch.channels_last).eval()
