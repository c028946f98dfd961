"""Accuracy on real streets over time: what the shipped networks give beside public detectors, on one thread.

    python benchmarks/street_accuracy.py [--paths 10] [--limit N] [--left-out FILE=SOURCE,SOURCE ...]

Needs prepared segments (`profile --prepare-only --threads 1`); ours are one look or two, of what a node begins images
with. Every image is seen by every detector in random turn.

Sources: BDD100K (500 dashcam images that training did not see), road_vehicle_dhaka, CARLA, road_signs, `coco_small`,
near persons of `penn_fudan` and photographs kept apart, each with the classes that it marks. Public detectors never saw
BDD100K, whose other images `street` learnt; most learnt COCO. `tuned` is YOLOX-Nano after some three hours of a core on
what `street` learnt: its first look alone, at larger inputs. Files of `--left-out` (and `street-open`, of BDD100K) learnt
nothing of the sources named: a last table has these beside the best public detector of their time. On the highway video,
boxes of score 0.3 that cover 6 % of the image are phantoms: none is as large. Writes results/street_accuracy.json.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from parts.harness import Run, option, run_script, show
from parts.real_images import CLASSES, KINDS, MERGED, PHANTOM_SCORE, SOURCES, Images, of_classes

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.share_folder import share_folder
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.extras.data.class_names import with_mapping
from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, load_model
from deadline_perception.extras.external_models.public_yolox import save_yolox
from deadline_perception.networks.model_reference import find_weights, load_network
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.yolox.network import YoloxDetector
from deadline_perception.runtime.loading import NetworkOptions, load_task
from deadline_perception.tools.command_line import main as command
from deadline_perception.tools.model_conventions import TrialImages, find_conventions
from deadline_perception.tools.model_variants import quantised

# Public detectors below `--data`, and the classes that each gives, in order.
MODELS = {
    'yolox_nano.onnx': COCO_NAMES,
    'deimv2_hgnetv2_femto_coco.onnx': COCO_NAMES,
    'nanodet_m_416.onnx': COCO_NAMES,
    'ssd_mobilenet_v1_coco_quant.tflite': COCO_NAMES,
    'pedestrian-and-vehicle-detector-adas-0001.xml': ('vehicle', 'person'),
    'person-vehicle-bike-detection-2003.xml': ('vehicle', 'person', 'bike'),
}
TUNED_SIZES = ((544, 960), (704, 1248))  # height and width in px
CALIBRATION_IMAGES = 40  # that ranges of 8 bit are measured on
NEAR_PERSONS = {'penn_fudan': ('penn_fudan/val.json', ('person',))}
PHANTOM_SHARE = 0.06
SAME_TIME = 1.05  # of a public detector over ours, at most
HIGHWAY = 'highway/solid_white_right.mp4'


@dataclass(frozen=True, eq=False)
class Candidate:
    """One detector, or one path of ours."""

    name: str
    network: object
    path: ExecutionPath

    def run(self, image_bgr: np.ndarray) -> tuple[float, Detections]:
        """Time of one frame in ms, and what was found of `CLASSES`."""
        begun_ms = now_ms()
        found = self.network.start(image_bgr, self.path).finish()
        return now_ms() - begun_ms, of_classes(found, self.network.class_names)


def main(run: Run) -> None:
    args = run.args
    limit = 6 if run.quick else args.limit
    kinds = {
        name: (Images.whole(args.data, name, of, limit), of[1])
        for name, of in (SOURCES | NEAR_PERSONS).items()
    }
    kind = KINDS['photographs']
    chosen = Images.open(args.data, 'photographs', kind.measured, limit)
    kinds['photographs'] = (chosen, kind.classes)
    with tempfile.TemporaryDirectory() as folder:
        open_paths = _own('street-open', 'street-open', 4)
        left_out = {open_paths[0]: ['bdd100k']}
        for text in args.left_out:
            file, _, sources = text.rpartition('=')
            if not file or {*sources.split(',')} - {*kinds}:
                raise ValueError(f'--left-out is {text}, expected FILE=SOURCE of {[*kinds]}')
            left_out[of_first_look(Path(folder), Path(file).stem, file)] = sources.split(',')
        others = public_detectors(args.data, Path(folder))
        candidates = [
            *_own('street', 'ours', args.paths),
            *dict.fromkeys((*open_paths, *left_out)),
            *others,
            *(
                of_first_look(Path(folder), 'yolox-nano-tuned', 'street-first', size)
                for size in TUNED_SIZES
            ),
        ]
        result = {name: measure(candidates, *images) for name, images in kinds.items()}
        seen = phantoms(candidates, args.data / HIGHWAY, limit)
    for name, measured in result.items():
        print_table(name, measured)
    unseen = [
        row
        for one, sources in left_out.items()
        for source in sources
        for row in beside_public(source, result[source]['rows'], one.name, others)
    ]
    show('learnt without the source: AP50 in percent', tuple(unseen[0]), map(dict.values, unseen))
    print(
        'phantoms a frame on the highway: '
        + ', '.join(f'{name} {value:.3f}' for name, value in seen.items())
    )
    run.write(threads=1, sources=result, left_out=unseen, phantoms_a_frame=seen)


def _own(model: str, called: str, count: int) -> list[Candidate]:
    """The longest first, then some of what images begin with here, evenly spread over the logarithm of time."""
    options = NetworkOptions(model, engine='openvino', threads=1)
    task = load_task(options, share_folder() / 'models').task
    times = {path: math.log(ms) for path, ms, _ in task.policy.starts()}
    chosen = [
        min(times, key=lambda path: abs(times[path] - wanted))
        for wanted in np.linspace(min(times.values()), max(times.values()), count)
    ]
    paths = dict.fromkeys((task.network.path_space.largest, *chosen))
    return [Candidate(f'{called} {path}', task.network, path) for path in paths]


def public_detectors(data: Path, folder: Path) -> list[Candidate]:
    """Those of `MODELS`, and in 8 bit those that can be quantised, on images of BDD100K."""
    sequence = with_mapping(open_source(str(data / 'bdd100k/train.json')), MERGED)
    trial, frames = TrialImages.of(sequence), annotated_frames(sequence, CALIBRATION_IMAGES)
    candidates = []
    for name, classes in MODELS.items():
        file, called = data / 'public_models' / name, [MERGED.get(one, one) for one in classes]
        given = ModelSpec(file.stem.replace('-', '_'), 'onnx', file, tuple(called))
        spec = find_conventions(given, trial).spec
        specs = [spec]
        try:
            specs.append(quantised(spec, [frame.load_bgr() for frame in frames], folder))
        except ModelError as error:
            print(f'{name} stays as it is: {error}')
        for one in specs:
            network = load_model(one)
            candidates.append(Candidate(one.name, network, network.path_space.largest))
    return candidates


def of_first_look(
    folder: Path, called: str, weights: str, size: tuple[int, int] | None = None
) -> Candidate:
    """A network like the first look's, prepared, with an input of another size where one is named."""
    first = load_detector(find_weights(weights))
    height, width = size or first.input_size
    name = f'{called}-{width}x{height}'
    config = replace(first.config, name=name, input_size=(height, width), scales=(1.0,))
    network = YoloxDetector(config, first.class_names)
    network.load_state_dict(first.state_dict())
    network.score_calibration = first.score_calibration
    file = folder / f'{name}.safetensors'
    save_yolox(network, file)
    command(['profile', '--model', str(file), '--threads', '1', '--prepare-only'])
    loaded = load_network(file, 'cpu')[0]
    return Candidate(name, loaded, loaded.path_space.largest)


def measure(candidates: list[Candidate], images: Images, classes: tuple[str, ...]) -> dict:
    """Accuracy and times of all candidates on one source."""
    frames, known = images.frames, images.known
    times, found = _in_turn(candidates, frames)
    rows = {}
    for number, candidate in enumerate(candidates):
        scores = average_precision(found[number], known, CLASSES).per_class
        rows[candidate.name] = {'ms': round(statistics.median(times[number]), 2)} | {
            name: {
                'ap50': round(100 * (scores[name].ap50 or 0.0), 1),
                'ap': round(100 * (scores[name].ap or 0.0), 1),
            }
            for name in classes
        }
    return {'images': len(frames), 'rows': rows}


def _in_turn(
    candidates: list[Candidate], frames: list[Frame]
) -> tuple[list[list[float]], list[list[Detections]]]:
    times = [[] for _ in candidates]
    found = [[Detections.none()] * len(frames) for _ in candidates]
    for candidate in candidates:
        candidate.run(frames[0].load_bgr())
    draws = random.Random(0)
    for image, frame in enumerate(frames):
        pixels = frame.load_bgr()
        for number in draws.sample(range(len(candidates)), len(candidates)):
            took_ms, found[number][image] = candidates[number].run(pixels)
            times[number].append(took_ms)
    return times, found


def beside_public(
    source: str, rows: dict, name: str, others: Sequence[Candidate]
) -> Iterator[dict[str, object]]:
    """Vehicles and persons that a network finds, and what the best public detector of at most its time finds."""
    longest_ms = SAME_TIME * rows[name]['ms']
    rivals = [one.name for one in others if rows[one.name]['ms'] <= longest_ms]
    for label in ('vehicle', 'person'):
        if label in rows[name]:
            found = {one: rows[one][label]['ap50'] for one in (name, *rivals)}
            best = max(rivals, key=found.get)
            ahead = round(found[name] - found[best], 1)
            times = {'ms': rows[name]['ms'], 'public': best, 'its ms': rows[best]['ms']}
            given = {'source': source, 'class': label, 'network': name}
            yield given | times | {'ap50': found[name], 'its ap50': found[best], 'ahead': ahead}


def phantoms(candidates: list[Candidate], file: Path, limit: int | None) -> dict[str, float]:
    frames = list(open_source(str(file)).frames)[:limit]
    counts = dict.fromkeys((candidate.name for candidate in candidates), 0)
    for frame in frames:
        pixels = frame.load_bgr()
        for candidate in candidates:
            found = candidate.run(pixels)[1]
            areas = (found.boxes_xyxy_px[:, 2:] - found.boxes_xyxy_px[:, :2]).prod(1)
            large = areas >= PHANTOM_SHARE * pixels.shape[0] * pixels.shape[1]
            counts[candidate.name] += int((large & (found.scores >= PHANTOM_SCORE)).sum())
    return {name: round(count / len(frames), 4) for name, count in counts.items()}


def print_table(source: str, measured: dict) -> None:
    rows = measured['rows']
    classes = [name for name in CLASSES if name in next(iter(rows.values()))]
    show(
        f'{source}, {measured["images"]} images: AP50 / AP in percent',
        ('detector', 'ms', *classes),
        [
            (name, row['ms'], *(f'{row[one]["ap50"]} / {row[one]["ap"]}' for one in classes))
            for name, row in sorted(rows.items(), key=lambda item: item[1]['ms'])
        ],
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--data': option(Path('../shared/data')),
            '--paths': option(10, 'paths of our frontier'),
            '--limit': option(None, 'images of each source', type=int),
            '--left-out': option((), 'weights and what they did not learn', nargs='+'),
        },
        quick='few images',
        threads=1,
    )
