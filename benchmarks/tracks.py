"""Average precision of coasted tracks against the age of their evidence, and the time that they take.

    python benchmarks/tracks.py [--quick] [--seeds 0,1,2,3] [--seconds 45]

Rendered drives give the known objects every 50 ms. Detections are made of them: boxes off by 4 % of their sides
(standard deviation), 15 % missing, 2 false ones per image of mostly low scores; the same for everybody. Every 100, 200
or 400 ms one result comes in; scored against what is there 50 to 400 ms later is (still) that result as it is, and
(tracks) the detector's `Tracks`. The age counts from the image of the result.
Prints a table and writes results/tracks.json; with --quick below out/benchmarks.
"""
from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.datasets.records import Frame, GroundTruth
from deadline_perception.datasets.rendering.drive import CLASS_NAMES, render_drive
from deadline_perception.evaluation.average_precision import average_precision
from deadline_perception.runtime.tracks import Tracks
from parts.harness import Run, run_script, show

RATE_HZ = 20
AGES = (1, 2, 3, 4, 5, 6, 8)  # frames of the drive
INTERVALS = (2, 4, 8)
WARM_UP = 16  # frames at the begin that are not scored
SIZE = (380, 640)
BOX_ERROR, MISSING, FALSE_PER_IMAGE = 0.04, 0.15, 2.0
TIMED_OBJECTS, TIMED_ROUNDS = 100, 200


def detections_of(ground_truth: GroundTruth, rng: np.random.Generator) -> Detections:
    """What an imperfect detector would say that misses a share of the objects."""
    kept = (rng.random(len(ground_truth.labels)) > MISSING) & ~ground_truth.crowd
    boxes, labels = ground_truth.boxes_xyxy_px[kept].astype(np.float64), ground_truth.labels[kept]
    boxes += rng.normal(0.0, BOX_ERROR, boxes.shape) * np.tile(boxes[:, 2:] - boxes[:, :2], 2)
    count = rng.poisson(FALSE_PER_IMAGE)
    corners = rng.uniform((0, 100), (600, 300), (count, 2))
    boxes = np.vstack([boxes, np.hstack([corners, corners + rng.uniform(10, 80, (count, 2))])])
    boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 1.0)
    scores = np.concatenate([np.maximum(rng.beta(5, 2, len(labels)), 0.05), rng.beta(1.2, 6, count)])
    order = np.argsort(-scores, kind='stable')
    return Detections(np.clip(boxes, 0, SIZE[::-1] * 2)[order], scores[order], np.concatenate(
        [labels, rng.integers(0, len(CLASS_NAMES), count)])[order])


class Still:
    """The last result as it is."""

    def update(self, found: Detections, stamp_s: float) -> None:
        self.last = found

    def predict(self, stamp_s: float) -> Detections:
        return self.last


WAYS = {'still': Still, 'tracks': lambda: Tracks(SIZE)}


def precision_by_age(drives: Sequence[Sequence[Frame]], interval: int) -> dict[str, list[float]]:
    """AP (0 to 100) of each way at each age, results coming every so many frames."""
    found = {name: [[] for _ in AGES] for name in WAYS}
    known: list[list[GroundTruth]] = [[] for _ in AGES]
    for seed, frames in enumerate(drives):
        rng, ways = np.random.default_rng(seed), {name: make() for name, make in WAYS.items()}
        for index in range(0, len(frames) - max(AGES), interval):
            result = detections_of(frames[index].ground_truth, rng)
            for way in ways.values():
                way.update(result, frames[index].stamp_ns / 1e9)
            if index < WARM_UP:
                continue
            for place, age in enumerate(AGES):
                later = frames[index + age]
                known[place].append(later.ground_truth)
                for name, way in ways.items():
                    found[name][place].append(way.predict(later.stamp_ns / 1e9))
    return {name: [100.0 * average_precision(images, truths, CLASS_NAMES).ap
                   for images, truths in zip(found[name], known)] for name in WAYS}


def times_us() -> dict[str, float]:
    """Median time of an update and of a prediction of many objects."""
    rng, tracks = np.random.default_rng(0), Tracks(SIZE)
    corners = rng.uniform((0, 0), (600, 340), (TIMED_OBJECTS, 2))
    boxes = np.hstack([corners, corners + rng.uniform(8, 40, corners.shape)])
    scores, labels = np.sort(rng.random(TIMED_OBJECTS))[::-1], rng.integers(0, len(CLASS_NAMES), TIMED_OBJECTS)
    updates, predictions = [], []
    for number in range(TIMED_ROUNDS):
        found = Detections(boxes + rng.normal(0, 1, (TIMED_OBJECTS, 1)), scores, labels)
        begun_ms = now_ms()
        tracks.update(found, number / 10)
        updated_ms = now_ms()
        tracks.predict(number / 10 + 0.1)
        updates.append(updated_ms - begun_ms)
        predictions.append(now_ms() - updated_ms)
    return {'update': 1000.0 * statistics.median(updates), 'predict': 1000.0 * statistics.median(predictions)}


def main(run: Run) -> None:
    args = run.args
    seeds, seconds = ([0], 6.0) if run.quick else ([int(seed) for seed in args.seeds.split(',')], args.seconds)
    drives = [render_drive(seconds=seconds, rate_hz=RATE_HZ, seed=seed).frames for seed in seeds]
    period_ms = 1000 // RATE_HZ
    rows = {str(interval * period_ms): precision_by_age(drives, interval) for interval in INTERVALS}
    show('AP by age of the evidence', ('result every', 'way', *(f'{age * period_ms} ms' for age in AGES)),
         [(f'{interval} ms', name, *values) for interval, ways in rows.items() for name, values in ways.items()])
    times = times_us()
    print(f'{TIMED_OBJECTS} objects: update {times["update"]:.0f} us, predict {times["predict"]:.0f} us')
    run.write(seeds=seeds, seconds=seconds, ages_ms=[age * period_ms for age in AGES], ap_by_interval_ms=rows,
              **{f'us_of_{TIMED_OBJECTS}_objects': times})


if __name__ == '__main__':
    run_script(main, {
        '--seeds': {'default': '0,1,2,3', 'help': 'of the rendered drives'},
        '--seconds': {'type': float, 'default': 45.0, 'help': 'of each drive'}}, quick='one drive of 6 s')
