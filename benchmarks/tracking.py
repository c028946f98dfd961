"""Ids along a drive: HOTA of the detector's tracks beside the best of the package `trackers`.

    python benchmarks/tracking.py [--model street] [--data ../shared/data/kitti_0095] [--seconds 24] [--quick]

Every image is looked at once, without a limit of time; all trackers are given the same boxes: those of a score of 0.3,
or those of 0.1 of which objects of 0.3 count. At the full rate, and with every second image dropped, whose stamps all
trackers are told. HOTA (Luiten et al. 2021) by `trackers.eval`, over the images that were given; a box of another class
matches none. Of `trackers` four kinds run with their defaults and with the lowest of their thresholds; of all, theirs and
ours, objects of 0.3 or 0.5 count, whichever is better. Known objects: those of the sequence (reference boxes, see its
README), and of a rendered drive, whose objects are followed at 30 Hz. Needs `pip install --no-deps trackers`, as its
dependencies replace OpenCV. What nobody can exceed: the same boxes with known ids. Writes results/tracking.json.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from parts.harness import Run, option, run_script, show
from rich.progress import track

from deadline_perception.core.detections import Detections, match_objects, pairwise_iou
from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.untrusted_file import read_json
from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.runtime.tracks import Tracks

SCORE = 0.3
LOW_SCORE = 0.1
COUNTED = SCORE, 0.5
DRIVE_HZ, STRIDE = 30.0, 3  # of the rendered drive, and of it every third image is looked at
MOST_BYTES = 2**26
OURS = 'deadline_perception'
KNOWN = 'known ids'
LEAST_OVERLAP = 0.05  # with a known object, the least that HOTA counts
SAME_OBJECT_IOU = 0.4  # of boxes in images that follow each other
RATES = {'full rate': 1, 'half dropped': 2}
Update = Callable[[Detections, float], Detections]


@dataclass(frozen=True)
class Image:
    """One image with its known objects and their ids, and what was found from `LOW_SCORE` on."""

    stamp_s: float
    known: Detections
    found: Detections


def follow(frames: Sequence[Frame]) -> list[np.ndarray]:
    """For each image the number of each of its objects, which is the same from image to image; -1 for crowds."""
    numbers = []
    before = Detections.none()
    count = 0
    for frame in frames:
        truth = frame.ground_truth
        known = Detections(truth.boxes_xyxy_px, np.ones(len(truth.labels)), truth.labels)
        mine = np.full(len(known), -1)
        was, same = match_objects(before, known, SAME_OBJECT_IOU)
        mine[same] = numbers[-1][was] if numbers else -1
        for row in np.flatnonzero((mine < 0) & ~truth.crowd):
            mine[row] = count
            count += 1
        mine[truth.crowd] = -1
        numbers.append(mine)
        before = known
    return numbers


def look_at(
    detector: DeadlineDetector, frames: Sequence[tuple[float, Callable, Detections]]
) -> list[Image]:
    """What the detector finds in images of their own, of the classes that are known."""
    images = []
    for stamp_s, load, known in track(frames, 'images'):
        found = detector.detect(load(), None).objects
        images.append(Image(stamp_s, known, found))
    return images


def read_sequence(folder: Path, class_names: Sequence[str]):
    """Images of a sequence in COCO's form, with `track_id`, and `frames.csv` for their stamps."""
    content = read_json(folder / 'sequence.json', MOST_BYTES)
    rows = (folder / 'frames.csv').read_text().splitlines()[1:]
    stamps_s = {row.split(',')[0]: float(row.split(',')[1]) for row in rows}
    labels = {one['id']: list(class_names).index(one['name']) for one in content['categories']}
    frames = []
    for image in content['images']:
        mine = [one for one in content['annotations'] if one['image_id'] == image['id']]
        boxes = np.array([one['bbox'] for one in mine]).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        known = Detections(
            boxes,
            np.ones(len(mine)),
            np.array([labels[one['category_id']] for one in mine]),
            np.array([one['track_id'] for one in mine], np.int64),
        )
        file = folder / image['file_name']
        frames.append((stamps_s[image['file_name']], lambda file=file: load_image(file), known))
    return frames


def render_sequence(seconds: float, class_names: Sequence[str]):
    """Images of a rendered drive at a third of the rate at which its objects are followed."""
    sequence = render_drive(seconds, DRIVE_HZ, seed=0)
    places = np.array([list(class_names).index(name) for name in sequence.class_names])
    frames = []
    for frame, numbers in zip(sequence.frames, follow(sequence.frames), strict=True):
        truth = frame.ground_truth
        kept = numbers >= 0
        known = Detections(
            truth.boxes_xyxy_px[kept],
            np.ones(kept.sum()),
            places[truth.labels[kept]],
            numbers[kept] + 1,
        )
        frames.append((frame.stamp_ns / 1e9, frame.load_bgr, known))
    return frames[::STRIDE]


def other_trackers(rate_hz: float) -> dict[str, Callable[[], Update]]:
    """What makes each of the trackers to compare with."""
    import trackers

    kinds = {
        trackers.SORTTracker: ('track_activation_threshold',),
        trackers.ByteTrackTracker: ('track_activation_threshold', 'high_conf_det_threshold'),
        trackers.OCSORTTracker: ('high_conf_det_threshold',),
        trackers.CBIoUTracker: ('track_activation_threshold', 'high_conf_det_threshold'),
    }
    made = {}
    for kind, thresholds in kinds.items():
        lowest = {**dict.fromkeys(thresholds, SCORE), 'minimum_consecutive_frames': 1}
        for name, options in (('defaults', {}), ('low thresholds', lowest)):

            def make(kind=kind, options=options) -> Update:
                return _update_of(kind(frame_rate=rate_hz, **options))

            made[f'{kind.__name__}, {name}'] = make
    return made


def known_ids(images: Sequence[Image]) -> Update:
    """Gives what was found in these images, in turn, the ids of the known objects that it overlaps most."""
    following = iter(images)
    others = itertools.count(1 + max(int(image.known.ids.max(initial=0)) for image in images))

    def update(found: Detections, stamp_s: float) -> Detections:
        known = next(following).known
        ids = np.fromiter((next(others) for _ in range(len(found))), np.int64, len(found))
        places, same = match_objects(known, found, LEAST_OVERLAP)
        ids[same] = known.ids[places]
        return replace(found, ids=ids)

    return update


def _update_of(tracker) -> Update:
    import supervision

    def update(found: Detections, stamp_s: float) -> Detections:
        given = supervision.Detections(
            found.boxes_xyxy_px, confidence=found.scores, class_id=found.labels
        )
        told = tracker.update(given, timestamp=stamp_s)
        followed = told.tracker_id >= 0
        return Detections(
            told.xyxy[followed],
            told.confidence[followed],
            told.class_id[followed],
            told.tracker_id[followed] + 1,
        )

    return update


def hota(
    images: Sequence[Image], classes: np.ndarray, make: Callable[[], Update], least: float
) -> float:
    """Of a tracker, over objects of some classes, in percent."""
    from trackers.eval.hota import compute_hota_metrics

    update, answers, figures = make(), [], []
    for image in images:
        is_given = np.isin(image.found.labels, classes) & (image.found.scores >= least)
        answers.append(update(image.found.at(is_given), image.stamp_s))
    known_ids = _numbered([image.known.ids for image in images])
    for counted in COUNTED:
        ids, overlaps = [], []
        for image, answer in zip(images, answers, strict=True):
            told = answer.with_score(counted)
            overlap = pairwise_iou(image.known.boxes_xyxy_px, told.boxes_xyxy_px)
            overlap[image.known.labels[:, None] != told.labels[None]] = 0.0
            ids.append(told.ids)
            overlaps.append(overlap)
        figures.append(compute_hota_metrics(known_ids, _numbered(ids), overlaps)['HOTA'])
    return round(100.0 * float(max(figures)), 1)


def _numbered(ids: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same from 0 on without gaps."""
    places = {number: place for place, number in enumerate(np.unique(np.concatenate(ids)))}
    return [np.array([places[one] for one in of_image.tolist()], int) for of_image in ids]


def compare(images: Sequence[Image], size: tuple[int, int]) -> dict[str, dict[str, float]]:
    """By rate our tracks, and the best of the others."""
    classes = np.unique(np.concatenate([image.known.labels for image in images]))
    found = {}
    for rate, stride in RATES.items():
        given = images[::stride]
        rate_hz = (len(given) - 1) / (given[-1].stamp_s - given[0].stamp_s)
        ours = hota(given, classes, lambda: Tracks(size).update, LOW_SCORE)
        others = {
            f'{name}, from {least:g}': hota(given, classes, make, least)
            for name, make in other_trackers(rate_hz).items()
            for least in (SCORE, LOW_SCORE)
        }
        best = max(others, key=others.get)
        most = hota(given, classes, lambda: known_ids(given), SCORE)  # noqa: B023  called at once
        found[rate] = {OURS: ours, best: others[best], KNOWN: most}
    return found


def main(run: Run) -> None:
    """Looks at all images once, then follows what was found."""
    args = run.args
    results = {}
    with DeadlineDetector(args.model, min_score=LOW_SCORE) as detector:
        sources = {'rendered drive': render_sequence(args.seconds, detector.class_names)}
        if args.data.is_dir():
            sources[args.data.name] = read_sequence(args.data, detector.class_names)
        for name, frames in sources.items():
            frames = frames[:20] if run.quick else frames
            size = frames[0][1]().shape[:2]
            images = look_at(detector, frames)
            results[name] = {'images': len(images), **compare(images, size)}
    rows = [
        [source, rate, tracker, figure]
        for source, of_source in results.items()
        for rate in RATES
        for tracker, figure in of_source[rate].items()
    ]
    show('ids', ['source', 'rate', 'tracker', 'HOTA'], rows, words=3)
    for rate, least in (('full rate', 0.0), ('half dropped', 5.0)):
        ahead = []
        for of_source in results.values():
            ours, best, _ = of_source[rate].values()
            ahead.append(ours - best)
        run.goal(f'{rate}: HOTA ahead of the best of trackers by', min(ahead), least=least)
    run.write(model=args.model, sources=results)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--model': option('street', 'network'),
            '--data': option(
                Path('../shared/data/kitti_0095'),
                'sequence with track ids; left out where it is not there',
            ),
            '--seconds': option(24.0, 'of the drive', above=0.0),
        },
        quick='20 images each',
    )
