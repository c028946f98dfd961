"""Elastic networks on disk: one safetensors file with weights, rankings, and where the ordinary network came from."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

from deadline_perception.core.device import check_device
from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.extras.elastic.elastic import structure
from deadline_perception.extras.elastic.network import ElasticNetwork
from deadline_perception.extras.elastic.source import source_in_file
from deadline_perception.extras.weights_writer import write_tensors
from deadline_perception.networks.multi_path.checkpoint import (
    check_shapes,
    finite_tensors,
    first_not_finite,
)
from deadline_perception.networks.weights_file import CheckpointError, read_header

FORMAT = 1
_MOST_SETTINGS = 64
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
        OSError: the file cannot be written; the one before stays too.
    """
    facts = {
        'format': FORMAT,
        'source': asdict(network.source),
        'settings': network.module.settings,
    }
    # Copies, because a parameter of a module's own, such as the scale of a ConvNeXt block, has two names.
    tensors = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in network.module.state_dict().items()
    }
    broken = first_not_finite(tensors)
    if broken is not None:
        raise CheckpointError(
            f'{broken} is not finite, expected finite weights; {file} is not written'
        )
    write_tensors(file, tensors, {KEY: json.dumps(facts), 'network_hash': network.network_hash})


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
    header = read_header(weights)
    try:
        facts = parse_json(header.metadata[KEY])
        if facts['format'] != FORMAT:
            raise ValueError(f'its format is {facts["format"]!r}, expected {FORMAT}')
        settings = facts['settings']
        if not isinstance(settings, list) or not 0 < len(settings) <= _MOST_SETTINGS:
            raise ValueError(
                f'settings are {printable(repr(settings), 60)}, expected 1 to {_MOST_SETTINGS}'
            )
        values = sum(math.prod(tensor['shape']) for tensor in header.tensors.values())
        if values > weights.stat().st_size:  # of types of a byte or more
            raise ValueError(f'its header states {values} values, more than the file holds')
        source = source_in_file(facts['source'], values)
        module = structure(source.ordinary(), source.example_inputs, tuple(settings))
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RuntimeError,
        OverflowError,
        DeadlinePerceptionError,
    ) as error:
        raise CheckpointError(
            f'weights file {weights} holds no elastic network that can be made here: '
            f'{printable(error, 600)}'
        ) from error
    check_shapes(header, module, weights, source.model)
    module.load_state_dict(finite_tensors(weights, header))
    return ElasticNetwork(module.eval(), source, device)
