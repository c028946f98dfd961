"""Elastic networks on disk: one safetensors file with weights, rankings, and where the ordinary network came from."""
from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from deadline_perception.detector.checkpoint import CheckpointError, read_header
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.device import check_device
from deadline_perception.subnetwork.elastic import structure
from deadline_perception.subnetwork.network import ElasticNetwork
from deadline_perception.subnetwork.source import NetworkSource

FORMAT = 1
KEY = 'elastic'  # of the metadata; a weights file without it holds another network


def is_elastic(weights: Path) -> bool:
    """Whether a weights file holds an elastic network.

    Raises:
        CheckpointError: the file is missing or no safetensors file.
    """
    return KEY in read_header(Path(weights))[0]


def save_elastic(network: ElasticNetwork, file: Path) -> None:
    """Writes weights, rankings and source in one step: whenever the writer dies, the file is the old one or the new
    one.

    Raises:
        CheckpointError: a weight is NaN or infinite; the file before, if any, stays.
    """
    facts = {'format': FORMAT, 'source': asdict(network.source), 'settings': network.module.settings,
             'damping': network.module.damping}
    # Copies, because a parameter of a module's own, such as the scale of a ConvNeXt block, has two names.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in network.module.state_dict().items()}
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f'{name} is not finite, expected finite weights; {file} is not written')
    file = Path(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f'.{file.name}.{os.getpid()}.partial')
    try:
        save_file(tensors, partial, metadata={KEY: json.dumps(facts), 'network_hash': network.network_hash})
        with partial.open('rb') as written:
            os.fsync(written.fileno())
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)  # still there only when something failed


def load_elastic(weights: Path, device: str = 'cpu') -> ElasticNetwork:
    """The elastic network that a file holds, in evaluation mode.

    Raises:
        CheckpointError: the file is missing, damaged, holds another network, or was made of one that is not there or
            has changed since.
        DeviceNotFound: the device is not there.
        ValueError: no kind of device has that name.
    """
    check_device(device)
    weights = Path(weights)
    metadata, stored = read_header(weights)
    try:
        facts = json.loads(metadata[KEY])
        if facts['format'] != FORMAT:
            raise ValueError(f'its format is {facts["format"]!r}, expected {FORMAT}')
        source = NetworkSource(**facts['source'])
        module = structure(source.ordinary(), source.example_inputs, tuple(facts['settings']))
        module.damping = {int(group): float(damping) for group, damping in facts['damping'].items()}
    except (KeyError, TypeError, ValueError, AttributeError, DeadlinePerceptionError) as error:
        raise CheckpointError(f'weights file {weights} holds no elastic network that can be made here: '
                              f'{error}') from error
    expected = module.state_dict()
    for name in sorted({*stored, *expected}):
        found = stored.get(name, {}).get('shape')
        wanted = list(expected[name].shape) if name in expected else None
        if found != wanted:
            raise CheckpointError(f'weights file {weights} does not fit {source.model}: {name[:100]} has the shape '
                                  f'{found or "of nothing"}, expected {wanted or "no such weights"}')
    try:
        tensors = load_file(weights)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f'weights file {weights} cannot be read as safetensors: {error}') from error
    broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise CheckpointError(f'weights file {weights} holds NaN or infinity in {broken[0]}, expected finite weights')
    module.load_state_dict(tensors)
    return ElasticNetwork(module.eval(), source, device)
