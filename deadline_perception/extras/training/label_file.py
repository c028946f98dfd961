"""Known boxes and those of detectors, written as one COCO file.

Boxes that are known stay as they are, and nothing is added to a class that an image's source marks.
"""

from __future__ import annotations

import json
import mmap
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np

from deadline_perception.core.replaced_file import replace_file
from deadline_perception.extras.training.box_fusion import fuse
from deadline_perception.extras.training.label_log import LabelLog, SeenImage
from deadline_perception.extras.training.labelling import (
    Judgement,
    LabelJob,
    LabellingError,
    new_boxes,
)
from deadline_perception.extras.training.line_log import named_errors


@dataclass
class LabelCounts:
    """What was written.

    Attributes:
        images: in the file.
        empty: of them without any object; they may have unsure boxes.
        unreadable: reasons by image name, of those dropped.
        kept, added, unsure: boxes by class: known ones, new ones, and those that are neither object nor background.
        dropped: known boxes of classes that are marked in some of the images only, and labelled in none.
    """

    images: int = 0
    empty: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)
    kept: Counter = field(default_factory=Counter)
    added: Counter = field(default_factory=Counter)
    unsure: Counter = field(default_factory=Counter)
    dropped: Counter = field(default_factory=Counter)


def write_labels(
    log: LabelLog,
    jobs: Sequence[LabelJob],
    judgement: Judgement,
    class_names: Sequence[str],
    out: Path,
) -> LabelCounts:
    """Writes the COCO file, whole or not at all, with one image in memory at a time.

    Its categories are the classes that are marked or labelled in every image: training takes each of them for named.

    Raises:
        LabellingError: no image can be read, or no class is marked in all of them.
        OSError: the file cannot be written.
    """
    of_file = [job for job in jobs if job.file_name]
    named = [
        label
        for label in range(len(class_names))
        if all(label in job.marked or label in judgement.labelled for job in of_file)
    ]
    if not named:
        raise LabellingError(
            f'none of {", ".join(class_names)} is marked or can be labelled in every image: the '
            f'models find nothing of them with enough precision'
        )
    counts = LabelCounts()
    out.parent.mkdir(parents=True, exist_ok=True)
    with (
        named_errors(out),
        tempfile.TemporaryFile('w+', encoding='utf-8', dir=out.parent) as stream,
        tempfile.TemporaryFile('w+', encoding='utf-8', dir=out.parent) as boxes,
    ):
        rows = (
            (job, seen) for seen, job in zip(log, jobs)
        )  # to the end of the log, which closes it
        _write_rows(stream, boxes, rows, judgement, class_names, named, counts)
        if not counts.images:
            first = next(iter(counts.unreadable.items()), ('', 'there is none'))
            raise LabellingError(
                f'none of {len(of_file)} images can be read, the first is {first[0]}: {first[1]}'
            )
        stream.flush()
        with (
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as whole,
            memoryview(whole) as content,
        ):
            replace_file(out, content)
    return counts


def _write_rows(
    stream: TextIO,
    boxes: TextIO,
    images: Iterator[tuple[LabelJob, SeenImage]],
    judgement: Judgement,
    class_names: Sequence[str],
    named: list[int],
    counts: LabelCounts,
) -> None:
    """The COCO file in the order of its parts; boxes wait in a file of their own until the images are written."""
    category = {label: number for number, label in enumerate(named, 1)}
    rows = 0
    stream.write('{"images": [')
    for job, seen in images:
        if not job.file_name:
            continue
        if seen.unreadable:
            counts.unreadable[job.frame.name] = seen.unreadable
            continue
        counts.images += 1
        image = {
            'id': counts.images,
            'file_name': job.file_name,
            'width': seen.size[0],
            'height': seen.size[1],
        }
        stream.write((',\n' if counts.images > 1 else '\n') + json.dumps(image))
        objects = 0
        for row in _annotations(job, seen, judgement, class_names, category, counts):
            rows += 1
            objects += not row['iscrowd']
            row = {'id': rows, 'image_id': counts.images, **row}
            boxes.write((',\n' if rows > 1 else '\n') + json.dumps(row))
        counts.empty += not objects
    stream.write('],\n"annotations": [')
    boxes.seek(0)
    while text := boxes.read(2**20):
        stream.write(text)
    categories = [{'id': number, 'name': class_names[label]} for label, number in category.items()]
    stream.write('],\n"categories": ' + json.dumps(categories) + '}\n')


def _annotations(
    job: LabelJob,
    seen: SeenImage,
    judgement: Judgement,
    class_names: Sequence[str],
    category: dict[int, int],
    counts: LabelCounts,
) -> Iterator[dict]:
    """COCO's rows of one image, without their numbers."""
    known = job.frame.ground_truth
    if known is not None:
        for box, label, crowd in zip(known.boxes_xyxy_px, known.labels.tolist(), known.crowd):
            (counts.kept if label in category else counts.dropped)[class_names[label]] += 1
            if label in category:
                yield _row(box, category[label], bool(crowd))
    wanted = {
        label: threshold for label, threshold in judgement.thresholds.items() if label in category
    }
    added, unsure = new_boxes(fuse(seen.found, judgement.weights), known, job.marked, wanted)
    for box, score, label, is_unsure in zip(
        added.boxes_xyxy_px, added.scores, added.labels.tolist(), unsure
    ):
        (counts.unsure if is_unsure else counts.added)[class_names[label]] += 1
        yield {**_row(box, category[label], bool(is_unsure)), 'score': round(float(score), 4)}


def _row(box: np.ndarray, category: int, crowd: bool) -> dict:
    left, top, right, bottom = (round(float(value), 2) for value in box)
    width, height = round(right - left, 2), round(bottom - top, 2)
    return {
        'category_id': category,
        'bbox': [left, top, width, height],
        'area': round(width * height, 2),
        'iscrowd': int(crowd),
    }
