"""Train the nested classifier on crops of annotated images and on rendered signs, lights and road users.

Every step minimises the mean of the losses of all levels. After --minutes, at SIGTERM or at Ctrl-C it saves its state
and the averaged weights so far; the same command goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deadline_perception.core.device import check_device
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames
from deadline_perception.extras.rendered_drive.object_views import ObjectView
from deadline_perception.extras.rendered_drive.single_object import gather_views
from deadline_perception.extras.several_networks.classifier.checkpoint import (
    load_classifier,
    save_classifier,
)
from deadline_perception.extras.several_networks.classifier.classes import CLASS_NAMES
from deadline_perception.extras.several_networks.classifier.network import (
    ClassifierConfig,
    NestedClassifier,
    build_classifier,
)
from deadline_perception.extras.training.crop_samples import CropSource
from deadline_perception.extras.training.level_trainer import LevelTrainer
from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.tools.recipe import recipe_text
from deadline_perception.tools.support.file_arguments import THREADS, check_numbers
from deadline_perception.tools.train import add_run_arguments, begun_run, ended_run, run_and_save

_RENDERED, _BACKGROUNDS = 400, 6  # objects of each class; windows of background of each image


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_run_arguments(parser, 'classifier', steps=2000, batch=128, learning_rate=3e-3)
    parser.add_argument('--start', type=Path, help='weights to start from; a fresh network without')
    parser.add_argument(
        '--threads',
        type=int,
        default=1,
        help='CPU threads; with one, a seed gives the same weights',
    )


def run(args: argparse.Namespace) -> int:
    """Trains, saving every minute; returns the exit status."""
    check_numbers(args, threads=THREADS)
    if not 0 <= args.seed < 1000:
        raise ValueError(
            f'--seed is {args.seed}, expected 0 to 999: objects to be judged on have seeds from 1000 on'
        )
    check_device(args.device)
    stop = begun_run(args)
    plan = TrainingPlan(
        steps=args.steps, batch=args.batch, learning_rate=args.learning_rate, seed=args.seed
    )
    network, start = _network(args)
    source = CropSource(_views(args), CLASS_NAMES, network.config.input_px)
    trainer = LevelTrainer(network, source, plan, start)
    if args.state.is_file():
        trainer.resume(args.state)
    print(
        f'{len(source)} views: '
        + ', '.join(f'{name} {count}' for name, count in source.counts.items())
    )
    print(
        f'{sum(p.numel() for p in network.parameters()) / 1e3:.0f} thousand weights, {len(network.path_space)} levels'
        + (f', goes on from step {trainer.step} of {args.state}' if trainer.step else '')
    )
    with stop.listening():
        run_and_save(trainer, args.state, stop, shown='mean')
    step = trainer.step
    trainer.finish()
    save_classifier(network, args.out, recipe=recipe_text(args, source.digest, step))
    return ended_run(args, step, stop)


def _network(args: argparse.Namespace) -> tuple[NestedClassifier, str]:
    """The network as training begins, and what identifies the file that it started from."""
    if args.start is None:
        return build_classifier(
            ClassifierConfig(), CLASS_NAMES, seed=args.seed, device=args.device
        ), ''
    network = load_classifier(args.start, args.device)
    if network.class_names != CLASS_NAMES:
        raise ValueError(
            f'{args.start} knows the classes {", ".join(network.class_names)}, expected '
            f'{", ".join(CLASS_NAMES)}'
        )
    return network, network.weights_hash


def _views(args: argparse.Namespace) -> list[list[ObjectView]]:
    """Views of all sources, those of each and its rendered ones a group of their own."""
    groups = []
    for number, text in enumerate(args.data):
        sequence = open_source(text, split='train')
        groups += gather_views(
            annotated_frames(sequence),
            sequence.class_names,
            backgrounds=_BACKGROUNDS,
            rendered=_RENDERED if number == 0 else 0,
            seed=args.seed,
        )
    return [group for group in groups if group]
