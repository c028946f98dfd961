"""Loads a weights file of whichever kind of network the package can build."""
from __future__ import annotations

from pathlib import Path


def load_weights(weights: Path, device: str = 'cpu'):
    """The network that a weights file describes, in evaluation mode; the file itself says which kind it is.

    Raises:
        CheckpointError: the file is missing, damaged, or holds a network of no known kind.
        DeviceNotFound: the device is not there.
        ValueError: no kind of device has that name.
    """
    from deadline_perception.classifier import checkpoint
    from deadline_perception.detector.checkpoint import load_detector, read_metadata
    from deadline_perception.subnetwork.checkpoint import is_elastic, load_elastic

    if is_elastic(weights):
        return load_elastic(weights, device)
    if read_metadata(Path(weights))[0].get('kind') == checkpoint.KIND:
        return checkpoint.load_classifier(weights, device)
    return load_detector(weights, device)
