"""The work of `deadline-perception adopt`: conventions, further members, accuracy, times, and what is reported of them."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.errors import command_line
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.data.class_names import read_class_mapping, relabelled
from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.data.records import Sequence as DrivingSequence
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.path_accuracy import (
    PathScores,
    annotated_frames,
    ranking_classes,
    sample_paths,
)
from deadline_perception.extras.evaluation.sample_size import samples_needed
from deadline_perception.extras.external_models.exported.exported_file import read_exported
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.model_set import ModelSet
from deadline_perception.extras.external_models.model_set.pruning import (
    Candidate,
    memory_prune,
    paths_to_keep,
)
from deadline_perception.extras.external_models.model_set.set_file import (
    ModelSpec,
    SetFile,
    build_set,
    check_memory,
    load_model,
)
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import load_weights
from deadline_perception.system.priority import ThreadPriority
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile, default_profile_path
from deadline_perception.tools.evaluate import evaluate_with_progress, score_rows, tell_unscored
from deadline_perception.tools.model_conventions import TrialImages, find_conventions
from deadline_perception.tools.model_variants import at_open_sizes, name_in_8_bit, quantised
from deadline_perception.tools.profile import (
    Effort,
    measure_with_progress,
    say_if_busy,
    spread_images,
)
from deadline_perception.tools.support.model_arguments import classes_of_set, renamed
from deadline_perception.tools.support.model_probe import ModelFacts, probe_model
from deadline_perception.tools.support.segment_preparation import prepare_for_engine
from deadline_perception.tools.support.terminal import say

_TARGET = 0.99  # of the detector's bounds unless a parameter says otherwise
_TRIAL_IMAGES = 20  # of a rendered drive, that conventions are found on
_LEAST_ENGINE_GAIN = 0.9  # share of OpenVINO's time that another engine may take to be preferred
_MOST_LOSS, _LEAST_GAIN = (
    0.5,
    0.8,
)  # AP in percent that 8 bit may lose, share of the time that it may take


@dataclass(frozen=True)
class Measured:
    """One detector, as far as it is known before the set is timed.

    Attributes:
        spec: which it is.
        facts: what was seen of it.
        scores: by its own paths; empty without data.
    """

    spec: ModelSpec
    facts: ModelFacts
    scores: dict[ExecutionPath, PathScores]

    def candidate(self, ranked: bool) -> Candidate:
        """For pruning: by its largest path; the slower the better where nothing was evaluated."""
        quality = max(
            (_value(scores, ranked) for scores in self.scores.values()), default=self.facts.time_ms
        )
        return Candidate(self.spec.name, self.facts.time_ms, quality, self.facts.memory_mb)


def adopt(args: argparse.Namespace, specs: Sequence[ModelSpec], priority: ThreadPriority) -> None:
    """Makes a set of detectors, its profile and its quality table, and says what it found.

    Raises:
        DeadlinePerceptionError: a detector cannot be used; says why.
    """
    use_threads(args.threads)
    facts = read_device_facts(args.device)
    mapping = {} if args.rename is None else read_class_mapping(args.rename)
    sequence = None if args.data is None else renamed(open_source(args.data), mapping)
    frames = [] if sequence is None else annotated_frames(sequence, args.limit)
    training = sequence if args.images is None else renamed(open_source(args.images), mapping)
    seen = frames if args.images is None else training.frames
    images = spread_images(seen or render_drive(seconds=8.0).frames)
    say_if_busy('the profile will make the models look slower than they are.')
    specs = _with_conventions(args, specs, training, images)
    known = _probe(args, specs, images)
    classes = classes_of_set(
        [facts.class_names for _, facts in known], sequence.class_names if sequence else ()
    )
    ranking = _ranking(sequence, frames, classes)
    measured = [
        Measured(
            spec,
            seen,
            _evaluate(args, spec, classes, sequence, frames, ranking) if sequence else {},
        )
        for spec, seen in known
    ]
    words = []
    for one in list(measured) if sequence and not args.float_only else []:
        quantised, notes = _in_8_bit(
            args, one, measured, images, classes, sequence, frames, ranking
        )
        measured += quantised
        words += notes
    kept, pruned = _prune(args, measured, bool(ranking))
    words += pruned
    kept.sort(key=lambda one: one.facts.time_ms)
    content = SetFile(
        tuple(replace(one.spec, memory_mb=round(one.facts.memory_mb, 1)) for one in kept), classes
    )
    check_memory(content.models)
    network = build_set(
        args.out.stem, content, [load_model(one.spec, args.device, args.engine) for one in kept]
    )
    profile = _time(network, images, args, priority)
    files = [
        args.out.with_suffix('.profile.json'),
        default_profile_path(network.config_name, facts),
    ]
    table = _quality_table(network, kept, sequence, frames, ranking)
    quality_file = args.out.with_suffix('.quality.json')
    quality = None
    if table is None:
        quality_file.unlink(missing_ok=True)  # that of an earlier set would be refused
    else:
        replace_file(quality_file, json.dumps(table, indent=1, allow_nan=False) + '\n')
        quality = PathQuality.load(quality_file, network.path_space)
    if args.keep_paths and quality is not None:
        forecast = PathForecast(profile, network.path_space)
        content, notes = _with_kept_paths(args, content, network, forecast, quality, images)
        words += notes
    for file in files:
        profile.save(file)
    content.save(args.out)
    _report(args, network, profile, kept, ranking, words, quality)
    _tell_classes(network, sequence, frames)
    _next_steps(args, network, profile, table is not None)


def _probe(
    args: argparse.Namespace, specs: Sequence[ModelSpec], images: list[np.ndarray]
) -> list[tuple[ModelSpec, ModelFacts]]:
    """Each detector, loaded alone: what cannot be used is reported before anything is measured for minutes."""
    known = []
    for spec in specs:
        if spec.kind == 'multi-path':
            prepare_for_engine(
                spec.file,
                load_weights(spec.file),
                images,
                read_device_facts(args.device),
                args.engine,
            )
        facts = probe_model(
            spec, images, device=args.device, engine=args.engine, threads=args.threads
        )
        paths = f', {facts.paths} paths' if facts.paths > 1 else ''
        say(
            f'{spec.name}: {spec.kind}, {facts.input_size[0]} x {facts.input_size[1]} px, {len(facts.class_names)} '
            f'classes{paths}, {facts.memory_mb:.0f} MB, ready after {facts.start_s:.1f} s, {facts.time_ms:.1f} ms a '
            f'frame'
        )
        if facts.notice:
            say(f'  {facts.notice}')
        known.append(_faster_engine(args, spec, facts, images))
    return known


def _faster_engine(
    args: argparse.Namespace, spec: ModelSpec, facts: ModelFacts, images: list[np.ndarray]
) -> tuple[ModelSpec, ModelFacts]:
    """An ONNX file on a CPU with the faster of the two engines that can run it; both are tried."""
    if (
        spec.kind != 'onnx'
        or spec.engine
        or spec.file.suffix.lower() != '.onnx'
        or args.device != 'cpu'
    ):
        return spec, facts
    other = replace(spec, engine='onnxruntime')
    try:
        seen = probe_model(
            other, images, device=args.device, engine=args.engine, threads=args.threads
        )
    except ModelError as error:
        say(f'  OpenVINO runs it; ONNX Runtime does not: {error}')
        return spec, facts
    is_faster = seen.time_ms < _LEAST_ENGINE_GAIN * facts.time_ms
    say(
        f'  OpenVINO takes {facts.time_ms:.1f} ms and ONNX Runtime {seen.time_ms:.1f}: '
        f'{"ONNX Runtime" if is_faster else "OpenVINO"} runs it'
    )
    return (other, seen) if is_faster else (spec, facts)


def _with_conventions(
    args: argparse.Namespace,
    specs: Sequence[ModelSpec],
    sequence: DrivingSequence | None,
    images: list[np.ndarray],
) -> list[ModelSpec]:
    """The detectors with what their files do not say, where nobody has stated it: found on some images; those of open
    size at several sizes."""
    found = []
    trial = None
    for spec in specs:
        if spec.kind != 'onnx' or spec.resize or spec.decode:
            found.append(spec)
            continue
        trial = trial or (
            TrialImages(images[:_TRIAL_IMAGES]) if sequence is None else TrialImages.of(sequence)
        )
        conventions = find_conventions(spec, trial)
        on = (
            f'AP {100 * conventions.ap:.1f} on'
            if conventions.ap is not None
            else 'by its confidence on'
        )
        say(
            f'{spec.name} is read as {conventions.words} ({on} {len(trial.images_bgr)} images, the best of '
            f'{len(conventions.tried)} ways)'
        )
        found += at_open_sizes(conventions.spec, images[0].shape[:2], args.input_size is not None)
    return found


def _in_8_bit(
    args: argparse.Namespace,
    one: Measured,
    measured: list[Measured],
    images: list[np.ndarray],
    classes: tuple[str, ...],
    sequence: DrivingSequence,
    frames: list[Frame],
    ranking: dict[str, int],
) -> tuple[list[Measured], list[str]]:
    """The same detector in 8 bit, where that is worth it and no earlier set has brought it, and a sentence on it."""
    if one.spec.kind != 'onnx' or name_in_8_bit(one.spec) in [
        other.spec.name for other in measured
    ]:
        return [], []
    if read_exported(one.spec.file).layers != 'float':
        return [], []
    say(f'quantising {one.spec.name}')
    try:
        spec = quantised(
            replace(one.spec, engine=''), images, args.out.parent / f'{args.out.stem}_8bit'
        )
        facts = probe_model(
            spec, images, device=args.device, engine=args.engine, threads=args.threads
        )
        before = probe_model(
            one.spec, images, device=args.device, engine=args.engine, threads=args.threads
        )
        scores = _evaluate(args, spec, classes, sequence, frames, ranking)
    except ModelError as error:
        return [], [f'{one.spec.name} stays in floating point: {error}']
    loss = 100 * (
        max(_value(score, bool(ranking)) for score in one.scores.values())
        - max(_value(score, bool(ranking)) for score in scores.values())
    )
    notes = (
        f'{one.spec.name} in 8 bit: {facts.time_ms:.1f} ms in place of {before.time_ms:.1f}, AP '
        f'{"less" if loss > 0 else "more"} by {abs(loss):.1f}'
    )
    if loss > _MOST_LOSS or facts.time_ms > _LEAST_GAIN * before.time_ms:
        spec.file.unlink()
        spec.file.with_suffix('.bin').unlink()
        return [], [f'{notes}: not kept']
    return [Measured(spec, facts, scores)], [notes]


def _ranking(
    sequence: DrivingSequence | None, frames: Sequence[Frame], classes: tuple[str, ...]
) -> dict[str, int]:
    if sequence is None:
        return {}
    shared = [name for name in classes if name in sequence.class_names]
    if not shared:
        raise ModelError(
            f'the models find {", ".join(classes)} and {sequence.name} names '
            f'{", ".join(sequence.class_names)}: expected a class in common. Bring them together with '
            f'--rename FILE, such as {{"car": "vehicle"}}'
        )
    return ranking_classes(
        [relabelled(frame.ground_truth, sequence.class_names, classes) for frame in frames], classes
    )


def _evaluate(
    args: argparse.Namespace,
    spec: ModelSpec,
    classes: tuple[str, ...],
    sequence: DrivingSequence,
    frames: list[Frame],
    ranking: dict[str, int],
) -> dict[ExecutionPath, PathScores]:
    """The scores of one detector's paths. A class that it cannot find counts as not found."""
    engine = 'eager' if args.device != 'cpu' else args.engine  # CUDA graphs serve one run at a time
    say(f'evaluating {spec.name}')
    alone = ModelSet('one', {spec.name: load_model(spec, args.device, engine)}, classes)
    space = alone.models[spec.name].path_space
    paths = sample_paths(space, max(2, args.paths)) if len(space) > 1 else [space.largest]
    scores = evaluate_with_progress(
        alone,
        sequence,
        frames,
        [alone.whole(spec.name, path) for path in paths],
        ranked_by=tuple(ranking),
    )
    return {alone.part(path)[1]: score for path, score in scores.items()}


def _value(scores: PathScores, ranked: bool) -> float:
    value = scores.pooled if ranked else scores.precision.ap
    return 0.0 if value is None or math.isnan(value) else float(value)


def _prune(
    args: argparse.Namespace, measured: list[Measured], ranked: bool
) -> tuple[list[Measured], list[str]]:
    """What stays, and a sentence on each that does not."""
    words, kept = [], [one.candidate(ranked) for one in measured]
    if args.memory_limit is not None:
        before, kept = kept, memory_prune(kept, args.memory_limit)
        for candidate in before:
            if candidate not in kept:
                words.append(
                    f'{candidate.name} is left out: its {candidate.memory_mb:.0f} MB do not fit beside those '
                    f'of {", ".join(other.name for other in kept)} within {args.memory_limit:.0f} MB'
                )
    names = {candidate.name for candidate in kept}
    return [one for one in measured if one.spec.name in names], words


def _time(
    network: ModelSet, images: list[np.ndarray], args: argparse.Namespace, priority: ThreadPriority
) -> LatencyProfile:
    """The latency profile of the set, frames of all models mixed."""
    wholes = min(len(network.path_space), 40)
    effort = Effort(50, max(2, wholes), max(12, math.ceil(samples_needed(_TARGET) / wholes)))
    return measure_with_progress(
        network,
        images,
        priority,
        f'timing {len(network.models)} models',
        args.minutes * 60.0,
        effort,
    )


def _quality_table(
    network: ModelSet,
    kept: list[Measured],
    sequence: DrivingSequence | None,
    frames: list[Frame],
    ranking: dict[str, int],
) -> dict | None:
    """What `PathQuality.load` reads; None without data."""
    if sequence is None:
        return None
    metric = 'pooled_ap' if ranking else 'ap'
    rows = {
        str(network.whole(one.spec.name, path)): row
        for one in kept
        for path, row in score_rows(one.scores, metric).items()
    }
    return {
        'weights_hash': network.weights_hash,
        'dataset': sequence.name,
        'metric': metric,
        'ranked_by': ranking,
        'images': len(frames),
        'paths': rows,
    }


def _with_kept_paths(
    args: argparse.Namespace,
    content: SetFile,
    network: ModelSet,
    forecast: PathForecast,
    quality: PathQuality,
    images: list[np.ndarray],
) -> tuple[SetFile, list[str]]:
    """The set with the paths that models keep ready, and what that saves."""
    specs, words = [], []
    for spec in content.models:
        space = network.models[spec.name].path_space
        if len(space) <= args.keep_paths:
            specs.append(spec)
            continue
        wholes = {str(path): network.whole(spec.name, path) for path in space}
        times, values = forecast.table(list(wholes.values())), quality.table(list(wholes.values()))
        names = paths_to_keep(
            [
                Candidate(name, time_ms, value)
                for name, time_ms, value in zip(wholes, times, values)
            ],
            args.keep_paths,
        )
        smaller = replace(spec, kept_paths=names)
        facts = probe_model(
            smaller, images, device=args.device, engine=args.engine, threads=args.threads
        )
        before = probe_model(
            spec, images, device=args.device, engine=args.engine, threads=args.threads
        )
        words.append(
            f'{spec.name} keeps {len(names)} of {len(space)} paths ready: {facts.memory_mb:.0f} MB after '
            f'{facts.start_s:.1f} s, with all of them {before.memory_mb:.0f} MB after {before.start_s:.1f} s'
        )
        specs.append(replace(smaller, memory_mb=round(facts.memory_mb, 1)))
    return replace(content, models=tuple(specs)), words


def _report(
    args: argparse.Namespace,
    network: ModelSet,
    profile: LatencyProfile,
    kept: list[Measured],
    ranking: dict[str, int],
    words: list[str],
    quality: PathQuality | None,
) -> None:
    """One table, and what to know of it."""
    from rich.console import Console
    from rich.table import Table

    forecast = PathForecast(profile, network.path_space)
    factor = math.exp(max(0.0, forecast.residual_quantile(_TARGET)))
    table = Table(
        title=f'{args.out.stem} on {profile.facts}',
        caption='bound: exceeded by 1 frame in 100; '
        + (
            f'AP: mean of {", ".join(ranking)}'
            if ranking
            else 'AP: mean of all classes with objects'
        ),
    )
    for title in ('model', 'p50 ms', 'p99 ms', 'bound ms', 'AP', 'AP50', 'memory MB'):
        is_name = title == 'model'
        table.add_column(
            title,
            justify='left' if is_name else 'right',
            overflow='fold',
            no_wrap=not is_name,
            min_width=0 if is_name else len(title),
        )
    for one in kept:
        space = network.models[one.spec.name].path_space
        for path in dict.fromkeys((space.smallest, space.largest)):
            whole = network.whole(one.spec.name, path)
            times, scores = profile.paths.get(str(whole)), one.scores.get(path)
            shown = (
                [f'{times.p50:.1f}', f'{times.p99:.1f}']
                if times
                else [f'{forecast.forecast_ms(whole):.1f}', '-']
            )
            table.add_row(
                one.spec.name + (f' {path}' if len(space) > 1 else ''),
                *shown,
                f'{forecast.forecast_ms(whole) * factor:.1f}',
                '-' if scores is None else f'{100 * _value(scores, bool(ranking)):.1f}',
                '-' if scores is None else f'{100 * (scores.precision.ap50 or 0.0):.1f}',
                f'{one.facts.memory_mb:.0f}',
            )
    Console(markup=False, emoji=False).print(table)
    for sentence in words:
        print(sentence)
    chosen = quality or PathQuality.from_forecast(network.path_space, forecast)
    used = {
        network.part(path)[0]
        for path, _, _ in FrontierPolicy(network.path_space, forecast, chosen).starts()
    }
    idle = [name for name in network.models if name not in used]
    if idle:
        print(f'never chosen, because another is at least as fast and as good: {", ".join(idle)}')


def _tell_classes(network: ModelSet, sequence: DrivingSequence | None, frames: list[Frame]) -> None:
    for model in network.models:
        unseen = network.unseen(model)
        if unseen:
            print(f'{model} cannot see: {", ".join(unseen)}')
    if sequence is not None:
        tell_unscored(sequence, frames, network.class_names, '--rename')


def _next_steps(
    args: argparse.Namespace, network: ModelSet, profile: LatencyProfile, has_quality: bool
) -> None:
    forecast = PathForecast(profile, network.path_space)
    least_ms = min(forecast.table(list(network.path_space))) * math.exp(
        max(0.0, forecast.residual_quantile(_TARGET))
    )
    files = [args.out.name, args.out.with_suffix('.profile.json').name]
    files += [args.out.with_suffix('.quality.json').name] * has_quality
    print(
        f'wrote {", ".join(files)} to {args.out.absolute().parent}\n'
        f'Budgets below {least_ms:.0f} ms and what camera and publishing take beside it cannot be met: see '
        f'config/time_budget.yaml.\n'
        f'Next:\n'
        f'  ros2 launch deadline_perception perception.launch.py model:={args.out.absolute()} '
        f'image_topic:=/camera/image_raw\n'
        f'  {command_line(f"profile --weights {args.out}")}    # once on every other device'
    )
