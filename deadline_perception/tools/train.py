"""Train a multi-path detector on annotated images and rendered drives; a run that ended early goes on where it was.

After --minutes, at SIGTERM or at Ctrl-C it saves its state and the averaged weights so far. The same command goes on.
Several GPUs, or processes on CPUs, share every batch out under torchrun: torchrun --nproc-per-node 4 --module
deadline_perception.tools.command_line train --device cuda ... The rate stays what --learning-rate says.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import time
from dataclasses import replace
from pathlib import Path

import torch

from deadline_perception.core.share_folder import DEFAULT_MODEL
from deadline_perception.extras.configuration_file import find_configuration
from deadline_perception.extras.data.class_maps import fitting_map, read_map
from deadline_perception.extras.data.class_names import with_mapping
from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.data.source import CLASSES_HELP, open_source
from deadline_perception.extras.evaluation.path_accuracy import readable_frames
from deadline_perception.extras.external_models.public_yolox import save_yolox
from deadline_perception.extras.faster_rcnn.configuration import DetectorConfig
from deadline_perception.extras.rendered_drive.drive import CLASS_NAMES, render_drives
from deadline_perception.extras.training.kept_apart import (
    LEAST_IMAGES,
    KeptApart,
    judged_by,
    keep_apart,
    mean_ap,
    verdict,
)
from deadline_perception.extras.training.level_trainer import LevelTrainer
from deadline_perception.extras.training.loss_log import open_log
from deadline_perception.extras.training.norm_statistics import measure_statistics
from deadline_perception.extras.training.public_start import start_from_public
from deadline_perception.extras.training.resnet_start import start_from_resnet
from deadline_perception.extras.training.samples import (
    AUGMENTATIONS,
    SampleSource,
    TrainingDataLost,
    all_class_names,
)
from deadline_perception.extras.training.strategies import STRATEGIES, Sandwich, find_strategy
from deadline_perception.extras.training.trainer import Trainer
from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.extras.training.weights_start import start_from_weights
from deadline_perception.extras.training.yolox_training import YoloxTrainer
from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.extras.workers import Workers, joined_workers, own_gpu
from deadline_perception.networks.kinds import YOLOX, weights_kind
from deadline_perception.networks.model_reference import find_weights, load_weights
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.multi_path.dense.network import DenseDetector
from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.networks.multi_path.operators import SlicedNorm
from deadline_perception.networks.weights_file import read_header
from deadline_perception.networks.yolox.network import YoloxDetector
from deadline_perception.tools.evaluate import evaluate_with_progress
from deadline_perception.tools.recipe import recipe_text
from deadline_perception.tools.support.file_arguments import THREADS, check_file, check_numbers
from deadline_perception.tools.support.stop_request import StopRequest
from deadline_perception.tools.support.terminal import progress_bar

_SAVE_EVERY_S = 60.0
_START_IMAGES = 16
DRIVE_SECONDS = 12.0
DRIVE_RATE_HZ = 2.0
FIRST_DRIVE_SEED = 1000  # drives to be judged on, such as the demo's, have seeds below


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_run_arguments(parser, 'train', steps=5000, batch=4, learning_rate=6e-4)
    parser.add_argument(
        '--classes',
        metavar='NAME|FILE',
        help=CLASSES_HELP + '; those of --start, of all data and of the rendered drives are learnt',
    )
    parser.add_argument(
        '--val',
        nargs='+',
        metavar='SOURCE',
        help='annotated images to judge the weights by; a tenth of --data, which is not learnt, without',
    )
    parser.add_argument(
        '--drives', type=int, default=0, help='rendered drives to add, each with its own seed'
    )
    parser.add_argument(
        '--drive-share', type=float, default=0.4, help='share of the samples from rendered drives'
    )
    parser.add_argument(
        '--config', default=DEFAULT_MODEL, help='shape of the network: a name, or a JSON file'
    )
    parser.add_argument(
        '--backbone',
        type=Path,
        help='ImageNet weights of a torchvision ResNet, a state_dict file, to '
        'start the backbone from (orin: resnet50, paper: resnet101)',
    )
    parser.add_argument(
        '--start',
        '--model',
        dest='start',
        type=Path,
        help='weights to start from, a file or the name of shipped ones, as far as --config has the same '
        'layers; for street also the public person-vehicle-bike-detection-2003.xml; a fresh network '
        'without',
    )
    parser.add_argument(
        '--crop',
        type=int,
        nargs=2,
        metavar=('HEIGHT', 'WIDTH'),
        help='train the first steps on windows of this size in px around objects, multiples of 32',
    )
    parser.add_argument(
        '--crop-share', type=float, default=0.5, help='share of the steps that train on windows'
    )
    parser.add_argument(
        '--size',
        type=int,
        nargs=2,
        action='append',
        default=[],
        metavar=('HEIGHT', 'WIDTH'),
        help='a size in px, multiples of 32, of which every step draws one; the input size without',
    )
    parser.add_argument(
        '--without',
        nargs='+',
        default=[],
        choices=AUGMENTATIONS,
        metavar='CHANGE',
        help='random '
        'changes of images to leave out: '
        + ', '.join(f'{name} ({words})' for name, words in AUGMENTATIONS.items()),
    )
    parser.add_argument(
        '--strategy',
        default='sandwich',
        help='paths that a step trains, one of '
        f'{", ".join(STRATEGIES)}: one path, with or without random skipping and random switching, or '
        'several; or alone:PATH, such as alone:s000-w1.00-p100-h1',
    )
    parser.add_argument(
        '--alone-share',
        type=float,
        default=Sandwich.alone_share,
        help='sandwich: share of the steps that train the largest path alone',
    )
    parser.add_argument(
        '--distillation-weight',
        type=float,
        default=Sandwich.distillation_weight,
        help="sandwich: weight of the largest path's output in the targets of the others; the rest is "
        'the ground truth',
    )
    parser.add_argument(
        '--threads',
        type=int,
        default=torch.get_num_threads(),
        help='CPU threads, and processes that render drives',
    )


def add_run_arguments(parser: argparse.ArgumentParser, folder: str, **defaults: float) -> None:
    """Declares what any training is given: its data, its steps, and where in `out` it is kept."""
    parser.add_argument(
        '--data',
        nargs='+',
        required=True,
        metavar='SOURCE',
        help='annotated images: COCO files, or '
        'data sets (their train split), bags and drives, as for the demo',
    )
    parser.add_argument('--steps', type=int, help='weight updates')
    parser.add_argument('--batch', type=int, help='images, or crops, per step')
    parser.add_argument('--learning-rate', type=float, help='peak rate')
    parser.add_argument('--seed', type=int, default=0, help='of weights and of all that is drawn')
    parser.add_argument('--device', default='cpu', help='cpu or cuda')
    parser.add_argument(
        '--minutes',
        type=float,
        help='end after so long, to be gone on with; at the last step without',
    )
    parser.add_argument(
        '--state',
        type=Path,
        default=Path(f'out/{folder}/state.safetensors'),
        help='where the run is kept',
    )
    parser.add_argument(
        '--out',
        type=Path,
        default=Path(f'out/{folder}/weights.safetensors'),
        help='weights to write',
    )
    parser.set_defaults(**defaults)


def run(args: argparse.Namespace) -> int:
    """Trains, saving every minute; returns the exit status."""
    check_numbers(
        args, threads=THREADS, drives=(0, math.inf), seed=(0, 2**63 - 1), drive_share=(0.001, 0.999)
    )
    stop = begun_run(args)
    if args.start is not None and args.start.suffix != '.xml' and args.backbone is None:
        args.start = find_weights(args.start)
        check_file('--out', args.out, args.start)
    with joined_workers() as workers:
        return _train(args, workers, stop)


def begun_run(args: argparse.Namespace) -> StopRequest:
    """Refuses places that a training cannot write to, and sets its threads and its end."""
    read = (args.start, *args.data)
    check_file('--out', args.out, *read)
    check_file('--state', args.state, args.out, *read)
    for suffix in ('.jsonl', '.png'):  # the losses
        check_file('--state', args.state.with_suffix(suffix), args.state, args.out, *read)
    torch.set_num_threads(args.threads)
    return StopRequest(args.minutes)


def ended_run(args: argparse.Namespace, step: int, stop: StopRequest) -> int:
    """Says what was written and whether the run is at its end; returns the exit status."""
    print(f'wrote {args.out}, {args.out.stat().st_size / 1e6:.1f} MB')
    if step == args.steps:
        return 0
    print(f'stopped at step {step} of {args.steps}; the same command goes on from {args.state}')
    return stop.exit_status


def _train(args: argparse.Namespace, workers: Workers, stop: StopRequest) -> int:
    device = args.device
    if device == 'cuda' and workers.count > 1:
        device = own_gpu()
        torch.cuda.set_device(device)
    plan = TrainingPlan(
        steps=args.steps,
        batch=args.batch,
        learning_rate=args.learning_rate,
        seed=args.seed,
        crop=None if args.crop is None else tuple(args.crop),
        crop_share=args.crop_share,
        sizes=tuple(tuple(size) for size in args.size),
    )
    sequences = [_annotated(text, args.classes) for text in args.data]
    if args.val:
        kept = judged_by([_annotated(text, args.classes, 'val') for text in args.val])
    else:
        sequences, kept = keep_apart(sequences)
    if args.backbone is None and _is_yolox(args.start):
        return _train_yolox(args, plan, sequences, kept, stop)
    mapping = {} if args.classes is None else read_map(args.classes)
    of_drives = [
        name
        for name in (mapping.get(name, name) for name in CLASS_NAMES)
        if name is not None and args.drives
    ]
    network, start = _network(
        args,
        tuple(dict.fromkeys((*all_class_names(sequences), *of_drives))),
        device,
        workers.leads,
        sequences,
    )
    strategy = find_strategy(args.strategy, network.path_space)
    if args.strategy == 'sandwich':
        strategy = Sandwich(
            alone_share=args.alone_share, distillation_weight=args.distillation_weight
        )
    source = _source(args, sequences, mapping, network, workers.leads)
    if (
        isinstance(network.config, DetectorConfig)
        and network.config.norm == 'frozen'
        and not args.state.is_file()
    ):
        _measure_norms(args, network, source, workers)
    trainer = Trainer(network, source, plan, strategy, workers, start)
    if args.state.is_file():
        trainer.resume(args.state)
    if not workers.leads:
        with stop.listening():
            trainer.run(stop=stop)
        return stop.exit_status if trainer.step < plan.steps else 0
    print(
        f'{len(source)} images, {sum(p.numel() for p in network.parameters()) / 1e6:.1f} M weights, '
        f'{len(network.path_space)} paths'
        + (f', goes on from step {trainer.step} of {args.state}' if trainer.step else '')
    )
    with stop.listening():
        run_and_save(trainer, args.state, stop)
    network.load_state_dict(trainer.average)
    save_detector(network, args.out, recipe=recipe_text(args, trainer.source.digest, trainer.step))
    if source.unreadable:
        print(f'left out: {len(source.unreadable)} of {len(source)} images, which cannot be read')
    _judge(args, network, kept, trainer.step)
    return ended_run(args, trainer.step, stop)


def _is_yolox(start: Path | None) -> bool:
    is_own = start is not None and start.suffix != '.xml'
    return is_own and weights_kind(read_header(start).metadata) == YOLOX


def _train_yolox(
    args: argparse.Namespace,
    plan: TrainingPlan,
    sequences: list[Sequence],
    kept: KeptApart | None,
    stop: StopRequest,
) -> int:
    """Trains the first look further: the classes stay those of its weights."""
    if args.device != 'cpu' or args.drives:
        raise ValueError(
            f'--device is {args.device} and --drives {args.drives}, expected cpu and 0 with {args.start}'
        )
    network = load_detector(args.start)
    shares = [math.sqrt(len(sequence.frames)) for sequence in sequences]
    source = SampleSource(
        sequences,
        shares,
        network.input_size,
        network.class_names,
        args.without,
    )
    trainer = YoloxTrainer(network, source, plan, network.weights_hash)
    if args.state.is_file():
        trainer.resume(args.state)
    print(f'{len(source)} images, goes on from step {trainer.step}')
    with stop.listening():
        run_and_save(trainer, args.state, stop, 'classes')
    network.load_state_dict(trainer.average)
    facts = read_header(args.start).metadata
    recipe = recipe_text(args, source.digest, trainer.step)
    save_yolox(network, args.out, licence=facts.get('licence', ''), recipe=recipe)
    _judge(args, network, kept, trainer.step)
    return ended_run(args, trainer.step, stop)


def _judge(
    args: argparse.Namespace,
    network: MultiPathDetector | YoloxDetector,
    kept: KeptApart | None,
    steps: int,
) -> None:
    """Says how the weights compare with those that the training began with, on images that it has not seen."""
    if kept is None:
        print(
            f'{steps} of {args.steps} steps done; no images were kept apart, for each of --data has fewer than '
            f'{LEAST_IMAGES}, so nobody knows whether the weights became better: name some with --val'
        )
        return
    frames = readable_frames(kept.frames)

    def precision(one: MultiPathDetector | YoloxDetector):
        path = one.path_space.largest
        return evaluate_with_progress(one, kept.sequence, frames, [path])[path].precision

    continues = args.start is not None and args.start.suffix != '.xml'
    start = load_weights(args.start, network.device) if continues else None
    before = None if start is None else mean_ap(precision(start), start.class_names)
    is_held_against = start is not None and before is not None
    names = start.class_names if is_held_against else network.class_names
    after = mean_ap(precision(network), names)
    print('\n'.join(verdict(before, after, len(frames), steps, args.steps)))
    if start is not None and before is None and after is not None:
        print('the start knows none of their classes, so that nothing can be held against it')


def _annotated(text: str, classes: str | None, split: str = 'train') -> Sequence:
    sequence = open_source(text, split=split, classes=classes)
    if not sequence.class_names:
        raise ValueError(f'source {text!r} has no annotations, expected some to train on')
    return sequence


def _source(
    args: argparse.Namespace,
    sequences: list[Sequence],
    mapping: dict[str, str | None],
    network: MultiPathDetector,
    leads: bool,
) -> SampleSource:
    """What is trained on: the annotated sequences and rendered drives, which take a while.

    A sequence's share goes with the square root of its images: large ones count for more, small ones are not lost.
    """
    seeds = range(FIRST_DRIVE_SEED, FIRST_DRIVE_SEED + args.drives)
    drives = render_drives(seeds, DRIVE_SECONDS, DRIVE_RATE_HZ, args.threads)
    if mapping:
        drives = [with_mapping(drive, mapping) for drive in drives]
    for sequence in [*sequences, *drives[:1]] if leads else []:
        missing = [name for name in network.class_names if name not in sequence.class_names]
        if missing:
            print(
                f'{sequence.name} does not name {", ".join(missing)}: they take no part in the classes of its '
                'regions'
            )
    weights = [math.sqrt(len(sequence.frames)) for sequence in sequences]
    shares = [(1.0 - args.drive_share) * weight / sum(weights) for weight in weights]
    return SampleSource(
        sequences + drives,
        shares + [args.drive_share / max(1, args.drives)] * len(drives),
        network.input_size,
        network.class_names,
        args.without,
    )


def _network(
    args: argparse.Namespace,
    class_names: tuple[str, ...],
    device: str,
    leads: bool,
    sequences: list[Sequence],
) -> tuple[MultiPathDetector, str]:
    """The network as training begins, and what identifies the file that it started from."""
    if args.start is not None and args.backbone is not None:
        raise ValueError(
            f'--backbone is {args.backbone} and --start is {args.start}, expected one of them'
        )
    is_public = args.start is not None and args.start.suffix == '.xml'
    start = None if args.start is None or is_public else load_detector(args.start, device)
    if start is not None:
        applied = fitting_map(class_names, start.class_names)
        if applied and leads:
            print(
                f'{", ".join(applied.renamed)}: learnt as classes of their own; --classes {applied.name} '
                f'makes them those of --start'
            )
        class_names = tuple(dict.fromkeys((*start.class_names, *class_names)))
    network = build_detector(args.config, class_names, seed=args.seed, device=device)
    if is_public:
        return _from_public(args.start, network, sequences, leads)
    if isinstance(network, DenseDetector) and start is None:
        raise ValueError(
            f'--config is {args.config}, whose norms are fixed; expected --start, weights of its kind '
            f'or person-vehicle-bike-detection-2003.xml of Open Model Zoo'
        )
    if start is None and args.backbone is None:
        return network, ''
    file = args.start or args.backbone
    taken = (
        start_from_resnet(network.backbone, file)
        if start is None
        else start_from_weights(network, start)
    )
    if leads:
        print(f'{file}: {taken}')
    return network, hashlib.sha256(file.read_bytes()).hexdigest()[
        :16
    ] if start is None else start.weights_hash


def _from_public(
    file: Path, network: MultiPathDetector, sequences: list[Sequence], leads: bool
) -> tuple[MultiPathDetector, str]:
    """A dense detector that begins with a public one's weights, its norms set on images of the first source."""
    if not isinstance(network, DenseDetector):
        raise ValueError(
            f'--start is {file} and --config {network.config_name}, expected a dense one, such as street'
        )
    frames = sequences[0].frames
    chosen = [frames[number * len(frames) // _START_IMAGES] for number in range(_START_IMAGES)]
    images = [frame.load_bgr() for frame in readable_frames(chosen)]
    device = network.device
    fresh = start_from_public(network.cpu(), file, images)
    if leads:
        print(f'{file}: all layers taken' + (f'; fresh: {", ".join(fresh)}' if fresh else ''))
    return network.to(device), hashlib.sha256(file.with_suffix('.bin').read_bytes()).hexdigest()[
        :16
    ]


def _measure_norms(
    args: argparse.Namespace, network: MultiPathDetector, source: SampleSource, workers: Workers
) -> None:
    """Measures the statistics of frozen norms, unless they came with the weights to start from; the same in all
    processes."""
    start = None if args.start is None else load_detector(args.start, network.device)
    if start is not None and start.config.norm == 'frozen':
        return
    like = None
    if start is not None:
        config = replace(find_configuration(args.config), norm='group')
        like = build_detector(config, network.class_names, device=network.device)
        start_from_weights(like, start)
    images = measure_statistics(network, source, seed=args.seed, like=like)
    if workers.count > 1:  # sums on GPUs differ in their last bits
        for norm in (module for module in network.modules() if isinstance(module, SlicedNorm)):
            for tensor in norm.state_dict().values():
                torch.distributed.broadcast(tensor, 0)
    if workers.leads:
        print(
            f'statistics of the frozen norms measured on {images} images'
            + ('' if like is None else ', scales and shifts set after those of the group norms')
        )


def run_and_save(
    trainer: Trainer | LevelTrainer | YoloxTrainer,
    state: Path,
    stop: StopRequest,
    shown: str = 'path0',
) -> None:
    """Trains to the end, or until it should stop; saves the state and draws the curves every minute and at last. Shown
    is the loss of that name.

    Raises:
        TrainingDataLost: the images are gone; the state of the last step is saved.
        TrainingDiverged: see `Trainer`; the state is the one before.
    """
    saved_at = time.monotonic()
    with (
        progress_bar('training', trainer.plan.steps, 'count', 'left:', 'left') as update,
        open_log(state.with_suffix('.jsonl'), trainer.step) as log,
    ):
        update(completed=trainer.step)

        def save() -> None:
            nonlocal saved_at
            try:
                log.publish()
            finally:  # on a full disk, the curves are what can be missed
                trainer.save(state)
            saved_at = time.monotonic()

        def report(step: int, losses: dict[str, float]) -> None:
            log.add(step, losses)
            update(completed=step, description=f'loss {losses[shown]:.3f}')
            if time.monotonic() - saved_at > _SAVE_EVERY_S:
                save()

        try:
            trainer.run(report=report, stop=stop)
        except TrainingDataLost:
            save()  # the weights are those of the last whole step
            raise
        save()
