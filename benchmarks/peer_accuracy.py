"""Average precision of trained peers and of paths of our network on the same images, for peers.py."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from peer_networks import build, prepared
from torch import nn

from deadline_perception.datasets.class_names import relabelled
from deadline_perception.datasets.joined_sequence import joined
from deadline_perception.datasets.source import open_source
from deadline_perception.detector.detections import Detections
from deadline_perception.evaluation.average_precision import average_precision
from deadline_perception.evaluation.path_accuracy import annotated_frames, detect_on_frames, pooled_ap
from deadline_perception.execution_path import ExecutionPath

DRIVES = tuple(f'drive:seed={seed},seconds=32,rate_hz=1.5' for seed in (900, 901, 902))
VEHICLE_AND_LIGHT = ('vehicle', 'traffic_light')
LEARNT = ('steps', 'images', 'minutes', 'cpu_minutes')  # of what peer_training.py writes


class Validation:
    """Images with known objects, by which all are scored: annotated ones, then those of the drives.

    Args:
        annotated: source of the first, on which alone V+L counts.
        class_names: that labels index.
        limit: use only so many images, spread evenly; all without.
    """

    def __init__(self, annotated: str, class_names: tuple[str, ...], limit: int | None = None) -> None:
        sequences = [open_source(source) for source in (annotated, *DRIVES)]
        sequence = joined(sequences, class_names)
        self.frames = annotated_frames(sequence, limit)
        self._known = [relabelled(frame.ground_truth, sequence.class_names, class_names) for frame in self.frames]
        self._annotated = sum(frame.name.startswith('0/') for frame in self.frames)  # as `joined` names them
        self._class_names = class_names

    def scores(self, found: list[Detections]) -> dict[str, float]:
        """AP and AP50 over all classes, and V+L, in points from 0 to 100, of what was found in every image."""
        result = average_precision(found, self._known, self._class_names)
        annotated = average_precision(found[:self._annotated], self._known[:self._annotated], self._class_names)
        return {'ap': 100.0 * (result.ap or 0.0), 'ap50': 100.0 * (result.ap50 or 0.0),
                'vehicle_and_light_ap': 100.0 * pooled_ap(annotated, VEHICLE_AND_LIGHT)}


def accuracies(network, paths: dict[str, ExecutionPath], files: dict[str, Path], annotated: str,
               limit: int | None = None) -> dict[str, dict]:
    """What paths and peers reach, by name, see `Validation.scores`; of peers how they were trained, too.

    Args:
        network: ours, with the engine that runs it.
        paths: of it, by name.
        files: weights of peers by name, as peer_training.py writes them.
        annotated: source of images, see `Validation`.
        limit: see `Validation`.

    Raises:
        ValueError: a peer was trained on other classes than our network.
    """
    learnt = {name: json.loads(file.with_suffix('.json').read_text(encoding='utf-8')) for name, file in files.items()}
    for name, facts in learnt.items():
        if tuple(facts['class_names']) != network.class_names:
            raise ValueError(f'{files[name]} finds {", ".join(facts["class_names"])}, expected the classes of our '
                             f'network: {", ".join(network.class_names)}')
    validation = Validation(annotated, network.class_names, limit)
    found = detect_on_frames(network, validation.frames, list(paths.values()))
    results = {name: validation.scores(found[path]) for name, path in paths.items()}
    for name, file in files.items():
        model = build(name, len(network.class_names), file)
        scores = validation.scores([found_by_peer(model, frame.load_bgr()) for frame in validation.frames])
        results[name] = scores | {f'training_{key}': learnt[name][key] for key in LEARNT}
    return results


@torch.inference_mode()
def found_by_peer(model: nn.Module, image_bgr: np.ndarray) -> Detections:
    """What a peer finds in an image uint8 `[H, W, 3]`, its labels as ours: from 0."""
    found = model([prepared(image_bgr)[0]])[0]
    return Detections(found['boxes'].numpy(), found['scores'].numpy(), found['labels'].numpy() - 1)
