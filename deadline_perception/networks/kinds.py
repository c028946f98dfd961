"""Which function loads which kind of network: a row each. Extras are rows by name, so that the suite imports none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name

import numpy as np

from deadline_perception.core.device import spread_torch
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.engines.eager import Eager, load_torch
from deadline_perception.engines.segment_run import Network
from deadline_perception.engines.tensor_file import read_arrays
from deadline_perception.networks.multi_path.configuration import read_shape
from deadline_perception.networks.own_detector import OwnDetector
from deadline_perception.networks.weights_file import read_header, read_metadata, stated_calibration

EXPORT_SUFFIXES = ('.onnx', '.xml', '.tflite')
SET_SUFFIXES = ('.yaml', '.yml')
MULTI_PATH = 'multi_path'
YOLOX = 'yolox'
ELASTIC = 'elastic'
EXPORT = 'export'
SET = 'set'
_ELASTIC_KEY = 'elastic'  # of the metadata of weights
_EXTRAS = 'deadline_perception.extras'
_DETECTOR = 'deadline_perception.networks.multi_path.checkpoint:load_detector'
LOADERS = {
    MULTI_PATH: _DETECTOR,
    YOLOX: _DETECTOR,
    'nested_classifier': f'{_EXTRAS}.several_networks.classifier.checkpoint:load_classifier',
    ELASTIC: f'{_EXTRAS}.elastic.checkpoint:load_elastic',
    EXPORT: f'{_EXTRAS}.external_models.model_set.exported_model:load_exported',
    SET: f'{_EXTRAS}.external_models.model_set.set_file:load_set',
}


def weights_kind(metadata: Mapping[str, str]) -> str:
    """The kind of network that a weights file says it holds; the multi-path detector where it says none.

    Args:
        metadata: of its header.
    """
    return ELASTIC if _ELASTIC_KEY in metadata else metadata.get('kind', MULTI_PATH)


def load_kind(kind: str, file: Path, *options: str | Sequence[str]) -> Network:
    """The network of a file of that kind; imports what loads it.

    Args:
        kind: see `weights_kind`; one that is not in `LOADERS` is refused by the loader of detectors.
        file: weights, exported network or set.
        options: device, and for a set the engine, for an exported network its classes.

    Raises:
        DeadlinePerceptionError: it cannot be used, or PyTorch, which it needs, is not installed.
    """
    try:
        load = resolve_name(LOADERS.get(kind, _DETECTOR))
    except ModuleNotFoundError:
        load_torch()  # which says how to get it
        raise
    network = load(file, *options)
    spread_torch()
    return network


def stored_detector(weights: Path) -> OwnDetector | None:
    """The detector of a weights file, without layers until it computes a segment; None where only who makes them can say
    what is in the file.

    Raises:
        CheckpointError: the file is missing or no safetensors file.
    """
    header = read_header(weights)
    metadata = header.metadata
    kind = weights_kind(metadata)
    if LOADERS.get(kind) != _DETECTOR:
        return None
    try:
        class_names = read_metadata(weights)[1]
        shape = read_shape(parse_json(metadata['config']))
        network: OwnDetector = resolve_name(shape.outline)()
        network.declare(shape, class_names)
        network.score_calibration = stated_calibration(metadata, len(class_names))
        arrays = read_arrays(weights, header)
        ordered = [(name, arrays[name]) for name in sorted(arrays, key=network.hashed_first)]
    except (ValueError, DeadlinePerceptionError):
        return None
    if metadata.get('network_hash') != network.network_hash or any(
        values.dtype != np.float16 for _, values in ordered
    ):
        return None
    network.device = 'cpu'
    network.engine = Eager()
    network.weights_hash = network.hash_with(ordered)
    network.module = cache(partial(load_kind, kind, weights))
    return network
