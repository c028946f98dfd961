"""Weights of a nested classifier on disk: one safetensors file that says which network it belongs to."""

from __future__ import annotations

import json
import reprlib
from pathlib import Path

from deadline_perception.core.decoding import decode
from deadline_perception.core.device import check_device
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.extras.several_networks.classifier.network import (
    ClassifierConfig,
    NestedClassifier,
    build_classifier,
)
from deadline_perception.extras.weights_writer import write_weights
from deadline_perception.networks.multi_path.checkpoint import WithoutMemory, read_weights
from deadline_perception.networks.weights_file import CheckpointError, read_metadata

KIND = 'nested_classifier'


def save_classifier(network: NestedClassifier, file: Path, **facts: str) -> None:
    """Writes weights as float16, the configuration and further facts, such as the recipe, whole or not at all.

    Raises:
        CheckpointError: a weight is NaN, or too large for float16; the file before, if any, stays.
    """
    write_weights(
        network,
        file,
        {
            'kind': KIND,
            'config': network.config.to_json(),
            'channel_orders': json.dumps(network.channel_orders),
            **facts,
        },
    )


def load_classifier(weights: Path, device: str = 'cpu') -> NestedClassifier:
    """The classifier that a weights file describes, in evaluation mode.

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
        config = decode(parse_json(metadata['config']), ClassifierConfig, 'configuration')
        orders = [
            tuple(order) for order in parse_json(metadata.get('channel_orders', 'null')) or ()
        ]
        if [sorted(order) for order in orders] != [list(range(count)) for count in config.channels]:
            raise ValueError(
                f'channel orders are {reprlib.repr(orders)}, expected permutations of {config.channels}'
            )
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f'weights file {weights} has no configuration of a {KIND}: {error}'
        ) from error
    with WithoutMemory():
        network = NestedClassifier(config, class_names)
    tensors = read_weights(weights, network)
    network = build_classifier(config, class_names, device=device)
    network.load_state_dict(tensors)
    network.channel_orders = tuple(orders)
    return network
