"""Average precision of detections against known objects, by the COCO protocol (pycocotools)."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.records import GroundTruth

MAX_DETECTIONS = 100  # per image and class, COCO protocol
_IOU_50, _IOU_75 = 0, 5  # rows of COCOeval's thresholds 0.50:0.05:0.95
_ALL, _SMALL, _MEDIUM, _LARGE = range(4)  # COCO size ranges: all, under 32^2 px, to 96^2 px, above


@dataclass(frozen=True)
class ClassPrecision:
    """Average precision of one class; None where no object of it is known.

    Attributes:
        ground_truths: number of known objects, crowd regions not counted.
        ap: mean over the IoU thresholds 0.50:0.05:0.95, in [0, 1].
        ap50: at IoU 0.50.
    """

    ground_truths: int
    ap: float | None
    ap50: float | None


@dataclass(frozen=True)
class AveragePrecision:
    """Average precision over images, each figure in [0, 1] and None where no object of its kind is known.

    Attributes:
        images: number of images scored.
        ap: mean over IoU thresholds 0.50:0.05:0.95 and over the classes that occur.
        ap50: at IoU 0.50.
        ap75: at IoU 0.75.
        ap_small: objects under 32 x 32 px.
        ap_medium: objects from 32 x 32 to 96 x 96 px.
        ap_large: objects above 96 x 96 px.
        per_class: by class name, in the order of the class names.
    """

    images: int
    ap: float | None
    ap50: float | None
    ap75: float | None
    ap_small: float | None
    ap_medium: float | None
    ap_large: float | None
    per_class: dict[str, ClassPrecision]


def average_precision(
    detections: Sequence[Detections],
    ground_truths: Sequence[GroundTruth],
    class_names: Sequence[str],
) -> AveragePrecision:
    """Scores one `Detections` per image against the `GroundTruth` of the same image.

    A detection on a crowd region counts neither as hit nor as false alarm.

    Args:
        detections: one per image.
        ground_truths: one per image, in the same order.
        class_names: names that the labels of both index.

    Raises:
        ValueError: the lengths differ, or a label is no index into the class names.
    """
    evaluation = matched(detections, ground_truths, class_names)
    precision = np.full(
        (10, 101, len(class_names), 4), -1.0
    )  # IoU threshold, recall, class, size; -1: nothing known
    if evaluation is not None:
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation.accumulate()
        precision = evaluation.eval['precision'][..., 0]
    counts = [
        sum(int(((known.labels == k) & ~known.crowd).sum()) for known in ground_truths)
        for k in range(len(class_names))
    ]
    per_class = {
        name: ClassPrecision(
            counts[k], _mean(precision[:, :, k, _ALL]), _mean(precision[_IOU_50, :, k, _ALL])
        )
        for k, name in enumerate(class_names)
    }
    return AveragePrecision(
        images=len(ground_truths),
        ap=_mean(precision[..., _ALL]),
        ap50=_mean(precision[_IOU_50, ..., _ALL]),
        ap75=_mean(precision[_IOU_75, ..., _ALL]),
        ap_small=_mean(precision[..., _SMALL]),
        ap_medium=_mean(precision[..., _MEDIUM]),
        ap_large=_mean(precision[..., _LARGE]),
        per_class=per_class,
    )


def matched(
    detections: Sequence[Detections],
    ground_truths: Sequence[GroundTruth],
    class_names: Sequence[str],
    area_ranges_px2: Sequence[tuple[float, float]] | None = None,
):
    """A `COCOeval` that has matched detections with objects, image by image; None without images or classes.

    Args:
        detections, ground_truths, class_names: see `average_precision`.
        area_ranges_px2: sizes of objects that are scored apart; None: all, and those of COCO.

    Raises:
        ValueError: the lengths differ, or a label is no index into the class names.
    """
    from pycocotools.cocoeval import COCOeval

    if len(detections) != len(ground_truths):
        raise ValueError(
            f'{len(detections)} detections for {len(ground_truths)} images, expected one per image'
        )
    if not ground_truths or not class_names:
        return None
    for what, images in (('an object', ground_truths), ('a detection', detections)):
        strange = [
            label for image in images for label in image.labels if not 0 <= label < len(class_names)
        ]
        if strange:
            raise ValueError(
                f'label of {what} is {strange[0]}, expected an index into {len(class_names)} class names'
            )
    annotations = [
        {'iscrowd': int(crowd)} | _box(image_id, label, box)
        for image_id, ground_truth in enumerate(ground_truths, 1)
        for label, crowd, box in zip(
            ground_truth.labels, ground_truth.crowd, ground_truth.boxes_xyxy_px
        )
    ]
    results = [
        {'iscrowd': 0, 'score': float(score)} | _box(image_id, label, box)
        for image_id, found in enumerate(detections, 1)
        for label, score, box in zip(found.labels, found.scores, found.boxes_xyxy_px)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation = COCOeval(
            *(
                _coco(entries, len(ground_truths), class_names)
                for entries in (annotations, results)
            ),
            'bbox',
        )
        evaluation.params.maxDets = [MAX_DETECTIONS]
        if area_ranges_px2 is not None:
            evaluation.params.areaRng = [list(one) for one in area_ranges_px2]
            evaluation.params.areaRngLbl = [str(at) for at in range(len(area_ranges_px2))]
        evaluation.evaluate()
    return evaluation


def matched_images(evaluation, label: int) -> list[dict | None]:
    """What a `COCOeval` has matched of one class, objects of all sizes, image by image; None where nothing is of it."""
    images, sizes = len(evaluation.params.imgIds), len(evaluation.params.areaRng)
    begin = (
        label * sizes * images
    )  # evalImgs lies class by class, size by size, image by image; all sizes are first
    return evaluation.evalImgs[begin : begin + images]


def _box(image_id: int, label: int, box_xyxy_px: np.ndarray) -> dict:
    x, y, right, bottom = (float(value) for value in box_xyxy_px)
    return {
        'image_id': image_id,
        'category_id': int(label) + 1,
        'bbox': [x, y, right - x, bottom - y],
        'area': (right - x) * (bottom - y),
    }


def _coco(annotations: list[dict], images: int, class_names: Sequence[str]):
    from pycocotools.coco import COCO

    coco = COCO()
    coco.dataset = {
        'images': [{'id': image_id} for image_id in range(1, images + 1)],
        'categories': [{'id': k, 'name': name} for k, name in enumerate(class_names, 1)],
        'annotations': [{'id': k} | annotation for k, annotation in enumerate(annotations, 1)],
    }
    coco.createIndex()
    return coco


def _mean(precision: np.ndarray) -> float | None:
    known = precision[precision > -1]
    return float(known.mean()) if known.size else None
