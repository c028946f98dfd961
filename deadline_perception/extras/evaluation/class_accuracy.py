"""Accuracy of a classifier's execution paths on labelled images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.extras.data.class_images import ClassImages


def measure_accuracy(
    network, data: ClassImages, paths: Sequence[ExecutionPath]
) -> dict[ExecutionPath, float]:
    """Share of images whose most probable class is their own, in [0, 1], of every path; blocks meanwhile.

    Args:
        network: a classifier, with `class_names` and `start(image, path)`.
        data: images of classes that the network knows.
        paths: of the network.

    Raises:
        ValueError: a class is none of the network's.
    """
    unknown = set(data.class_names) - set(network.class_names)
    if unknown:
        raise ValueError(
            f'images are of class {min(unknown)!r}, expected one of {", ".join(network.class_names[:20])}'
        )
    labels = np.array([network.class_names.index(name) for name in data.class_names])[data.labels]
    hits = dict.fromkeys(paths, 0)
    for image, label in zip(data.images, labels):
        for path in paths:
            hits[path] += int(np.argmax(network.start(image, path).finish().scores) == label)
    return {path: count / len(data) for path, count in hits.items()}
