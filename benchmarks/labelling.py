"""`label` on images whose labels are hidden: precision and recall of the boxes that it adds, per class.

    python benchmarks/labelling.py [--models ../shared/data/public_models] [--data ../shared/data/bdd100k] [--quick]

The 500 validation images of BDD100K, which none of the public detectors saw. Weights and thresholds are chosen on 150
of them, spread evenly, as `label --data` chooses them; what is added is held against the hidden labels of the other
350, at IoU 0.5. Unsure boxes, which training takes for neither object nor background, are told apart: which of the
objects that were not added they cover.

Compared on the same images are each detector alone, weighted box fusion with all detectors alike and with weights of
their AP50 to several powers, and suppression with votes (the box of the most certain detector, the score as in fusion).

Prints tables and writes results/labelling.json.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from own_models import public_spec
from parts.harness import PUBLIC_DATA, Run, run_script, show

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import use_threads
from deadline_perception.core.records import GroundTruth
from deadline_perception.extras.data.class_names import relabelled, with_mapping
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.model_set.set_file import load_model
from deadline_perception.extras.training import score_thresholds
from deadline_perception.extras.training.box_fusion import (
    SAME_OBJECT_IOU,
    fuse,
    intersection_over_union,
)
from deadline_perception.extras.training.label_log import LabelLog, SeenImage
from deadline_perception.extras.training.labelling import (
    LabelJob,
    Teacher,
    judge,
    new_boxes,
    see_all,
)
from deadline_perception.extras.training.score_thresholds import (
    choose_threshold,
    detections_of,
    objects_of,
    scored,
)
from deadline_perception.tools.model_conventions import TrialImages, find_conventions

CLASSES = ('vehicle', 'person', 'bike', 'motorbike')
NAMES = {
    'car': 'vehicle',
    'bus': 'vehicle',
    'truck': 'vehicle',
    'rider': 'person',
    'motor': 'motorbike',
    'bicycle': 'bike',
    'motorcycle': 'motorbike',
}
TEACHERS = {
    'person-vehicle-bike-detection-2003.xml': ('vehicle', 'person', 'non-vehicle'),
    'deimv2_hgnetv2_femto_coco.onnx': COCO_NAMES,
    'yolox_nano.onnx': COCO_NAMES,
}
CHOSEN_ON = 150
POWERS = (0, 1, 2, 3, 4)
DEFAULT_SCORE = 0.5

Fusion = Callable[[Sequence[Detections], np.ndarray], Detections]


def main(run: Run) -> None:
    args = run.args
    use_threads(1)
    teachers = _teachers(args)
    sequence = with_mapping(open_source(str(args.data / 'val.json')), NAMES)
    frames = annotated_frames(sequence, 40 if run.quick else None)
    known = [relabelled(frame.ground_truth, sequence.class_names, CLASSES) for frame in frames]
    with tempfile.TemporaryDirectory() as folder:
        log = LabelLog(Path(folder) / 'log', ['labelling'])
        see_all(
            log,
            [LabelJob(frame, frozenset()) for frame in frames],
            teachers,
            report=lambda done, *_: (
                done % 100 or print(f'{done} of {len(frames)} images', flush=True)
            ),
        )
        seen = list(log)
        log.close()
    chosen = {int((number + 0.5) * len(frames) / CHOSEN_ON) for number in range(CHOSEN_ON)}
    chosen = {number for number in range(len(frames)) if number % 3 == 0} if run.quick else chosen
    added = _added(teachers, frames, known, seen, chosen)
    ways = _ways(teachers, known, seen, chosen)
    _print(added, ways)
    run.write(
        images=len(frames),
        chosen_on=len(chosen),
        teachers=[teacher.name for teacher in teachers],
        added=added,
        ways=ways,
    )


def _teachers(args: argparse.Namespace) -> list[Teacher]:
    trial = TrialImages.of(with_mapping(open_source(str(args.data / 'train.json')), NAMES))
    teachers = []
    for file, classes in TEACHERS.items():
        spec = public_spec(args.models / file, classes, NAMES)
        found = find_conventions(spec, trial)
        print(f'{file}: {found.words}', flush=True)
        network = load_model(found.spec)
        places = [CLASSES.index(name) if name in CLASSES else -1 for name in network.class_names]
        teachers.append(Teacher(spec.name, network, np.array(places, np.int64)))
    return teachers


def _added(
    teachers: list[Teacher],
    frames: list,
    known: list[GroundTruth],
    seen: list[SeenImage],
    chosen: set[int],
) -> dict[str, dict]:
    """What `label` adds to the images that nothing was chosen on, per class, against what was hidden."""
    every = frozenset(range(len(CLASSES)))
    jobs = [
        LabelJob(replace(frame, ground_truth=truth), every, measures=number in chosen)
        for number, (frame, truth) in enumerate(zip(frames, known))
    ]
    judgement = judge(seen, jobs, teachers, len(CLASSES), DEFAULT_SCORE)
    others = [number for number in range(len(frames)) if number not in chosen]
    new = [
        new_boxes(
            fuse(seen[number].found, judgement.weights), None, frozenset(), judgement.thresholds
        )
        for number in others
    ]
    sure = [
        Detections(one.boxes_xyxy_px[~unsure], one.scores[~unsure], one.labels[~unsure])
        for one, unsure in new
    ]
    rows = {}
    for label, name in enumerate(CLASSES):
        threshold = judgement.thresholds[label]
        objects = [objects_of(known[number], label) for number in others]
        measured = scored([detections_of(one, label) for one in sure], objects)
        of_class = [detections_of(one, label) for one, _ in new]
        covered = sum(
            int(
                (intersection_over_union(mine.boxes_xyxy_px[~mine.crowd], one.boxes_xyxy_px) >= 0.5)
                .any(1)
                .sum()
            )
            for mine, one in zip(objects, of_class)
        )
        hits, boxes = int(measured.hits.sum()), len(measured.hits)
        rows[name] = {
            'threshold': threshold.score,
            'chosen_objects': threshold.objects,
            'chosen_precision': threshold.precision,
            'chosen_recall': threshold.recall,
            'objects': measured.objects,
            'added': boxes,
            'unsure': sum(map(len, of_class))
            - sum(int((one.labels == label).sum()) for one in sure),
            'precision': hits / boxes if boxes else None,
            'recall': hits / measured.objects if measured.objects else None,
            'recall_with_unsure': covered / measured.objects if measured.objects else None,
            'weights': [round(float(weight), 5) for weight in judgement.weights[:, label]],
        }
    return rows


def _ways(
    teachers: list[Teacher], known: list[GroundTruth], seen: list[SeenImage], chosen: set[int]
) -> dict:
    """AP50, and F1 at the threshold that was chosen, of every way to bring detectors together, on the other images."""
    ways: dict[str, tuple[Fusion, int, tuple[int, ...]]] = {
        f'{teacher.name} alone': (fuse, 0, (number,)) for number, teacher in enumerate(teachers)
    }
    every = tuple(range(len(teachers)))
    ways |= {f'fusion, power {power}': (fuse, power, every) for power in POWERS}
    ways |= {
        f'suppression with votes, power {power}': (suppressed, power, every) for power in POWERS
    }
    result: dict[str, dict] = {}
    before = score_thresholds.WEIGHT_POWER
    try:
        for way, (bring, power, members) in ways.items():
            score_thresholds.WEIGHT_POWER = power
            result[way] = {
                name: _reached(bring, members, label, teachers, known, seen, chosen)
                for label, name in enumerate(CLASSES)
            }
    finally:
        score_thresholds.WEIGHT_POWER = before
    return result


def _reached(
    bring: Fusion,
    members: tuple[int, ...],
    label: int,
    teachers: list[Teacher],
    known: list[GroundTruth],
    seen: list[SeenImage],
    chosen: set[int],
) -> dict | None:
    knows = np.array([label in teachers[number].labels for number in members])
    if not knows.any():
        return None
    found = [[detections_of(image.found[number], label) for number in members] for image in seen]
    objects = [objects_of(truth, label) for truth in known]
    mine = sorted(chosen)
    others = [number for number in range(len(seen)) if number not in chosen]
    by_detector = [[found[image][place] for image in mine] for place in range(len(members))]
    weights = score_thresholds.detector_weights(
        by_detector, [objects[image] for image in mine], knows
    )[:, None]
    fused = [bring(image, weights) for image in found]
    threshold = choose_threshold(
        scored([fused[n] for n in mine], [objects[n] for n in mine]), DEFAULT_SCORE
    )
    ap50 = average_precision(
        [fused[n] for n in others], [objects[n] for n in others], ('object',)
    ).ap50
    row = {'ap50': None if ap50 is None else round(100 * ap50, 1), 'threshold': threshold.score}
    if threshold.score is not None:
        measured = scored(
            [fused[n].with_score(threshold.score) for n in others], [objects[n] for n in others]
        )
        hits = int(measured.hits.sum())
        row |= {
            'precision': round(hits / max(1, len(measured.hits)), 3),
            'recall': round(hits / max(1, measured.objects), 3),
            'f1': round(2 * hits / max(1, len(measured.hits) + measured.objects), 3),
        }
    return row


def suppressed(found: Sequence[Detections], weights: np.ndarray) -> Detections:
    """What `fuse` finds, with the same scores, but each box that of the detector whose vote for it is largest."""
    fused = fuse(found, weights)
    seen = np.concatenate([one.boxes_xyxy_px for one in found])
    votes = np.concatenate(
        [one.scores * weights[number, one.labels] for number, one in enumerate(found)]
    )
    labels = np.concatenate([one.labels for one in found])
    boxes = []
    for box, label in zip(fused.boxes_xyxy_px, fused.labels):
        near = (intersection_over_union(box[None], seen)[0] >= SAME_OBJECT_IOU) & (labels == label)
        boxes.append(seen[np.where(near, votes, -1.0).argmax()] if near.any() else box)
    return Detections(np.array(boxes).reshape(-1, 4), fused.scores, fused.labels)


def _print(added: dict[str, dict], ways: dict) -> None:
    columns = (
        'objects',
        'added',
        'unsure',
        'threshold',
        'precision',
        'recall',
        'recall_with_unsure',
    )
    show(
        'boxes that label adds, against what was hidden',
        ('class', *columns),
        [(name, *(row[key] for key in columns)) for name, row in added.items()],
    )
    show(
        'AP50, and F1 at the chosen threshold, on the other images',
        ('way', *CLASSES),
        [
            (
                way,
                *(
                    None if one is None else f'{one["ap50"]:.1f}  {one.get("f1", 0.0):.2f}'
                    for one in row.values()
                ),
            )
            for way, row in ways.items()
        ],
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            **PUBLIC_DATA,
        },
        quick='few images',
    )
