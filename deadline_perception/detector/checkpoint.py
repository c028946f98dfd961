"""Weights on disk: one safetensors file that says which network it belongs to."""
from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from deadline_perception.detector.configuration import CONFIGURATIONS, DetectorConfig, find_configuration
from deadline_perception.detector.network import MultiPathDetector
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.device import check_device


class CheckpointError(DeadlinePerceptionError):
    """Weights that are missing, damaged, or made for another network."""


def build_detector(config: str | DetectorConfig, class_names: tuple[str, ...], *, seed: int = 0,
                   device: str = 'cpu') -> MultiPathDetector:
    """A detector with random weights, in evaluation mode.

    Args:
        config: the shape; or the name of a built-in one, such as `compact`, or of a JSON file that holds one.
        class_names: what the labels mean.
        seed: of the random weights.
        device: `cpu`, `cuda` or `cuda:INDEX`.

    Raises:
        ValueError: no configuration, or no kind of device, has that name.
        JsonFileError: the file holds no configuration.
        DeviceNotFound: the device is not there.
    """
    if isinstance(config, str):
        config = find_configuration(config)
    check_device(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        detector = MultiPathDetector(config, class_names)
    return detector.to(device, memory_format=torch.channels_last).eval()


def save_detector(detector: MultiPathDetector, file: Path, **facts: str) -> None:
    """Writes the weights in half precision and the network's configuration with them, whole or not at all.

    Args:
        detector: the network.
        file: safetensors file to write.
        facts: further text to keep with the weights, such as the recipe.

    Raises:
        CheckpointError: a weight is NaN, or too large for half precision; the file before, if any, stays.
    """
    metadata = {'config': detector.config.to_json(), 'class_names': json.dumps(detector.class_names),
                'network_hash': detector.network_hash, **facts}
    tensors = {name: tensor.detach().cpu().contiguous().half() for name, tensor in detector.state_dict().items()}
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f'{name} is not finite in half precision, expected weights within '
                                  f'{torch.finfo(torch.half).max:.0f}; {file} is not written')
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
    if 'config' not in metadata or 'class_names' not in metadata:
        raise CheckpointError(f'weights file {weights} holds {sorted(metadata) or "nothing"} beside the weights, '
                              f'expected config and class_names')
    config = _configuration(metadata['config'], weights)
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
    detector = build_detector(config, tuple(class_names))
    if metadata.get('network_hash') != detector.network_hash:
        raise CheckpointError(f'weights file {weights} was made for network {metadata.get("network_hash")}, but '
                              f'configuration {config.name!r} is now network {detector.network_hash}')
    try:
        detector.load_state_dict(tensors)
    except RuntimeError as error:
        raise CheckpointError(f'weights file {weights} does not fit configuration {config.name!r}: '
                              f'{str(error).splitlines()[-1].strip()}') from error
    return detector.to(device, memory_format=torch.channels_last).eval()


def read_recipe(weights: Path) -> str | None:
    """How the weights of a file say that they came about, None where they do not.

    Raises:
        CheckpointError: the file cannot be read.
    """
    try:
        with safe_open(weights, framework='pt') as stored:
            return (stored.metadata() or {}).get('recipe')
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f'weights file {weights} cannot be read as safetensors: {error}') from error


def _configuration(text: str, weights: Path) -> DetectorConfig:
    """What the metadata say of the shape: the whole configuration, or the name of a built-in one."""
    if text in CONFIGURATIONS:
        return CONFIGURATIONS[text]
    try:
        return DetectorConfig.from_record(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f'weights file {weights} has configuration {text[:40]!r}, expected one of '
                              f'{", ".join(CONFIGURATIONS)} or a whole one: {error}') from error
