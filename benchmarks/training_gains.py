"""What training gains: with each source, augmentation and kind of labels left out, and with labels of teachers alone.

    python benchmarks/training_gains.py [--data ../shared/data] [--steps 200] [--hour-steps 3200]
        [--minutes 60] [--at-once 2] [--only NAME ...]

All runs begin with the public person-vehicle-bike-detection-2003 and train the longest path of `street`, one thread
each: `--steps` updates; the two that compare labels `--hour-steps`, or as many as `--minutes` allow. The labels of
those: what `label` adds to BDD100K's training images with three public detectors, its thresholds chosen on
150 annotated images which none of the two trains on; and those that BDD100K's owners drew, of the same images.

Each is judged on images that it was not trained on, and where it never saw a source, of a kind that is new to it: 150
of BDD100K's, those of road_vehicle_dhaka, CARLA and road_signs that street_accuracy.py takes, and photographs of
vehicles, which are all training images of the runs that do not leave them out. The public detectors and the shipped
weights see the same images at last, and one thread's time of all is measured in turn.

A run that was stopped goes on where it was, its files below out/training_gains. Prints tables and writes
results/training_gains.json.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from parts.harness import COMMAND, ROOT, Run, option, run_logged, run_script, show
from street_accuracy import DHAKA_VEHICLES, Candidate, measure, public_detectors

from deadline_perception.core.device import use_threads
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, load_model
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.recipe import recipe_in
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

START = 'person-vehicle-bike-detection-2003.xml'
TRAINED = 'alone:s00000-w1.00-p100-h2'
PATHS = (
    's00000-w1.00-p100-h2',
    'r0.75-s00000-w1.00-p100-h0',
    'r0.53-s00000-w1.00-p100-h0',
    'r0.44-s00000-w1.00-p100-h0',
)
TEACHERS = {
    START: 'vehicle,person,non-vehicle',
    'deimv2_hgnetv2_femto_coco.onnx': 'coco',
    'yolox_nano.onnx': 'coco',
}
LABELLED = {
    'dhaka': ('person',),
    'photographs': ('person',),
    'signs': ('person', 'vehicle'),
}  # with two teachers
CHOSEN_ON = 150
CLASSES = {
    **dict.fromkeys(('car', 'bus', 'truck', 'Ambulance', 'Bus', 'Car', 'Truck'), 'vehicle'),
    **dict.fromkeys(DHAKA_VEHICLES, 'vehicle'),
    **dict.fromkeys(('motor', 'motorcycle', 'Motorcycle', 'scooter'), 'motorbike'),
    'rider': 'person',
    'bicycle': 'bike',
    'rickshaw': 'bike',
    'wheelbarrow': None,
    **dict.fromkeys(('trafficlight', 'traffic light'), 'traffic_light'),
    **dict.fromkeys(('speedlimit', 'crosswalk', 'stop', 'stop sign'), 'traffic_sign'),
}
TRAIN = {
    'bdd100k': 'bdd100k/train.json',
    'dhaka': 'road_vehicle_dhaka/train.json',
    'carla': 'carla/train.json',
    'photographs': 'vehicles_openimages/train.json',
    'signs': 'road_signs/train.json',
}
JUDGED = {
    'bdd100k': ('bdd100k/val.json', ('vehicle', 'person', 'bike'), 150),
    'dhaka': ('road_vehicle_dhaka/val.json', ('vehicle', 'bike'), 60),
    'carla': ('carla/val.json', ('vehicle', 'bike', 'traffic_light', 'traffic_sign'), 50),
    'photographs': ('vehicles_openimages/train.json', ('vehicle', 'bike'), 80),
    'signs': ('road_signs/val.json', ('traffic_light', 'traffic_sign'), 50),
}


@dataclass(frozen=True)
class Variant:
    """One run of training.

    Attributes:
        name: in tables.
        sources: of `TRAIN`, with teachers' labels where there are such, or a file of the working folder.
        options: of `train`.
        hour: whether it runs for an hour, not shortly.
        own_labels: whether the sources keep the labels that they came with, and no others.
    """

    name: str
    sources: tuple[str, ...] = tuple(TRAIN)
    options: tuple[str, ...] = ()
    hour: bool = False
    own_labels: bool = False

    @property
    def file(self) -> str:
        """Its name as a file's."""
        return re.sub(r'\W+', '_', self.name)


VARIANTS = (
    Variant('true labels', ('true.json',), hour=True),
    Variant('labels of teachers', ('labelled.json',), hour=True),
    Variant('all'),
    Variant('all, other draws', options=('--seed', '1')),
    *(
        Variant(f'without {left_out}', tuple(name for name in TRAIN if name != left_out))
        for left_out in TRAIN
        if left_out != 'signs'
    ),  # of which no other source has the lights
    Variant("without teachers' labels", own_labels=True),
    *(
        Variant(f'without {change}', options=('--without', change))
        for change in ('mosaic', 'scale', 'mirror', 'colour', 'quality')
    ),
    Variant('without windows', options=('--crop-share', '0')),
)


def main(run: Run) -> None:
    args = run.args
    restart_with_environment(1)
    use_threads(1)
    work = folder_of_runs(args.work.absolute(), run.quick)
    work.mkdir(parents=True, exist_ok=True)
    steps, hour_steps, limit = (3, 6, 6) if run.quick else (args.steps, args.hour_steps, None)
    chosen = [one for one in VARIANTS if args.only is None or one.name in args.only]
    if args.only is not None and len(chosen) < len(args.only):
        raise ValueError(
            f'--only is {", ".join(args.only)}, expected some of {", ".join(v.name for v in VARIANTS)}'
        )
    data = args.data.absolute()
    split_bdd100k(data / TRAIN['bdd100k'], work, 40 if run.quick else None)
    replace_file(work / 'classes.json', json.dumps(CLASSES))
    with ProcessPoolExecutor(args.at_once, multiprocessing.get_context('spawn')) as pool:
        list(
            pool.map(
                partial(label, work, data),
                (*LABELLED, 'bdd100k') if not run.quick else ('bdd100k',),
            )
        )
        rows = dict(
            zip(
                (one.name for one in chosen),
                pool.map(
                    partial(
                        trained, work, data, steps, (hour_steps, args.minutes), limit, run.quick
                    ),
                    chosen,
                ),
            )
        )
    others = at_last(data, work, limit)
    unseen = {source: never_saw(rows, source) for source in JUDGED}
    unseen = {source: name for source, name in unseen.items() if name}
    for path in PATHS:
        print_table(
            path,
            {name: row['sources'] for name, row in rows.items()} | {'shipped': others['shipped']},
        )
    run.write(start=START, trained=TRAINED, variants=rows, unseen=unseen, **others)


def folder_of_runs(work: Path, is_quick: bool) -> Path:
    """Where runs are kept: those of a few steps never where a whole run would go on from them."""
    return work / 'quick' if is_quick else work


def split_bdd100k(file: Path, work: Path, limit: int | None) -> None:
    """Training images as a folder without labels and, with them, as true.json; those to choose on as chosen.json."""
    known = json.loads(file.read_text(encoding='utf-8'))
    images = known['images'] if limit is None else known['images'][: 4 * limit]
    chosen = images[:: max(1, len(images) // CHOSEN_ON)][: CHOSEN_ON if limit is None else limit]
    apart = {image['id'] for image in chosen}
    (work / 'hidden').mkdir(exist_ok=True)
    for image in images:
        path = file.parent / image['file_name']
        image['file_name'] = os.path.relpath(path, work)
        link = work / 'hidden' / path.name
        if image['id'] not in apart and not link.exists():
            link.symlink_to(path)
    for name, is_chosen in (('true.json', False), ('chosen.json', True)):
        kept = [image for image in images if (image['id'] in apart) == is_chosen]
        ids = {image['id'] for image in kept}
        replace_file(
            work / name,
            json.dumps(
                {
                    'images': kept,
                    'categories': known['categories'],
                    'annotations': [box for box in known['annotations'] if box['image_id'] in ids],
                }
            ),
        )


def label(work: Path, data: Path, source: str) -> None:
    """Adds teachers' labels to a source, unless that is done."""
    out = work / ('labelled.json' if source == 'bdd100k' else f'{source}.json')
    if out.exists():
        return
    teachers = dict(list(TEACHERS.items())[:2]) if source in LABELLED else TEACHERS
    classes = LABELLED.get(source, ('vehicle', 'person', 'bike', 'motorbike'))
    words = [
        word
        for file, names in teachers.items()
        for word in ('--model', data / 'public_models' / file, '--classes', names)
    ]
    if source in LABELLED:
        words += ['--precision', '0.6']
    _command(
        work / f'label_{source}.log',
        'label',
        *('--rename', work / 'classes.json', *words, '--data', work / 'chosen.json'),
        *('--only', *classes, '--threads', '1', '--out', out),
        data / TRAIN[source] if source in LABELLED else work / 'hidden',
    )


def trained(
    work: Path,
    data: Path,
    steps: int,
    hour: tuple[int, float],
    limit: int | None,
    quick: bool,
    variant: Variant,
) -> dict:
    """Trains and judges one variant, or reads what that gave before."""
    kept = work / f'{variant.file}.json'
    if kept.exists():
        return json.loads(kept.read_text(encoding='utf-8'))
    with_labels = () if variant.own_labels or quick else LABELLED
    sources = [
        work / source
        if source.endswith('.json')
        else work / f'{source}.json'
        if source in with_labels
        else data / TRAIN[source]
        for source in variant.sources
    ]
    weights = work / f'{variant.file}.safetensors'
    took_s = _command(
        work / f'{variant.file}.log',
        'train',
        *('--data', *sources, '--classes', work / 'classes.json'),
        *('--config', 'street', '--start', data / 'public_models' / START),
        *f'--strategy {TRAINED} --crop 256 448 --crop-share 0.8 --batch 1'.split(),
        *f'--learning-rate 4e-4 --threads 1 --steps {hour[0] if variant.hour else steps}'.split(),
        *(('--minutes', str(hour[1])) if variant.hour else ()),
        *variant.options,
        *('--state', weights.with_suffix('.state'), '--out', weights),
    )
    use_threads(1)
    network = load_model(ModelSpec(weights.stem, 'multi-path', weights), engine='eager')
    by_name = {str(path): path for path in network.path_space}
    candidates = [Candidate(path, network, by_name[path]) for path in PATHS]
    row = {
        'minutes_since_last_start': round(took_s / 60.0, 1),
        'steps': recipe_in(weights)['step'],
        'sources': judged(candidates, data, limit),
    }
    replace_file(kept, json.dumps(row))
    return row


def _command(log: Path, *words: str | Path) -> float:
    """Runs a command of the package and returns how long it took, s.

    Raises:
        RuntimeError: it failed.
    """
    status, took_s = run_logged([*COMMAND, *map(str, words)], log)
    if status:
        raise RuntimeError(f'{words[0]} ended with {status}: {log} has its output')
    return took_s


def judged(candidates: list[Candidate], data: Path, limit: int | None) -> dict:
    """AP50 in percent by source, candidate and class, and the median time of each in ms."""
    result = {}
    for name, (file, classes, images) in JUDGED.items():
        rows = measure(candidates, data / file, classes, limit or images)['rows']
        result[name] = {
            one: {key: value if key == 'ms' else value['ap50'] for key, value in row.items()}
            for one, row in rows.items()
        }
    return result


def at_last(data: Path, work: Path, limit: int | None) -> dict:
    """The shipped weights and the public detectors on the same images, or what that gave before."""
    weights = find_weights(DEFAULT_WEIGHTS)
    network = load_model(ModelSpec(weights.stem, 'multi-path', weights), engine='openvino')
    kept = work / f'at_last_{network.weights_hash}.json'
    if kept.exists():
        return json.loads(kept.read_text(encoding='utf-8'))
    by_name = {str(path): path for path in network.path_space}
    own = [Candidate(path, network, by_name[path]) for path in PATHS]
    with tempfile.TemporaryDirectory() as folder:
        found = judged(own + public_detectors(data, Path(folder)), data, limit)
    result = {
        'shipped': {source: {path: rows[path] for path in PATHS} for source, rows in found.items()},
        'public': {
            source: {name: row for name, row in rows.items() if name not in PATHS}
            for source, rows in found.items()
        },
    }
    replace_file(kept, json.dumps(result))
    return result


def print_table(path: str, rows: dict[str, dict]) -> None:
    columns = [(source, one) for source, (_, classes, _) in JUDGED.items() for one in classes]
    show(
        f'AP50 in percent of {path}',
        ('run', *(f'{source} {one}' for source, one in columns)),
        [
            (name, *(sources[source][path][one] for source, one in columns))
            for name, sources in rows.items()
        ],
    )


def never_saw(rows: dict[str, dict], source: str) -> str:
    """The longest run that saw nothing of a source; empty without one. Those for an hour see BDD100K alone."""
    runs = {variant.name: variant for variant in VARIANTS if variant.name in rows}
    if source != 'bdd100k' and 'true labels' in runs:
        return 'true labels'
    return next(
        (
            name
            for name, variant in runs.items()
            if not variant.hour and source not in variant.sources
        ),
        '',
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--data': option(Path('../shared/data')),
            '--work': option(ROOT / 'out' / 'training_gains', 'folder that keeps every run'),
            '--steps': option(200, 'updates of a run', least=1),
            '--hour-steps': option(3200, 'of those that compare labels', least=1),
            '--minutes': option(60.0, 'longest time that those train', above=0.0),
            '--at-once': option(2, 'runs at the same time, one thread each', least=1),
            '--only': option(None, 'runs', nargs='+', metavar='NAME'),
        },
        quick='3 steps, few images',
    )
