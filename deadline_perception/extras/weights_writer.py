"""Detectors with random weights, and weights brought to disk in a safetensors file that names its network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from deadline_perception.core.device import check_device
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.engines.torch_network import TorchModule
from deadline_perception.extras.configuration_file import find_configuration
from deadline_perception.networks.multi_path.checkpoint import detector_of, first_not_finite
from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.networks.multi_path.shape import DetectorShape
from deadline_perception.networks.weights_file import CheckpointError


def build_detector(
    config: str | DetectorShape,
    class_names: tuple[str, ...],
    *,
    seed: int = 0,
    device: str = 'cpu',
) -> MultiPathDetector:
    """A detector with random weights, in evaluation mode.

    Args:
        config: the shape; or the name of a built-in one, such as `compact`, or of a JSON file that holds one.
        class_names: what the labels mean.
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
        detector = detector_of(config, class_names)
    return detector.to(device).to(memory_format=torch.channels_last).eval()


def save_detector(detector: MultiPathDetector, file: Path, **facts: str) -> None:
    """Writes weights as float16, the configuration and further facts, such as the recipe, whole or not at all.

    Raises:
        CheckpointError: a weight is NaN, or too large for float16; the file before, if any, stays.
    """
    if detector.score_calibration is not None:
        facts = {'score_calibration': detector.score_calibration.to_json(), **facts}
    write_weights(detector, file, {'config': detector.config.to_json(), **facts})


def write_weights(network: TorchModule, file: Path, facts: dict[str, str]) -> None:
    """The same of any network; `facts` say its shape, and what else to keep.

    Raises:
        CheckpointError: as above.
        OSError: the file cannot be written; the one before stays.
    """
    metadata = {
        'class_names': json.dumps(network.class_names),
        'network_hash': network.network_hash,
        **facts,
    }
    tensors = {
        name: tensor.detach().cpu().contiguous().half()
        for name, tensor in network.state_dict().items()
    }
    broken = first_not_finite(tensors)
    if broken is not None:
        raise CheckpointError(
            f'{broken} is not finite as float16, expected weights within '
            f'{torch.finfo(torch.half).max:.0f}; {file} is not written'
        )
    write_tensors(file, tensors, metadata)


def write_tensors(file: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Writes a safetensors file whole or not at all; see `replace_file`.

    Raises:
        OSError: it cannot be written; the file before, if any, stays.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    replace_file(file, save(plain, dict(metadata)))
