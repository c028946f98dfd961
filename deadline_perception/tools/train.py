"""Train a multi-path detector on annotated images and rendered drives; a killed run goes on where it was."""
from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deadline_perception.datasets.coco import read_coco
from deadline_perception.datasets.drive import render_drive
from deadline_perception.datasets.records import Sequence
from deadline_perception.detector.checkpoint import build_detector, load_detector, save_detector
from deadline_perception.learning.samples import SampleSource
from deadline_perception.learning.strategies import STRATEGIES, Sandwich
from deadline_perception.learning.trainer import Trainer, TrainingPlan

_SAVE_EVERY_S = 180.0
_DRIVE_SECONDS = 12.0
_DRIVE_RATE_HZ = 2.0
_FIRST_DRIVE_SEED = 1000  # drives to be judged on, such as the demo's, have seeds below


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument('--data', type=Path, nargs='+', required=True, metavar='JSON', help='COCO annotation files')
    parser.add_argument('--drives', type=int, default=0, help='number of rendered drives to add, each with its own seed')
    parser.add_argument('--drive-share', type=float, default=0.4, help='share of the samples from rendered drives')
    parser.add_argument('--config', default='compact', help='shape of the network')
    parser.add_argument('--steps', type=int, default=5000, help='weight updates')
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
    if not 0.0 < args.drive_share < 1.0:
        raise ValueError(f'--drive-share is {args.drive_share}, expected a share in (0, 1)')
    sequences: list[Sequence] = [read_coco(file) for file in args.data]
    shares = [(1.0 - args.drive_share) / len(sequences)] * len(sequences)
    for index in range(args.drives):
        sequences.append(render_drive(seconds=_DRIVE_SECONDS, rate_hz=_DRIVE_RATE_HZ, seed=_FIRST_DRIVE_SEED + index))
        shares.append(args.drive_share / args.drives)
    network = build_detector(args.config, sequences[0].class_names, seed=args.seed, device=args.device)
    if args.start is not None:
        network.load_state_dict(load_detector(args.start, args.device).state_dict())
    source = SampleSource(sequences, shares, network.input_size)
    plan = TrainingPlan(steps=args.steps, batch=args.batch, learning_rate=args.learning_rate, seed=args.seed,
                        crop=None if args.crop is None else tuple(args.crop), crop_share=args.crop_share,
                        sizes=tuple(tuple(size) for size in args.size))
    strategy = STRATEGIES[args.strategy]
    if args.strategy == 'sandwich':
        strategy = Sandwich(alone_share=args.alone_share, soft_share=args.soft_share)
    trainer = Trainer(network, source, plan, strategy)
    if args.state.is_file():
        trainer.resume(args.state)
        print(f'goes on from step {trainer.step} of {args.state}')
    print(f'{len(source)} images, {sum(p.numel() for p in network.parameters()) / 1e6:.1f} M weights, '
          f'{len(network.path_space)} paths')
    curve = args.state.with_suffix('.jsonl')
    curve.parent.mkdir(parents=True, exist_ok=True)
    with Progress(TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        bar = progress.add_task('training', total=plan.steps, completed=trainer.step)
        saved_at = time.monotonic()
        with curve.open('a') as lines:
            def report(step: int, losses: dict[str, float]) -> None:
                nonlocal saved_at
                lines.write(json.dumps({'step': step, **{k: round(v, 4) for k, v in losses.items()}}) + '\n')
                progress.update(bar, completed=step, description=f'loss {losses["path0"]:.3f}')
                if time.monotonic() - saved_at > _SAVE_EVERY_S:
                    lines.flush()
                    trainer.save(args.state)
                    saved_at = time.monotonic()

            trainer.run(report=report)
    trainer.save(args.state)
    network.load_state_dict(trainer.average)
    save_detector(network, args.out, steps=str(plan.steps), seed=str(plan.seed))
    print(f'wrote {args.out}, {args.out.stat().st_size / 1e6:.1f} MB')
    return 0
