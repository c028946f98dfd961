"""Train a multi-path detector on annotated images and rendered drives; a killed run goes on where it was.

Several GPUs, or processes on CPUs, share every batch out under torchrun: torchrun --nproc-per-node 4 --module
deadline_perception.tools.command_line train --device cuda ... The rate stays what --learning-rate says.
"""
from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deadline_perception.datasets.coco import read_coco
from deadline_perception.datasets.drive import render_drive
from deadline_perception.datasets.records import Sequence
from deadline_perception.detector.checkpoint import build_detector, load_detector, save_detector
from deadline_perception.detector.network import MultiPathDetector
from deadline_perception.detector.resnet_start import start_from_resnet
from deadline_perception.learning.loss_log import open_log
from deadline_perception.learning.samples import SampleSource
from deadline_perception.learning.strategies import STRATEGIES, Sandwich
from deadline_perception.learning.trainer import Trainer
from deadline_perception.learning.training_plan import TrainingPlan
from deadline_perception.workers import Workers, joined_workers, own_gpu

_SAVE_EVERY_S = 180.0
_DRIVE_SECONDS = 12.0
_DRIVE_RATE_HZ = 2.0
_FIRST_DRIVE_SEED = 1000  # drives to be judged on, such as the demo's, have seeds below


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument('--data', type=Path, nargs='+', required=True, metavar='JSON', help='COCO annotation files')
    parser.add_argument('--drives', type=int, default=0, help='rendered drives to add, each with its own seed')
    parser.add_argument('--drive-share', type=float, default=0.4, help='share of the samples from rendered drives')
    parser.add_argument('--config', default='compact', help='shape of the network: a name, or a JSON file')
    parser.add_argument('--steps', type=int, default=5000, help='weight updates')
    parser.add_argument('--backbone', type=Path, help='ImageNet weights of a torchvision ResNet, a state_dict file, to '
                        'start the backbone from (orin: resnet50, paper: resnet101)')
    parser.add_argument('--start', type=Path, help='weights to start from; a fresh network without')
    parser.add_argument('--crop', type=int, nargs=2, metavar=('HEIGHT', 'WIDTH'), help='train the first steps on '
                        'windows of this size in px around objects, multiples of 32')
    parser.add_argument('--crop-share', type=float, default=0.5, help='share of the steps that train on windows')
    parser.add_argument('--size', type=int, nargs=2, action='append', default=[], metavar=('HEIGHT', 'WIDTH'), help='a '
                        'size in px, multiples of 32, of which every step draws one; the input size without')
    parser.add_argument('--strategy', choices=STRATEGIES, default='sandwich', help='paths that a step trains: one, '
                        'with or without random skipping and random switching, or several')
    parser.add_argument('--alone-share', type=float, default=Sandwich.alone_share, help='sandwich: share of the steps '
                        'that train the largest path alone')
    parser.add_argument('--soft-share', type=float, default=Sandwich.soft_share, help='sandwich: share of the largest '
                        "path's word in what the others are told; the rest is the truth")
    parser.add_argument('--batch', type=int, default=4, help='images per step')
    parser.add_argument('--learning-rate', type=float, default=6e-4, help='peak rate')
    parser.add_argument('--seed', type=int, default=0, help='of weights, samples and paths')
    parser.add_argument('--device', default='cpu', help='cpu or cuda')
    parser.add_argument('--threads', type=int, default=torch.get_num_threads(), help='CPU threads')
    parser.add_argument('--state', type=Path, default=Path('out/train/state.safetensors'), help='where the run is kept')
    parser.add_argument('--out', type=Path, default=Path('out/train/weights.safetensors'), help='weights to write')


def run(args: argparse.Namespace) -> int:
    """Trains, saving every few minutes; returns the exit status."""
    torch.set_num_threads(args.threads)
    with joined_workers() as workers:
        return _train(args, workers)


def _train(args: argparse.Namespace, workers: Workers) -> int:
    device = args.device
    if device == 'cuda' and workers.count > 1:
        device = own_gpu()
        torch.cuda.set_device(device)
    source, network = _source_and_network(args, device)
    plan = TrainingPlan(steps=args.steps, batch=args.batch, learning_rate=args.learning_rate, seed=args.seed,
                        crop=None if args.crop is None else tuple(args.crop), crop_share=args.crop_share,
                        sizes=tuple(tuple(size) for size in args.size))
    strategy = STRATEGIES[args.strategy]
    if args.strategy == 'sandwich':
        strategy = Sandwich(alone_share=args.alone_share, soft_share=args.soft_share)
    trainer = Trainer(network, source, plan, strategy, workers)
    if args.state.is_file():
        trainer.resume(args.state)
    if not workers.leads:
        trainer.run()
        return 0
    print(f'{len(source)} images, {sum(p.numel() for p in network.parameters()) / 1e6:.1f} M weights, '
          f'{len(network.path_space)} paths' + (f', goes on from step {trainer.step} of {args.state}' if trainer.step
                                                else ''))
    _run_and_save(trainer, args.state)
    network.load_state_dict(trainer.average)
    save_detector(network, args.out, steps=str(plan.steps), seed=str(plan.seed), strategy=args.strategy)
    print(f'wrote {args.out}, {args.out.stat().st_size / 1e6:.1f} MB')
    return 0


def _source_and_network(args: argparse.Namespace, device: str) -> tuple[SampleSource, MultiPathDetector]:
    if not 0.0 < args.drive_share < 1.0:
        raise ValueError(f'--drive-share is {args.drive_share}, expected a share in (0, 1)')
    sequences: list[Sequence] = [read_coco(file) for file in args.data]
    shares = [(1.0 - args.drive_share) / len(sequences)] * len(sequences)
    for index in range(args.drives):
        sequences.append(render_drive(seconds=_DRIVE_SECONDS, rate_hz=_DRIVE_RATE_HZ, seed=_FIRST_DRIVE_SEED + index))
        shares.append(args.drive_share / args.drives)
    network = build_detector(args.config, sequences[0].class_names, seed=args.seed, device=device)
    if args.backbone is not None:
        if args.start is not None:
            raise ValueError(f'--backbone is {args.backbone} and --start is {args.start}, expected one of them')
        print(f'{args.backbone}: {start_from_resnet(network.backbone, args.backbone)}')
    if args.start is not None:
        start = load_detector(args.start, device)
        if (start.network_hash, start.class_names) != (network.network_hash, network.class_names):
            raise ValueError(f'{args.start} is a {start.config_name!r} with classes {", ".join(start.class_names)}; '
                             f'expected a {network.config_name!r} with {", ".join(network.class_names)}')
        network.load_state_dict(start.state_dict())
    return SampleSource(sequences, shares, network.input_size), network


def _run_and_save(trainer: Trainer, state: Path) -> None:
    """Trains to the end; every few minutes saves the state, draws the curves and says how far it is."""
    columns = (TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn(), TextColumn('left:'),
               TimeRemainingColumn())
    steps, began, began_at = trainer.plan.steps, trainer.step, time.monotonic()
    saved_at = began_at
    with Progress(*columns) as progress, open_log(state.with_suffix('.jsonl'), trainer.step) as log:
        bar = progress.add_task('training', total=steps, completed=trainer.step)

        def report(step: int, losses: dict[str, float]) -> None:
            nonlocal saved_at
            log.add(step, losses)
            progress.update(bar, completed=step, description=f'loss {losses["path0"]:.3f}')
            now = time.monotonic()
            if now - saved_at > _SAVE_EVERY_S or step == steps:
                log.publish()
                trainer.save(state)
                saved_at = now
                left_min = (now - began_at) / (step - began) * (steps - step) / 60
                progress.console.print(f'step {step} of {steps}, loss {losses["path0"]:.3f}, {left_min:.0f} min left')

        trainer.run(report=report)
