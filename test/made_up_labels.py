"""Boxes of detectors, known objects, and images to label, from a few numbers."""

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.records import Frame, GroundTruth
from deadline_perception.extras.training.label_log import LabelLog, SeenImage
from deadline_perception.extras.training.labelling import LabelJob
from deadline_perception.extras.training.targets import TargetObjects

NAMES = ('vehicle', 'person', 'sign')
VEHICLE, PERSON, SIGN = range(3)


def found(*rows) -> Detections:
    """Detections of rows of left, top, right, bottom, score, label."""
    table = np.array(rows, float).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5].astype(int))


def known(*rows) -> GroundTruth:
    """Objects of rows of left, top, right, bottom, label, crowd."""
    table = np.array(rows, float).reshape(-1, 6)
    return GroundTruth(table[:, :4], table[:, 4].astype(int), table[:, 5] > 0)


def target_objects(boxes=(), labels=(), crowd=(), named=(True, True)) -> TargetObjects:
    """Objects to be learnt, of two classes."""
    return TargetObjects(
        np.float32(boxes).reshape(-1, 4),
        np.int64(labels),
        np.float32(crowd).reshape(-1, 4),
        np.array(named),
    )


def log_of(folder, *seen: SeenImage) -> LabelLog:
    """A log with those images in it."""
    log = LabelLog(folder / 'labels.json.partial', ['test'])
    for one in seen:
        log.add(one)
    return log


def job(number, ground_truth=None, marked=(), name='', measures=False) -> LabelJob:
    """An image of 90 x 60 px."""
    frame = Frame(
        f'frame{number}', number, lambda: np.zeros((60, 90, 3), np.uint8), ground_truth=ground_truth
    )
    return LabelJob(frame, frozenset(marked), name, None, measures)
