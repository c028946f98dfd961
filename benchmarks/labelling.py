"""`label` on images whose labels are hidden: precision and recall of the boxes that it adds, per class.

    python benchmarks/labelling.py [--models ../shared/data/public_models] [--data ../shared/data/bdd100k] [--quick]

The 500 validation images of BDD100K, which none of the public detectors saw. Weights and thresholds are chosen on 150
of them, spread evenly, as `label --data` chooses them; what is added is held against the hidden labels of the other
350, at IoU 0.5. Unsure boxes, which training takes for neither object nor background, are told apart: which of the
objects that were not added they cover.

Prints a table and writes results/labelling.json.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from own_models import public_spec
from parts.harness import PUBLIC_DATA, Run, run_script, show

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import use_threads
from deadline_perception.extras.data.class_names import relabelled, with_mapping
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.model_set.set_file import load_model
from deadline_perception.extras.training.box_fusion import (
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
DEFAULT_SCORE = 0.5


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
    _print(added)
    run.write(
        images=len(frames),
        chosen_on=len(chosen),
        teachers=[teacher.name for teacher in teachers],
        added=added,
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


def _print(added: dict[str, dict]) -> None:
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


if __name__ == '__main__':
    run_script(
        main,
        PUBLIC_DATA,
        quick='few images',
    )
