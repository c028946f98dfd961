"""Whether scores mean what they say: of detections with score s, a share of s should be objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.evaluation.average_precision import matched, matched_images

BINS = 10
_IOU_50 = 0  # row of COCOeval's thresholds 0.50:0.05:0.95


@dataclass(frozen=True, eq=False)
class ScoredDetections:
    """All detections of one class on some images.

    Attributes:
        scores: float64 `[N]`, in [0, 1], descending.
        hits: bool `[N]`, True where an object of the class is overlapped by at least half (IoU) that no more certain
            detection overlaps; detections on crowd regions are ignored.
        objects: known objects of the class, without crowd regions.
    """

    scores: np.ndarray
    hits: np.ndarray
    objects: int

    @property
    def calibration_error(self) -> float:
        """Expected calibration error (Guo et al. 2017, section 2): mean distance between score and share of hits over
        bins of equal width, weighed by their detections; 0 without detections."""
        return sum(count * abs(score - share) for score, share, count in self.diagram()) / max(
            1, len(self.scores)
        )

    def diagram(self) -> list[tuple[float, float, int]]:
        """Per bin that has detections: mean score, share of hits, number of detections."""
        places = np.minimum((self.scores * BINS).astype(int), BINS - 1)
        bins = [places == number for number in np.unique(places)]
        return [
            (float(self.scores[own].mean()), float(self.hits[own].mean()), int(own.sum()))
            for own in bins
        ]


def scored_detections(
    detections: Sequence[Detections],
    ground_truths: Sequence[GroundTruth],
    class_names: Sequence[str],
) -> dict[str, ScoredDetections]:
    """The detections of each class, matched with its objects image by image; arguments as of `average_precision`.

    Raises:
        ValueError: the lengths differ, or a label is no index into the class names.
    """
    evaluation = matched(detections, ground_truths, class_names)
    return {
        name: _scored(matched_images(evaluation, label) if evaluation else [])
        for label, name in enumerate(class_names)
    }


def _scored(images: list[dict | None]) -> ScoredDetections:
    scores, hits, objects = [np.zeros(0)], [np.zeros(0, bool)], 0
    for image in filter(None, images):
        counted = ~image['dtIgnore'][_IOU_50].astype(bool)
        scores.append(np.array(image['dtScores'])[counted])
        hits.append(image['dtMatches'][_IOU_50][counted] > 0)
        objects += int((~np.array(image['gtIgnore'], bool)).sum())
    order = np.argsort(-np.concatenate(scores), kind='stable')
    return ScoredDetections(np.concatenate(scores)[order], np.concatenate(hits)[order], objects)
