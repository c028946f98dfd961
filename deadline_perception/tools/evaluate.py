"""Measure the average precision of execution paths on annotated images, and write the table the decision uses.

Put the table beside the weights, named like them with .quality.json at the end, and the detector node finds it. Paths
that were not measured are predicted from those that were; how well is printed and written, and with every path how far
chance in the choice of images reaches, by which the decision trusts its measurement. Several processes share the
images out: torchrun --nproc-per-node 2 -m deadline_perception.tools.command_line evaluate ...

Of a nested classifier, all levels are shown the annotated objects, and rendered ones, at several sizes; then only
--data, --classes, --limit, --json and --threads are looked at.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np

from deadline_perception.core.detections import Classification
from deadline_perception.core.device import use_threads
from deadline_perception.core.errors import command_line
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import TABLE_VERSION, PathQuality
from deadline_perception.decision.scene import SIZE_EDGES
from deadline_perception.extras.data.class_maps import best_map, with_fitting_map
from deadline_perception.extras.data.class_names import counted, left_out, relabelled
from deadline_perception.extras.data.joined_sequence import joined
from deadline_perception.extras.data.records import Sequence as DrivingSequence
from deadline_perception.extras.data.source import CLASSES_HELP, open_source
from deadline_perception.extras.evaluation.path_accuracy import (
    RANKING_OBJECTS,
    PathScores,
    annotated_frames,
    measure_paths,
    ranking_classes,
    readable_frames,
    sample_paths,
)
from deadline_perception.extras.evaluation.prediction_error import (
    PredictionError,
    chance_errors,
    prediction_error,
)
from deadline_perception.extras.evaluation.size_precision import objects_by_size
from deadline_perception.extras.workers import Workers, joined_workers, own_gpu
from deadline_perception.networks.model_reference import (
    find_weights,
    load_weights,
)
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.tools.crop_evaluation import evaluate_crops
from deadline_perception.tools.support.file_arguments import (
    DEFAULT_WEIGHTS,
    THREADS,
    add_device_arguments,
    check_file,
    check_numbers,
)
from deadline_perception.tools.support.terminal import print_table, progress_bar

_SAMPLE = 60
_SHOWN = 25
_DRAWS = 200  # of images; standard errors of so many are known to 5 %


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        '--data',
        required=True,
        nargs='+',
        metavar='SOURCE',
        help='annotated images: COCO files, data '
        'sets, bags or drives; of several, a class is scored on the images of those that name it',
    )
    parser.add_argument(
        '--model',
        '--weights',
        dest='weights',
        type=Path,
        default=DEFAULT_WEIGHTS,
        help='network to evaluate, or a set of models (see adopt)',
    )
    parser.add_argument(
        '--paths',
        default='full',
        help=f'with commas: full, cheapest, sample ({_SAMPLE} telling '
        'paths), all, frontier (needs --profile and --quality), or names of paths',
    )
    parser.add_argument('--classes', metavar='NAME|FILE', help=CLASSES_HELP)
    parser.add_argument(
        '--rank-by',
        metavar='NAMES|NUMBER',
        help='classes whose mean AP ranks the paths: names with '
        f'commas, or the least number of objects of a class ({RANKING_OBJECTS} without the option)',
    )
    parser.add_argument(
        '--out',
        '--json',
        dest='json',
        type=Path,
        default=Path('out/evaluation/quality.json'),
        help='table to write',
    )
    parser.add_argument(
        '--calibrate',
        action='store_true',
        help='make scores of --model probabilities: fit a curve '
        'per class on detections of the full path on these images, and keep it with the weights',
    )
    parser.add_argument('--limit', type=int, help='use only so many images, evenly spaced')
    parser.add_argument('--profile', type=Path, help='latency profile, for the frontier')
    parser.add_argument(
        '--quality', type=Path, help='table of qualities measured before, for the frontier'
    )
    add_device_arguments(parser, 1)


def run(args: argparse.Namespace) -> int:
    """Evaluates, writes the table and prints it; returns the exit status."""
    with joined_workers() as workers:
        return _evaluate(args, workers)


def _evaluate(args: argparse.Namespace, workers: Workers) -> int:
    check_file('--json', args.json, args.weights, args.classes, args.profile, *args.data)
    check_numbers(args, threads=THREADS)
    # The data first: what is wrong with them is reported before a network loads.
    sequences = [open_source(source, classes=args.classes) for source in args.data]
    if not any(frame.ground_truth is not None for one in sequences for frame in one.frames):
        annotated_frames(sequences[0])
    use_threads(args.threads)
    on_own_gpu = args.device == 'cuda' and workers.count > 1
    detector = load_weights(find_weights(args.weights), own_gpu() if on_own_gpu else args.device)
    if detector.result_type is Classification:
        if len(args.data) > 1:
            raise ValueError(
                f'--data names {len(args.data)} sources, expected one for a classifier'
            )
        return evaluate_crops(
            detector, data=args.data[0], classes=args.classes, limit=args.limit, file=args.json
        )
    from deadline_perception.networks.multi_path.network import MultiPathDetector

    if args.calibrate and (not isinstance(detector, MultiPathDetector) or workers.count > 1):
        raise ValueError('--calibrate is for weights of a multi-path detector, in one process')
    paths = chosen_paths(args, detector)
    if args.classes is None:
        sequences = [_brought_together(one, detector.class_names) for one in sequences]
    sequence = joined(sequences, detector.class_names)
    annotated = annotated_frames(sequence, args.limit)
    if not set(detector.class_names) & set(sequence.class_names):
        raise ValueError(
            f'{sequence.name} names {", ".join(sequence.class_names)}, the weights know '
            f'{", ".join(detector.class_names)}; expected one class in common, see --classes'
        )
    frames = readable_frames(annotated)
    ground_truths = [
        relabelled(frame.ground_truth, sequence.class_names, detector.class_names)
        for frame in frames
    ]
    if args.calibrate:
        _calibrate(detector, find_weights(args.weights), frames, ground_truths)
    ranking = ranking_classes(ground_truths, detector.class_names, args.rank_by)
    results = evaluate_with_progress(detector, sequence, frames, paths, workers, tuple(ranking))
    if results is None:
        return 0
    ranked_by = 'pooled_ap' if ranking else 'ap'
    rows = score_rows(results, ranked_by)
    image_sizes = [frame.load_bgr().shape[:2] for frame in frames]
    objects = objects_by_size(ground_truths, len(detector.class_names), image_sizes)
    table = {
        'version': TABLE_VERSION,
        'weights_hash': detector.weights_hash,
        'dataset': sequence.name,
        'metric': ranked_by,
        'ranked_by': ranking,
        'images': len(frames),
        'sizes': {
            'edges': list(SIZE_EDGES),
            'classes': list(detector.class_names),
            'objects': objects.tolist(),
        },
        'paths': {str(path): row for path, row in rows.items()},
    }
    quality = PathQuality(
        {path: row[ranked_by] for path, row in rows.items()},
        errors={path: row[f'{ranked_by}_error'] for path, row in rows.items()},
    )
    error = prediction_error(quality)
    table['prediction_error'] = None if error is None else asdict(error)
    replace_file(args.json, json.dumps(table, indent=1, allow_nan=False) + '\n')
    _print(results, quality, len(frames), sequence.name, error)
    print(
        'paths are ranked by '
        + (
            f'the mean AP of {_objects(ranking)}'
            if ranking
            else f'the mean AP of all classes: none has {args.rank_by or RANKING_OBJECTS} objects'
        )
    )
    tell_unscored(sequence, frames, detector.class_names, '--classes')
    if len(frames) < len(annotated):
        print(
            f'left out: {len(annotated) - len(frames)} of {len(annotated)} images, which cannot be read'
        )
    print(f'wrote {args.json}')
    return 0


def _brought_together(sequence: DrivingSequence, class_names: tuple[str, ...]) -> DrivingSequence:
    """The sequence with classes that the network has not renamed by the shipped map that fits."""
    sequence, applied = with_fitting_map(sequence, class_names)
    if applied:
        print(f'{sequence.name}: {applied.described()}')
    return sequence


def _calibrate(detector, file: Path, frames: list, ground_truths: list) -> None:
    """Fits the curves of scores and writes the weights with them; their figures are otherwise the same."""
    from deadline_perception.extras.evaluation.path_accuracy import detect_on_frames
    from deadline_perception.extras.evaluation.reliability import scored_detections
    from deadline_perception.extras.training.calibration_fit import fit_calibration
    from deadline_perception.extras.weights_writer import save_detector
    from deadline_perception.networks.weights_file import read_header

    detector.score_calibration = None
    full = detector.path_space.largest
    found = detect_on_frames(detector, frames, [full])[full]
    scored = scored_detections(found, ground_truths, detector.class_names)
    detector.score_calibration = fit_calibration(
        [one.scores for one in scored.values()], [one.hits for one in scored.values()]
    )
    kept = read_header(file).metadata
    save_detector(
        detector, file, **{name: kept[name] for name in ('recipe', 'licence') if name in kept}
    )
    for name, one in scored.items():
        print(
            f'{name}: calibration error {one.calibration_error:.3f} before, {len(one.scores)} detections'
        )
    print(f'wrote {file} with a curve of scores per class')


def chosen_paths(args: argparse.Namespace, detector) -> list[ExecutionPath]:
    """The paths that `--paths` means, each once.

    Raises:
        ValueError: the frontier is asked for without what decides it, or a path is not the network's.
    """
    space = detector.path_space
    sets = {
        'full': lambda: [space.largest],
        'cheapest': lambda: [space.smallest],
        'all': lambda: list(space),
        'sample': lambda: sample_paths(space, _SAMPLE),
        'frontier': lambda: _frontier(args, detector),
    }
    chosen: dict[ExecutionPath, None] = {}
    for word in args.paths.split(','):
        chosen.update(dict.fromkeys(sets[word]() if word in sets else [_named(word, space)]))
    return list(chosen)


def _named(name: str, space: PathSpace) -> ExecutionPath:
    try:
        return space.parse(name)
    except ValueError as error:
        raise ValueError(f'--paths: {error}; or full, cheapest, sample, all, frontier') from error


def _frontier(args: argparse.Namespace, detector) -> list[ExecutionPath]:
    """Paths that are best for the time they take, by the profile's times and the qualities known or predicted."""
    if args.profile is None or args.quality is None:
        raise ValueError(
            f'the frontier follows from --profile (see {command_line("profile")}) and --quality (a table '
            'of this command, such as with --paths sample), expected both'
        )
    space = detector.path_space
    quality = PathQuality.load(args.quality, space)
    quality.check(detector.weights_hash)
    policy = FrontierPolicy(space, PathForecast(LatencyProfile.load(args.profile), space), quality)
    return [path for path, _, _ in policy.starts()]


def _objects(counts: dict[str, int]) -> str:
    return ', '.join(f'{name} ({count} objects)' for name, count in counts.items())


def tell_unscored(
    sequence: DrivingSequence, frames: list, class_names: tuple[str, ...], option: str
) -> None:
    """Prints which classes the data do not name, and which of their boxes no class is for; an option renames them."""
    unscored = [name for name in class_names if name not in sequence.class_names]
    if unscored:
        shown = ', '.join(unscored[:8]) + (
            f' and {len(unscored) - 8} more' if len(unscored) > 8 else ''
        )
        print(f'not scored, because {sequence.name} does not name them: {shown}')
    unknown = left_out((frame.ground_truth for frame in frames), sequence.class_names, class_names)
    if unknown:
        helpful = best_map([*unknown], class_names)
        names = f'{option} {helpful.name}' if helpful else option
        print(
            f'boxes left out, because no model finds their class: {counted(unknown)}; {names} brings names together'
        )


def evaluate_with_progress(
    detector,
    sequence,
    frames: list,
    paths: list[ExecutionPath],
    workers: Workers = Workers(),
    ranked_by: tuple[str, ...] = (),
) -> dict[ExecutionPath, PathScores] | None:
    """See `measure_paths`, with a bar that shows how far it is."""
    with progress_bar(
        f'{len(paths)} paths on {len(frames)} images',
        len(paths) * len(workers.share(frames)),
        'count',
        'left:',
        'left',
        shown=workers.leads,
    ) as update:
        return measure_paths(
            detector,
            sequence,
            frames,
            paths,
            lambda done: update(completed=done),
            workers,
            _DRAWS,
            ranked_by,
        )


def score_rows(scores: dict[ExecutionPath, PathScores], metric: str) -> dict[ExecutionPath, dict]:
    """The entries of paths, with the errors of a metric; an AP of 0 stands where nothing could be scored, so that the
    table can be loaded."""
    rows = {}
    errors = chance_errors(list(scores), np.array([one.resampled for one in scores.values()]))
    for (path, one), error in zip(scores.items(), errors.tolist()):
        row = asdict(one.precision) | {'pooled_ap': None if math.isnan(one.pooled) else one.pooled}
        del row['images']
        row['by_size'] = [
            [None if math.isnan(value) else value for value in values]
            for values in one.by_size.tolist()
        ]
        rows[path] = (
            row | {name: row[name] or 0.0 for name in ('ap', 'ap50')} | {f'{metric}_error': error}
        )
    return rows


def _print(
    results: dict[ExecutionPath, PathScores],
    quality: PathQuality,
    images: int,
    name: str,
    error: PredictionError | None,
) -> None:
    rows = []
    ranked = sorted(results.items(), key=lambda item: -(item[1].precision.ap or 0.0))
    for path, (result, pooled, *_) in ranked[:_SHOWN]:
        values = (
            result.ap,
            result.ap50,
            result.ap_small,
            result.ap_medium,
            result.ap_large,
            pooled,
            quality.quality(path),
        )
        rows.append(
            [
                str(path),
                *(
                    '-' if value is None or math.isnan(value) else f'{100 * value:.1f}'
                    for value in values
                ),
            ]
        )
    print_table(
        f'average precision on {images} images of {name}, 0 to 100',
        ('path', 'AP', 'AP50', 'S', 'M', 'L', 'rank', 'exp.'),
        rows,
        left=('path',),
        no_wrap=True,
        caption='S, M, L: small, medium, large objects; rank: classes that paths are ranked by; exp.: '
        'expected, which the decision goes by: measurement and prediction weighed by their errors',
    )
    if len(results) > _SHOWN:
        print(f'{len(results) - _SHOWN} paths of lower AP are in the file only')
    if error is not None:
        print(f'error of predicting a path from the others: {error}')
        print(
            f"of a measured path's distance from its prediction {quality.trust:.0%} count as its own, the rest as "
            'chance'
        )
