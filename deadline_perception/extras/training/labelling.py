"""Missing labels from detectors: what they see in each image, how far they are to be believed, and what is added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.opencv import cv2
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.data.records import Frame, GroundTruth
from deadline_perception.extras.training.box_fusion import fuse, intersection_over_union
from deadline_perception.extras.training.label_log import LabelLog, SeenImage
from deadline_perception.extras.training.score_thresholds import (
    LEAST_PRECISION,
    ScoreThreshold,
    choose_threshold,
    detections_of,
    detector_weights,
    objects_of,
    scored,
)

_LEAST_SCORE = 0.03  # of a detection that is kept until the thresholds are known
_SAME_PLACE_IOU = 0.8  # from which on two boxes of different classes are one object, of the class that is known better
_LEAST_SIDE_PX = 1.0  # of a box that is added; others are what is left of boxes at the image's edge
_JPEG_QUALITY = 95
_MOST_GONE = (
    10  # images in a row whose files cannot be opened, from which on the data are taken to be gone
)


class LabellingError(DeadlinePerceptionError):
    """Nothing can be labelled, and why."""


@dataclass(frozen=True, eq=False)
class Teacher:
    """A detector and what its labels mean.

    Attributes:
        name: what it is called.
        network: gives `Detections`; its largest path runs.
        labels: int64, for each class of the network the place in the classes to label, -1 for one not asked for.
    """

    name: str
    network: Network
    labels: np.ndarray

    def detect(self, image_bgr: np.ndarray) -> Detections:
        """The objects of wanted classes in an image uint8 `[H, W, 3]`, labels as places in the classes to label."""
        found = (
            self.network.start(image_bgr, self.network.path_space.largest)
            .finish()
            .with_score(_LEAST_SCORE)
        )
        labels = self.labels[found.labels]
        kept = labels >= 0
        return Detections(found.boxes_xyxy_px[kept], found.scores[kept], labels[kept])


@dataclass(frozen=True, eq=False)
class LabelJob:
    """One image of a run.

    Attributes:
        frame: labels of its ground truth index the classes of the run.
        marked: places of the classes whose objects are all known in it.
        file_name: of the image in the COCO file; empty for one that thresholds alone are chosen on.
        copy: file that its pixels are written to; None where the image is a file already.
        measures: whether thresholds are chosen on it.
    """

    frame: Frame
    marked: frozenset[int]
    file_name: str = ''
    copy: Path | None = None
    measures: bool = False


def see_all(
    log: LabelLog,
    jobs: Sequence[LabelJob],
    teachers: Sequence[Teacher],
    *,
    report: Callable[[int, LabelJob, SeenImage], None],
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Runs the teachers on the images that the log does not have yet; an image that cannot be read is noted.

    Args:
        report: called with the number of images that are done, and the last of them.
        stop: asked before each image; the first True ends the run.

    Returns:
        whether all images are done.

    Raises:
        LabellingError: the files are gone; the log ends with the last image that was there.
    """
    gone: list[SeenImage] = []  # in a row; noted once a later image shows that the others are there
    for job in islice(jobs, log.count, None):
        if stop():
            return False
        seen, is_gone = _see(job, teachers)
        gone.append(seen)
        if len(gone) > _MOST_GONE and is_gone:
            break
        if not is_gone:
            _note(log, gone)
        report(log.count + len(gone), job, seen)
    if len(gone) > _MOST_GONE or gone and not log.count:
        raise LabellingError(
            f'{len(gone)} images in a row cannot be opened, the last: {gone[-1].unreadable}; expected '
            f'the data to stay where they are. The same command goes on once they are back'
        )
    _note(log, gone)
    return True


def _note(log: LabelLog, seen: list[SeenImage]) -> None:
    for one in seen:
        log.add(one)
    seen.clear()


def _see(job: LabelJob, teachers: Sequence[Teacher]) -> tuple[SeenImage, bool]:
    """What is seen, and whether the file of the image cannot even be opened."""
    try:
        image = job.frame.load_bgr()
    except (ValueError, OSError, DeadlinePerceptionError, cv2.error) as error:
        return (
            SeenImage((0, 0), (), printable(error) or type(error).__name__),
            isinstance(error.__cause__ or error, OSError),
        )
    if job.copy is not None:
        _write_image(job.copy, image)
    return SeenImage(
        image.shape[1::-1], tuple(teacher.detect(image) for teacher in teachers)
    ), False


def _write_image(file: Path, image: np.ndarray) -> None:
    coded, data = cv2.imencode(file.suffix, image, (cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY))
    if not coded:
        raise LabellingError(
            f'an image of {image.shape[1]} x {image.shape[0]} px cannot be written to {file}'
        )
    replace_file(file, data.tobytes())


@dataclass(frozen=True, eq=False)
class Judgement:
    """How far the teachers are to be believed.

    Attributes:
        weights: float `[M, C]` of teachers by class, see `fuse`.
        thresholds: by place of the class, of those that a teacher knows.
    """

    weights: np.ndarray
    thresholds: dict[int, ScoreThreshold]

    @property
    def labelled(self) -> frozenset[int]:
        """Places of the classes that are labelled."""
        return frozenset(
            label for label, threshold in self.thresholds.items() if threshold.score is not None
        )


def judge(
    log: LabelLog,
    jobs: Sequence[LabelJob],
    teachers: Sequence[Teacher],
    classes: int,
    default: float,
    least_precision: float = LEAST_PRECISION,
) -> Judgement:
    """Weighs the teachers and chooses a threshold per class, on the images that measure and mark the class.

    Args:
        log: with all images; `jobs` and `teachers` are those that it was made of.
        classes: number of classes to label.
        default: threshold of a class without enough known objects.
        least_precision: of a threshold that is chosen, in (0, 1].
    """
    measuring = [
        (job, seen) for seen, job in zip(log, jobs) if job.measures and not seen.unreadable
    ]
    knows = np.array(
        [[label in teacher.labels for label in range(classes)] for teacher in teachers]
    )
    weights = np.zeros(knows.shape)
    thresholds = {}
    for label in np.flatnonzero(knows.any(0)).tolist():
        images = [(job, seen) for job, seen in measuring if label in job.marked]
        known = [objects_of(job.frame.ground_truth, label) for job, _ in images]
        found = [[detections_of(one, label) for one in seen.found] for _, seen in images]
        by_teacher = [[image[number] for image in found] for number in range(len(teachers))]
        weights[:, label] = detector_weights(by_teacher, known, knows[:, label])
        fused = [fuse(image, weights[:, label : label + 1]) for image in found]
        thresholds[label] = choose_threshold(scored(fused, known), default, least_precision)
    return Judgement(weights, thresholds)


def new_boxes(
    found: Detections,
    known: GroundTruth | None,
    marked: frozenset[int],
    thresholds: dict[int, ScoreThreshold],
) -> tuple[Detections, np.ndarray]:
    """The boxes that are added to an image, and which of them are unsure.

    Those below a class's threshold, but not below its unsure score, are neither object nor background. A box that
    covers a known object of another class, or a likelier one, is that object.

    Args:
        found: all boxes, most certain first.
        known: objects of the image; None without.
        marked: classes whose objects are all known.
        thresholds: by class; a class without is not added to.

    Returns:
        the boxes; bool `[N]`, True for unsure ones.
    """
    kept: list[int] = []
    taken = np.zeros((0, 4)) if known is None else known.boxes_xyxy_px[~known.crowd]
    for index, (box, score, label) in enumerate(
        zip(found.boxes_xyxy_px, found.scores, found.labels)
    ):
        if label in marked or label not in thresholds or score < thresholds[label].unsure_score:
            continue
        if (box[2:] - box[:2]).min() < _LEAST_SIDE_PX:
            continue
        if not (intersection_over_union(box[None], taken) >= _SAME_PLACE_IOU).any():
            kept.append(index)
            taken = np.concatenate((taken, box[None]))
    added = Detections(found.boxes_xyxy_px[kept], found.scores[kept], found.labels[kept])
    unsure = [score < thresholds[label].score for score, label in zip(added.scores, added.labels)]
    return added, np.array(unsure, bool)
