"""From which score on a detector's box of a class is taken for an object, chosen on annotated images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.evaluation.reliability import ScoredDetections, scored_detections

LEAST_PRECISION = 0.5  # of a threshold, unless more is asked for
LEAST_OBJECTS = 30  # of a class: with fewer, a threshold is chosen by chance
UNSURE_SHARE = 0.4  # of the threshold, from which on a box is neither object nor background
# A detector's word counts with its AP50 to this power: with all alike, the better one is outvoted by the worse.
WEIGHT_POWER = 3  # measured: benchmarks/labelling.py of commit 68d0af47
_ONE_CLASS = ('object',)


@dataclass(frozen=True)
class ScoreThreshold:
    """What becomes of a class's boxes.

    Attributes:
        score: least score of a box that is an object, in (0, 1]; None where no threshold is precise enough.
        objects: known ones that it was chosen on; 0 where it is a default.
        precision: share of the boxes from there on that are objects (IoU at least 0.5); None for a default.
        recall: share of the objects that they find; None for a default.

    Raises:
        ValueError: the score is not in (0, 1].
    """

    score: float | None
    objects: int = 0
    precision: float | None = None
    recall: float | None = None

    def __post_init__(self) -> None:
        if self.score is not None and not 0.0 < self.score <= 1.0:
            raise ValueError(f'threshold is {self.score}, expected a score in (0, 1]')

    @property
    def unsure_score(self) -> float:
        """Least score of a box that may be an object; above 1 where the class is not labelled."""
        return 2.0 if self.score is None else UNSURE_SHARE * self.score


def scored(found: Sequence[Detections], known: Sequence[GroundTruth]) -> ScoredDetections:
    """Boxes and objects of one class, label 0, matched image by image."""
    return scored_detections(found, known, _ONE_CLASS)[_ONE_CLASS[0]]


def _objects(known: Sequence[GroundTruth]) -> int:
    return sum(int((~one.crowd).sum()) for one in known)


def detections_of(found: Detections, label: int) -> Detections:
    """The boxes of one class, with label 0."""
    kept = found.labels == label
    return Detections(found.boxes_xyxy_px[kept], found.scores[kept], np.zeros(kept.sum()))


def objects_of(known: GroundTruth, label: int) -> GroundTruth:
    """The objects of one class, with label 0."""
    kept = known.labels == label
    return GroundTruth(known.boxes_xyxy_px[kept], np.zeros(kept.sum()), known.crowd[kept])


def choose_threshold(
    measured: ScoredDetections, default: float, least_precision: float = LEAST_PRECISION
) -> ScoreThreshold:
    """The score of largest F1 among those of enough precision; the default with too few objects."""
    if measured.objects < LEAST_OBJECTS:
        return ScoreThreshold(default)
    if not len(measured.scores):
        return ScoreThreshold(None, measured.objects, 0.0, 0.0)
    hits = measured.hits.cumsum()
    precision, recall = hits / np.arange(1, len(hits) + 1), hits / measured.objects
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + measured.objects)
    ends = np.append(
        measured.scores[1:] < measured.scores[:-1], True
    )  # boxes of one score come together
    allowed = ends & (precision >= least_precision) & (hits > 0)
    if not allowed.any():
        best = int(f1.argmax())
        return ScoreThreshold(None, measured.objects, float(precision[best]), float(recall[best]))
    best = int(np.where(allowed, f1, -1.0).argmax())
    return ScoreThreshold(
        float(measured.scores[best]), measured.objects, float(precision[best]), float(recall[best])
    )


def detector_weights(
    found: Sequence[Sequence[Detections]], known: Sequence[GroundTruth], knows: np.ndarray
) -> np.ndarray:
    """How much each detector's word counts for one class, label 0.

    Args:
        found: by detector, then by image.
        known: by image.
        knows: bool `[M]`, which detectors know the class.

    Returns:
        float `[M]`: AP50 to the power of `WEIGHT_POWER`, 0 for those that do not know it; 1 where too few objects tell.
    """
    if knows.sum() < 2 or _objects(known) < LEAST_OBJECTS:
        return knows.astype(float)
    precisions = [average_precision(of_one, known, _ONE_CLASS).ap50 or 0.0 for of_one in found]
    weights = np.where(knows, precisions, 0.0) ** WEIGHT_POWER
    return weights if weights.any() else knows.astype(float)
