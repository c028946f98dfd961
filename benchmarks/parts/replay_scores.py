"""Average precision of answers that are drawn again and again from recorded ones, and how late frames cluster.

What each answer to each image hits is matched once (pycocotools). Scores then fall into bins, so that the precision of
any mixture of answers, and of any draw of images, is a few sums: an answer that was given n times counts n times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.evaluation.average_precision import matched, matched_images
from deadline_perception.extras.evaluation.resampled_precision import bootstrap_draws
from parts.real_images import CLASSES
from parts.replay_recording import KINDS

BINS = 200  # of scores, each with as many detections
LEAST_OBJECTS = 20  # of a class, for a kind to be scored by it
DRAWS = 200
_EVERYTHING = ((0.0, 1e10),)  # sizes of objects in px2


@dataclass(frozen=True, eq=False)
class ClassHits:
    """Detections of one class that count, of all images and answers of one kind.

    Attributes:
        objects: known ones, by image: `[images]`.
        begins: where those of each image and answer begin: `[images * answers + 1]`.
        bins: of their scores, the most certain first: `[N]`.
        hits: which thresholds of overlap they pass: bool `[10, N]`.
    """

    objects: np.ndarray
    begins: np.ndarray
    bins: np.ndarray
    hits: np.ndarray


class KindScores:
    """Scores mixtures of answers to the images of one kind.

    Args:
        answers: of every image all answers, labels index `CLASSES`: `[answers][images]`.
    """

    def __init__(
        self,
        kind: str,
        answers: Sequence[Sequence[Detections]],
        truths: Sequence[GroundTruth],
    ) -> None:
        self.images, self.answers = len(truths), len(answers)
        self.draws = np.concatenate(
            [np.ones((1, self.images), np.int64), bootstrap_draws(self.images, DRAWS)]
        ).astype(np.float64)
        labels = [CLASSES.index(name) for name in KINDS[kind][1]]
        counts = {
            label: np.array([int(((one.labels == label) & ~one.crowd).sum()) for one in truths])
            for label in labels
        }
        enough = [label for label in labels if counts[label].sum() >= LEAST_OBJECTS]
        self.classes = tuple(CLASSES[label] for label in enough)
        tables: dict[int, list[list[dict | None]]] = {label: [] for label in enough}
        for found in answers if enough else ():
            evaluation = matched(found, truths, CLASSES, _EVERYTHING)
            for label in enough:
                tables[label].append(matched_images(evaluation, label))
        self._hits = [_class_hits(tables[label], counts[label]) for label in enough]

    def precision(self, given: np.ndarray, draws: int = DRAWS) -> np.ndarray:
        """AP in the mean of the classes; of all images first, then of each draw: float64 `[1 + draws]`, in [0, 1].

        Args:
            given: how often each image got each answer, and in the last column none: `[images, answers + 1]`.
            draws: that are scored, at most `DRAWS`.
        """
        drawn = self.draws[: 1 + draws]
        return np.mean([self._class_precision(hits, given, drawn) for hits in self._hits], axis=0)

    def _class_precision(self, hits: ClassHits, given: np.ndarray, draws: np.ndarray) -> np.ndarray:
        objects = draws @ (hits.objects * given.sum(1))
        weights = given[:, :-1].reshape(-1)
        used = np.flatnonzero(weights)
        lengths = hits.begins[used + 1] - hits.begins[used]
        rows = np.repeat(hits.begins[used] - np.cumsum(lengths) + lengths, lengths) + np.arange(
            lengths.sum()
        )
        places = np.repeat(used // self.answers, lengths) * BINS + hits.bins[rows]
        weight = np.repeat(weights[used], lengths).astype(np.float64)
        found = np.cumsum(draws @ self._histogram(places, weight), axis=1)
        total = np.zeros(len(objects))
        for passed in hits.hits:
            true = np.cumsum(draws @ self._histogram(places, weight * passed[rows]), axis=1)
            total += _area(true, found, objects)
        return total / len(hits.hits)

    def _histogram(self, places: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.bincount(places, weight, self.images * BINS).reshape(self.images, BINS)


def _area(true: np.ndarray, found: np.ndarray, objects: np.ndarray) -> np.ndarray:
    """Area under the curves of precision, made never to rise, over recall: `[draws]`.

    Args:
        true, found: hits and detections down to each bin, `[draws, bins]`.
        objects: known ones, `[draws]`; a draw without any has no precision, and gives 0.
    """
    precision = true / np.maximum(found, 1e-9)
    precision = np.maximum.accumulate(precision[:, ::-1], 1)[:, ::-1]
    gained = np.diff(true, axis=1, prepend=0.0)
    return (precision * gained).sum(1) / np.maximum(objects, 1e-9)


def _class_hits(table: Sequence[Sequence[dict | None]], objects: np.ndarray) -> ClassHits:
    """Of what was matched, `[answers][images]`."""
    scores, hits, lengths = [], [], []
    for image in range(len(objects)):
        for of_answer in table:
            one = of_answer[image]
            if one is None or not len(one['dtScores']):
                lengths.append(0)
                continue
            counts = ~np.asarray(one['dtIgnore']).astype(bool).any(0)
            scores.append(np.asarray(one['dtScores'])[counts])
            hits.append(np.asarray(one['dtMatches'])[:, counts] > 0)
            lengths.append(int(counts.sum()))
    all_scores = np.concatenate(scores) if scores else np.zeros(0)
    edges = np.quantile(all_scores, np.linspace(0, 1, BINS + 1)[1:-1]) if scores else np.zeros(0)
    return ClassHits(
        objects,
        np.concatenate([[0], np.cumsum(lengths)]),
        BINS - 1 - np.searchsorted(edges, all_scores, 'right'),
        np.concatenate(hits, 1) if hits else np.zeros((10, 0), bool),
    )


def overall(
    scores: Mapping[str, KindScores], given: Mapping[str, np.ndarray], draws: int = DRAWS
) -> np.ndarray:
    """AP in the mean of the kinds: `[1 + draws]`."""
    return np.mean(
        [one.precision(given[kind], draws) for kind, one in scores.items() if one.classes], axis=0
    )


def share(part: np.ndarray, whole: np.ndarray) -> float | None:
    """Of frames in `whole` those that are also in `part`, both bool `[frames]`; None where there are none."""
    return float(part[whole].mean()) if whole.any() else None


def after_late(late: np.ndarray) -> float | None:
    """Share of late frames right after a late one, of bool `[frames]`; None where none is late."""
    return share(late[1:], late[:-1])


def longest_run(late: np.ndarray) -> int:
    """Most late frames in a row, of bool `[frames]`."""
    ends = np.flatnonzero(np.diff(np.concatenate([[0], late.astype(np.int8), [0]])))
    return int((ends[1::2] - ends[::2]).max(initial=0))


def interval(draws: np.ndarray) -> tuple[float, float]:
    """95 % of draws."""
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)
