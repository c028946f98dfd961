"""Loads whatever network a file describes: weights of any kind that the package can build, or a set of models."""
from __future__ import annotations

from pathlib import Path

SET_SUFFIXES = ('.yaml', '.yml')


def is_set(file: Path) -> bool:
    """Whether a file describes a set of models, which have engines and profiles of their own."""
    return Path(file).suffix in SET_SUFFIXES


def load_weights(weights: Path, device: str = 'cpu', engine: str = 'auto'):
    """The network that a file describes, in evaluation mode; the file itself says which kind it is.

    Args:
        weights: safetensors file, or set of models.
        device: `cpu`, `cuda` or `cuda:INDEX`.
        engine: of the models of a set, one of `ENGINES`.

    Raises:
        CheckpointError: the file is missing, damaged, or holds a network of no known kind.
        ModelError: a model of a set cannot be used.
        DeviceNotFound: the device is not there.
        ValueError: no kind of device has that name.
    """
    if is_set(weights):
        from deadline_perception.model_set.set_file import load_set

        return load_set(Path(weights), device, engine)
    from deadline_perception.classifier import checkpoint
    from deadline_perception.detector.checkpoint import load_detector, read_metadata
    from deadline_perception.subnetwork.checkpoint import is_elastic, load_elastic

    if is_elastic(weights):
        return load_elastic(weights, device)
    if read_metadata(Path(weights))[0].get('kind') == checkpoint.KIND:
        return checkpoint.load_classifier(weights, device)
    return load_detector(weights, device)
