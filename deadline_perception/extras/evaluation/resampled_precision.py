"""Average precision had other images of the same kind been drawn: how far chance in the choice of images reaches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.evaluation.average_precision import matched, matched_images

RUN_OF_IMAGES = (
    8  # neighbours in a list of driving images resemble each other, so that runs of them are drawn
)


def bootstrap_draws(images: int, draws: int, seed: int = 0) -> np.ndarray:
    """How often each image is drawn, with replacement as many as there are: int64 `[draws, images]`.

    Drawn are runs of `RUN_OF_IMAGES` neighbours, or fewer where there are not four runs of so many, the first image
    following the last, the last run cut off where all have been drawn.
    Give the same draws to two sets of detections, and their difference varies less than either.

    Args:
        images: number of images, in the order in which neighbours resemble each other.
        draws: number of draws.
        seed: of the draws.

    Raises:
        ValueError: a count is below 1.
    """
    if min(images, draws) < 1:
        raise ValueError(f'{draws} draws of {images} images, expected at least 1 of each')
    run = max(1, min(RUN_OF_IMAGES, images // 4))
    begins = np.random.default_rng(seed).integers(images, size=(draws, -(-images // run)))
    drawn = ((begins[:, :, None] + np.arange(run)) % images).reshape(draws, -1)[:, :images]
    return np.stack([np.bincount(row, minlength=images) for row in drawn])


def resampled_ap(
    detections: Sequence[Detections],
    ground_truths: Sequence[GroundTruth],
    class_names: Sequence[str],
    draws: np.ndarray,
    classes: Sequence[str] | None = None,
    only_50: bool = False,
) -> np.ndarray:
    """Average precision over IoU thresholds 0.50:0.05:0.95 and classes, image i counted `draws[d, i]` times.

    Equals `average_precision`, which has the same first arguments, of the images repeated so often, without matching
    them again.

    Args:
        draws: int `[D, images]`, >= 0.
        classes: names of the only classes to score; None scores all.
        only_50: the threshold 0.50 alone, which gives AP50.

    Returns:
        float64 `[D]`, in [0, 1]; NaN where no object of the classes was drawn.

    Raises:
        ValueError: the lengths differ, or a class is unknown.
    """
    if draws.ndim != 2 or draws.shape[1] != len(ground_truths):
        raise ValueError(
            f'draws have the shape {draws.shape}, expected [draws, {len(ground_truths)} images]'
        )
    scored = tuple(class_names) if classes is None else tuple(classes)
    unknown = [name for name in scored if name not in class_names]
    if unknown:
        raise ValueError(
            f'class {unknown[0]!r} is unknown, expected some of {", ".join(class_names)}'
        )
    evaluation = matched(detections, ground_truths, class_names)
    if evaluation is None:
        return np.full(len(draws), np.nan)
    table = np.array(
        [
            _class_ap(
                matched_images(evaluation, class_names.index(name)),
                draws,
                evaluation.params.recThrs,
                1 if only_50 else len(evaluation.params.iouThrs),
            )
            for name in scored
        ]
    )
    known = ~np.isnan(table)
    sums = np.where(known, table, 0.0).sum(0)
    return np.divide(sums, known.sum(0), out=np.full(len(draws), np.nan), where=known.any(0))


def _class_ap(
    images: list[dict | None], draws: np.ndarray, recalls: np.ndarray, thresholds: int
) -> np.ndarray:
    """AP of one class over the first thresholds: float64 `[D]`, NaN where no object of it was drawn."""
    objects = draws @ [
        0 if image is None else int(np.sum(np.asarray(image['gtIgnore']) == 0)) for image in images
    ]
    rows = [(image, index) for index, image in enumerate(images) if image is not None]
    scores = np.concatenate([image['dtScores'] for image, _ in rows] or [np.zeros(0)])
    result = np.where(objects > 0, 0.0, np.nan)
    if not len(scores):
        return result
    order = np.argsort(-scores, kind='mergesort')  # as COCOeval sorts, so that ties fall alike
    of_image = np.concatenate([np.full(len(image['dtScores']), index) for image, index in rows])[
        order
    ]
    hit = np.concatenate([image['dtMatches'] for image, _ in rows], 1)[:, order] > 0
    counts = ~np.concatenate([image['dtIgnore'] for image, _ in rows], 1)[:, order].astype(bool)
    weight = draws[:, of_image].astype(np.float64)
    for threshold in range(thresholds):
        true = np.cumsum(weight * (hit & counts)[threshold], 1)
        false = np.cumsum(weight * (~hit & counts)[threshold], 1)
        precision = true / np.maximum(true + false, 1.0)
        precision = np.maximum.accumulate(precision[:, ::-1], 1)[:, ::-1]
        for draw in np.flatnonzero(objects > 0):
            at = np.searchsorted(true[draw] / objects[draw], recalls, side='left')
            reached = at < len(scores)
            result[draw] += precision[draw, at[reached]].sum() / len(recalls)
    return result / thresholds
