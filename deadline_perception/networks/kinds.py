"""Which function loads which kind of network: a row each. Extras are rows by name, so that the suite imports none."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from deadline_perception.engines.segment_run import Network

EXPORT_SUFFIXES = ('.onnx', '.xml', '.tflite')
SET_SUFFIXES = ('.yaml', '.yml')
MULTI_PATH, ELASTIC, EXPORT, SET = 'multi_path', 'elastic', 'export', 'set'
_ELASTIC_KEY = 'elastic'  # of the metadata of weights
_EXTRAS = 'deadline_perception.extras'
LOADERS = {
    MULTI_PATH: 'deadline_perception.networks.multi_path.checkpoint:load_detector',
    'yolox': 'deadline_perception.networks.yolox.checkpoint:load_yolox',
    'nested_classifier': f'{_EXTRAS}.several_networks.classifier.checkpoint:load_classifier',
    ELASTIC: f'{_EXTRAS}.elastic.checkpoint:load_elastic',
    EXPORT: f'{_EXTRAS}.external_models.model_set.exported_model:load_exported',
    SET: f'{_EXTRAS}.external_models.model_set.set_file:load_set',
}


def weights_kind(metadata: Mapping[str, str]) -> str:
    """The kind of network that a weights file says it holds; the multi-path detector where it says none that is known.

    Args:
        metadata: of its header.
    """
    if _ELASTIC_KEY in metadata:
        return ELASTIC
    kind = metadata.get('kind', MULTI_PATH)
    return kind if kind in LOADERS else MULTI_PATH


def load_kind(kind: str, file: Path, *options: str | Sequence[str]) -> Network:
    """The network of a file of that kind; imports what loads it.

    Args:
        kind: one of `LOADERS`.
        file: weights, exported network or set.
        options: device, and for a set the engine, for an exported network its classes.

    Raises:
        DeadlinePerceptionError: it cannot be used.
    """
    module, _, function = LOADERS[kind].partition(':')
    return getattr(importlib.import_module(module), function)(file, *options)
