"""Public detectors as `adopt` reads them: conventions found on images, accuracy on others, in floating point and 8 bit.

    python benchmarks/own_models.py [--models ../shared/data/public_models] [--data ../shared/data/bdd100k]
        [--images 500]

The conventions of each file are found on 20 images of the training split, where the documented ones are held against
the ten best others. All detectors then see the validation images on one thread, every image and detector in random
turn. None of the public detectors was trained on BDD100K. Prints AP50 and AP of vehicle (car, bus, truck), person
(with riders) and bike (bicycle, motorbike) beside reference values, and the median time of a frame; writes
results/own_models.json.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence as Many
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from parts.harness import PUBLIC_DATA, Run, option, run_frame, run_script, show, turns

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import use_threads
from deadline_perception.extras.data.class_names import relabelled, with_mapping
from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.exported.exported_file import read_exported
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, load_model
from deadline_perception.timing.profile import time_frame
from deadline_perception.tools.model_conventions import (
    FoundConventions,
    TrialImages,
    find_conventions,
)
from deadline_perception.tools.model_variants import quantised

CLASSES = ('vehicle', 'person', 'bike')
MERGED = {
    'car': 'vehicle',
    'bus': 'vehicle',
    'truck': 'vehicle',
    'rider': 'person',
    'motor': 'bike',
    'bicycle': 'bike',
    'motorcycle': 'bike',
    'motorbike': 'bike',
}
# Conventions that differ from the documented ones; all that are tried.
TRIED_WRONG, LEAST_TRIED = 10, 24
CALIBRATION_IMAGES = 40  # that ranges of 8 bit are measured on
MOST_SHORT = 1.5  # points of AP50 below the reference
MOST_LOSS, MOST_TIME = 0.5, 0.8  # of 8 bit, as `adopt` has it: points of AP, share of the time


@dataclass(frozen=True)
class PublicModel:
    """A public file, what its publisher says of it, and reference values.

    Attributes:
        file: name.
        classes: that it gives, in order.
        conventions: as its publisher states them, in the words of the search.
        reference: AP50 of `CLASSES` in percent on the 500 validation images, decoded by other code; None where there
            is none.
    """

    file: str
    classes: tuple[str, ...]
    conventions: str
    reference: tuple[float | None, ...] = (None, None, None)


MODELS = (
    PublicModel(
        'yolox_nano.onnx', COCO_NAMES, 'bgr, 0 to 255, letterbox-corner, yolox', (30.4, 19.4, 6.9)
    ),
    PublicModel(
        'deimv2_hgnetv2_femto_coco.onnx',
        COCO_NAMES,
        'rgb, 0 to 1, stretch, boxes corners px',
        (38.2, 16.2, 23.2),
    ),
    PublicModel(
        'nanodet_m_416.onnx', COCO_NAMES, 'bgr, ImageNet, stretch, distribution middle probability'
    ),
    PublicModel(
        'ssd_mobilenet_v1_coco_quant.tflite',
        COCO_NAMES,
        'rgb, 0 to 1, stretch, class_scores corners fraction probability, labels of COCO with gaps',
    ),
    PublicModel(
        'pedestrian-and-vehicle-detector-adas-0001.xml',
        ('vehicle', 'person'),
        'bgr, 0 to 255, stretch, ssd, first class at label 1',
        (42.1, 25.3, None),
    ),
    PublicModel(
        'person-vehicle-bike-detection-2003.xml',
        ('vehicle', 'person', 'bike'),
        'bgr, 0 to 255, stretch, boxes corners px',
        (49.3, 39.6, 8.9),
    ),
)


def main(run: Run) -> None:
    args = run.args
    use_threads(1)
    images = 12 if run.quick else args.images
    training = _sequence(args.data / 'train.json')
    trial, calibration = TrialImages.of(training), annotated_frames(training, CALIBRATION_IMAGES)
    rows, specs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            spec = public_spec(args.models / model.file, model.classes, MERGED)
            found = find_conventions(spec, trial, least=LEAST_TRIED)
            row = {
                'file': model.file,
                'classes': len(model.classes),
                **_margin(model, found),
                'reference_ap50': dict(zip(CLASSES, model.reference)),
            }
            rows.append(row)
            print(
                f'{model.file}: {found.words}; documented {row["documented"]}, the best of {row["wrong_tried"]} '
                f'others {row["best_other"]}',
                flush=True,
            )
            specs.append((row, 'float', found.spec))
            if read_exported(spec.file).layers == 'float':
                shown = [frame.load_bgr() for frame in calibration]
                try:
                    specs.append((row, '8 bit', quantised(found.spec, shown, Path(folder))))
                except ModelError as error:
                    row['8 bit'] = {'refused': str(error)}
        _measure(specs, _sequence(args.data / 'val.json'), images)
    for row in rows:
        _judge_8_bit(row)
    _print(rows)
    run.write(threads=1, images=images, rows=rows)


def public_spec(file: Path, classes: tuple[str, ...], names: dict[str, str]) -> ModelSpec:
    """A public file that gives these classes, some of them renamed."""
    return ModelSpec(
        file.stem.replace('-', '_'), 'onnx', file, tuple(names.get(name, name) for name in classes)
    )


def of_classes(
    found: Detections, class_names: Many[str], names: dict[str, str], wanted: tuple[str, ...]
) -> Detections:
    """The detections of the wanted classes, numbered as these are.

    Args:
        found: of a network.
        class_names: of the network.
        names: what some of these are called among the wanted.
        wanted: names.
    """
    called = [names.get(name, name) for name in class_names]
    labels = np.array([wanted.index(name) if name in wanted else -1 for name in called])[
        found.labels
    ]
    kept = labels >= 0
    return Detections(found.boxes_xyxy_px[kept], found.scores[kept], labels[kept])


def _sequence(file: Path) -> Sequence:
    return with_mapping(open_source(str(file)), MERGED)


def _margin(model: PublicModel, found: FoundConventions) -> dict:
    """How the documented conventions fare against the ten best others; values of the search.

    Label lists of COCO agree on the classes of the data, and then count as the same.
    """
    values = dict(reversed(found.tried))
    documented = values.get(model.conventions)
    same = {
        words
        for words, value in found.tried
        if words.startswith(model.conventions) and value == documented
    }
    others = [(words, value) for words, value in found.tried if words not in same][:TRIED_WRONG]
    best = others[0][1] if others else 0.0
    return {
        'found': found.words,
        'documented_conventions': model.conventions,
        'documented': None if documented is None else round(documented, 4),
        'wrong_tried': len(others),
        'margin_percent': round(100 * (documented / best - 1), 1) if documented and best else None,
        'best_other': {words: round(value, 4) for words, value in others[:1]},
        'others': {words: round(value, 4) for words, value in others},
    }


def _measure(specs: list[tuple[dict, str, ModelSpec]], sequence: Sequence, images: int) -> None:
    """Runs all detectors on all images in random turn; adds accuracy and times to their rows."""
    frames = annotated_frames(sequence, images)
    known = [relabelled(frame.ground_truth, sequence.class_names, CLASSES) for frame in frames]
    networks = [load_model(spec) for _, _, spec in specs]
    found = [[None] * len(frames) for _ in specs]
    times = [[] for _ in specs]
    for network in networks:
        time_frame(network, frames[0].load_bgr(), network.path_space.largest)
    for image, number in turns(range(len(specs)), len(frames)):
        network = networks[number]
        took_ms, detections = run_frame(
            network, frames[image].load_bgr(), network.path_space.largest
        )
        times[number].append(took_ms)
        found[number][image] = of_classes(detections, network.class_names, MERGED, CLASSES)
    for (row, precision, _), network, detections, took_ms in zip(specs, networks, found, times):
        scores = average_precision(detections, known, CLASSES).per_class
        row[precision] = {
            'ms': round(statistics.median(took_ms), 2),
            'input': network.input_size,
            'ap50': {name: round(100 * (scores[name].ap50 or 0.0), 1) for name in CLASSES},
            'ap': {name: round(100 * (scores[name].ap or 0.0), 1) for name in CLASSES},
        }
        references = row.get('reference_ap50', {})
        row[precision]['within'] = all(
            row[precision]['ap50'][name] >= value - MOST_SHORT
            for name, value in references.items()
            if value is not None
        )


def _judge_8_bit(row: dict) -> None:
    """Whether `adopt` would keep the 8-bit version: what it loses in AP of the classes, and the share of the time."""
    plain, small = row['float'], row.get('8 bit', {})
    if 'ap' in small:
        small['loses_ap'] = round(
            statistics.mean(plain['ap'].values()) - statistics.mean(small['ap'].values()), 2
        )
        small['share_of_time'] = round(small['ms'] / plain['ms'], 2)
        small['kept'] = small['loses_ap'] <= MOST_LOSS and small['share_of_time'] <= MOST_TIME


def _print(rows: list[dict]) -> None:
    lines = []
    for row in rows:
        for precision in ('float', '8 bit'):
            measured = row.get(precision, {})
            if 'ap50' not in measured:
                continue
            shown = []
            for name in CLASSES:
                reference = row.get('reference_ap50', {}).get(name)
                told = '' if reference is None or precision != 'float' else f' ({reference})'
                shown.append(f'{measured["ap50"][name]}{told} / {measured["ap"][name]}')
            lines.append((row['file'], precision, measured['ms'], *shown))
    show(
        'AP50 / AP in percent; reference AP50 in brackets',
        ('file', 'precision', 'ms', *CLASSES),
        lines,
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            **PUBLIC_DATA,
            '--images': option(500),
        },
        quick='few images',
    )
