"""Label images with detectors: a folder, a video, a bag or annotated data with missing classes becomes a COCO file.

Boxes of all models are brought together; from which score on they are objects is chosen per class on annotated images
(--data, and sources that mark the class). What a source marks stays as it is. A run that was stopped goes on where it
was; `deadline-perception train --data` takes the file.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deadline_perception.core.device import use_threads
from deadline_perception.extras.data.class_maps import read_map
from deadline_perception.extras.data.class_names import relabelled
from deadline_perception.extras.data.image_folder import file_of
from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.data.records import Sequence as DrivingSequence
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, load_model
from deadline_perception.extras.training.label_file import write_labels
from deadline_perception.extras.training.label_log import LabelLog
from deadline_perception.extras.training.labelling import (
    LabelJob,
    LabellingError,
    Teacher,
    judge,
    see_all,
)
from deadline_perception.extras.training.score_thresholds import LEAST_OBJECTS, LEAST_PRECISION
from deadline_perception.tools.label_report import label_progress, report
from deadline_perception.tools.model_conventions import TrialImages, find_conventions
from deadline_perception.tools.support.file_arguments import (
    THREADS,
    add_device_arguments,
    check_file,
    check_folder,
    check_numbers,
)
from deadline_perception.tools.support.model_arguments import (
    MODEL_HELP,
    add_model_arguments,
    classes_of_set,
    read_models,
    renamed,
)
from deadline_perception.tools.support.stop_request import StopRequest
from deadline_perception.tools.support.terminal import say

_CHOSEN_ON = 200  # images of each source, evenly spaced, that thresholds are chosen on at most


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        'sources',
        nargs='+',
        metavar='SOURCE',
        help='images to label: a folder of images, a video, a bag, a COCO file or another data set',
    )
    parser.add_argument(
        '--model',
        dest='models',
        action='append',
        required=True,
        metavar='MODEL',
        help=MODEL_HELP + '; once for each model',
    )
    add_model_arguments(parser)
    parser.add_argument(
        '--only',
        nargs='+',
        metavar='NAME',
        help='classes to label; all that the models find, without',
    )
    parser.add_argument(
        '--data',
        nargs='+',
        default=[],
        metavar='ANNOTATED',
        help='annotated images that score thresholds are chosen on, for the classes that they mark',
    )
    parser.add_argument(
        '--min-score',
        type=float,
        default=0.5,
        help='threshold of a class of which no annotated '
        f'images, or fewer than {LEAST_OBJECTS} objects, are at hand',
    )
    parser.add_argument(
        '--precision',
        type=float,
        default=LEAST_PRECISION,
        help='that a threshold has at least, on '
        'the annotated images; more where the images to label are of another kind',
    )
    parser.add_argument(
        '--rate',
        type=float,
        metavar='HZ',
        help='frames per second to label of a video or bag; all without',
    )
    parser.add_argument('--out', type=Path, default=Path('labels.json'), help='COCO file to write')
    parser.add_argument(
        '--images',
        type=Path,
        metavar='FOLDER',
        help='for the frames of videos and bags, which '
        'training needs as files; without, a folder beside --out with its name, and .images where it '
        'has no ending',
    )
    parser.add_argument(
        '--image-type', choices=('jpg', 'png'), default='jpg', help='of these frames'
    )
    add_device_arguments(parser)
    parser.add_argument(
        '--minutes',
        type=float,
        help='end after so long, to be gone on with; at the last image without',
    )


def run(args: argparse.Namespace) -> int:
    """Labels, or goes on with it; returns the exit status."""
    _check(args)
    stop = StopRequest(args.minutes)
    use_threads(args.threads)
    specs = read_models(args)
    mapping = {} if args.rename is None else read_map(args.rename)
    sources = [renamed(open_source(text, rate_hz=args.rate), mapping) for text in args.sources]
    data = [renamed(open_source(text), mapping) for text in args.data]
    for text, sequence in zip(args.data, data):
        if not sequence.class_names:
            raise ValueError(
                f'--data {text} has no annotations, expected images with known objects'
            )
    specs = [_with_conventions(spec, [*data, *sources]) for spec in specs]
    networks = [load_model(spec, args.device) for spec in specs]
    names = _class_names(args, sources, [network.class_names for network in networks])
    teachers = [
        Teacher(
            spec.name,
            network,
            np.array(
                [names.index(name) if name in names else -1 for name in network.class_names],
                np.int64,
            ),
        )
        for spec, network in zip(specs, networks)
    ]
    jobs = _jobs(args, sources, data, names)
    facts = [
        *names,
        *(f'{one.name} {one.network.weights_hash}' for one in teachers),
        *(f'{job.frame.name} {job.frame.stamp_ns} {job.file_name} {job.copy}' for job in jobs),
    ]
    log = LabelLog(args.out.with_name(f'{args.out.name}.partial'), facts)
    try:
        with stop.listening(), label_progress(len(jobs), log.count) as tell:
            done = see_all(log, jobs, teachers, stop=stop, report=tell)
        if not done:
            print(
                f'stopped at image {log.count} of {len(jobs)}; the same command goes on from {log.file}'
            )
            return stop.exit_status
        judgement = judge(log, jobs, teachers, len(names), args.min_score, args.precision)
        counts = write_labels(log, jobs, judgement, names, args.out)
        log.file.unlink()  # while nobody else can have it
    finally:
        log.close()
    report(args, names, teachers, judgement, counts, jobs)
    return 0


def _check(args: argparse.Namespace) -> None:
    args.images = args.images or args.out.with_suffix('' if args.out.suffix else '.images')
    check_file('--out', args.out, args.rename, args.images, *args.sources, *args.data)
    check_folder('--images', args.images)
    check_numbers(args, min_score=(0.001, 1.0), precision=(0.001, 1.0), threads=THREADS)


def _with_conventions(spec: ModelSpec, sequences: Sequence[DrivingSequence]) -> ModelSpec:
    """The detector with what its file does not say, found on some images: annotated ones where there are some."""
    if spec.kind != 'onnx' or spec.resize or spec.decode:
        return spec
    known = next(
        (one for one in sequences if set(one.class_names) & set(spec.classes)), sequences[0]
    )
    trial = TrialImages.of(known)
    found = find_conventions(spec, trial)
    say(
        f'{spec.name} is read as {found.words}, the best of {len(found.tried)} ways on {len(trial.images_bgr)} images'
    )
    return found.spec


def _class_names(
    args: argparse.Namespace, sources: Sequence[DrivingSequence], of_models: Sequence[Sequence[str]]
) -> tuple[str, ...]:
    """The classes of the file: those that sources mark, then those that models find and are asked for.

    Raises:
        LabellingError: no model knows a class that is asked for, or all of them are marked already.
    """
    known = dict.fromkeys(name for names in of_models for name in names)
    strange = [name for name in args.only or () if name not in known]
    if strange:
        raise LabellingError(
            f'no model knows {", ".join(strange)}; expected some of {", ".join(known)}. Bring names '
            f'together with --rename NAME|FILE, such as {{"car": "vehicle"}}'
        )
    wanted = [name for name in known if args.only is None or name in args.only]
    if all(set(wanted) <= set(_marked(frame, one)) for one in sources for frame in one.frames):
        raise LabellingError(
            f'all that the models find is marked already: {", ".join(wanted)}; expected a class that '
            f'is missing in a source'
        )
    marked = dict.fromkeys(name for one in sources for name in one.class_names)
    return classes_of_set([[*marked], wanted], tuple(marked))


def _marked(frame: Frame, sequence: DrivingSequence) -> tuple[str, ...]:
    return () if frame.ground_truth is None else sequence.class_names


def _jobs(
    args: argparse.Namespace,
    sources: Sequence[DrivingSequence],
    data: Sequence[DrivingSequence],
    names: tuple[str, ...],
) -> list[LabelJob]:
    """All images, those that only thresholds are chosen on first."""
    jobs = []
    for sequence in data:
        frames = annotated_frames(sequence, _CHOSEN_ON)
        jobs += [LabelJob(*_labels(frame, sequence, names), measures=True) for frame in frames]
    folders: set[str] = set()
    files: set[str] = set()
    for sequence in sources:
        folder = sequence.name
        while folder in folders:
            folder += '_'
        folders.add(folder)
        annotated = [frame for frame in sequence.frames if frame.ground_truth is not None]
        measured = (
            {frame.name for frame in annotated_frames(sequence, _CHOSEN_ON)} if annotated else set()
        )
        for frame in sequence.frames:
            file, copy = file_of(frame.load_bgr), None
            if file is None:
                file = copy = args.images / folder / f'{frame.name}.{args.image_type}'
            name = Path(os.path.relpath(file.absolute(), args.out.absolute().parent)).as_posix()
            if name in files:
                raise ValueError(f'image {file} occurs in two sources, expected it once')
            files.add(name)
            jobs.append(
                LabelJob(*_labels(frame, sequence, names), name, copy, frame.name in measured)
            )
    return jobs


def _labels(
    frame: Frame, sequence: DrivingSequence, names: tuple[str, ...]
) -> tuple[Frame, frozenset[int]]:
    """The frame with labels that index the classes of the run, and the places of those that are marked in it."""
    if frame.ground_truth is None:
        return frame, frozenset()
    known = relabelled(frame.ground_truth, sequence.class_names, names)
    return replace(frame, ground_truth=known), frozenset(
        names.index(name) for name in sequence.class_names if name in names
    )
