"""Trains the first look on roads without forgetting the rest; see README.md.

    python research/first_look/roads.py OUT.safetensors --teacher FILE --roads FILE=SHARE [...] --general FILE=SHARE [...]

Two thirds of a step's images are of roads, with their labels: YOLOX's losses, where a class that a source does not mark
is learnt from the weights that the run starts from. The others are of anything: there it answers as the teacher does.
A run that was stopped goes on with the same command.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from hard_swish import MOST_GRADIENT, keep, sample, student_of, weights_of
from torch import Tensor, nn

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.training.samples import SampleSource
from deadline_perception.extras.training.targets import TargetObjects
from deadline_perception.extras.training.transfer import in_bfloat16
from deadline_perception.extras.training.yolox_training import (
    Answers,
    answers_of,
    losses,
    overlap,
)
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.weights_file import read_metadata

# Sizes of the input in px, images of roads in a step, and share of the steps.
SIZES = (
    ((416, 736), 4, 0.40),
    ((384, 640), 5, 0.20),
    ((256, 416), 11, 0.25),
    ((192, 320), 19, 0.15),
)
WARM_UP_STEPS = 50
AVERAGED = 0.999  # of the average of before, in each step
KEPT_EVERY_MS = 120_000.0
BOX_WEIGHT = 5.0  # as YOLOX's losses have it


def kept_knowledge(answers: Answers, teacher: Answers) -> Tensor:
    """How far the student's answers to images are from the teacher's, over the number of cells that hold objects of
    its classes."""
    present = (1.0 - teacher.absent.exp()).clamp(1e-6, 1.0 - 1e-6)
    objectness = teacher.objectness.sigmoid()
    wanted = objectness * (1.0 - teacher.absent.sum(2).exp())
    count = wanted.sum() + 1.0
    absent = answers.absent.clamp(max=-1e-4)
    here = torch.log(-torch.expm1(absent))
    classes = -(present * here + (1.0 - present) * absent).sum(2)
    boxes = 1.0 - overlap(answers.boxes, teacher.boxes).square()
    of_objects = (wanted * (classes + BOX_WEIGHT * boxes)).sum()
    whether = nn.functional.binary_cross_entropy_with_logits(
        answers.objectness, wanted, reduction='sum'
    )
    return (of_objects + whether) / count


def part_of(answers: Answers, first: int, last: int) -> Answers:
    """Answers to some of the images."""
    return Answers(
        answers.boxes[first:last], answers.objectness[first:last], answers.absent[first:last]
    )


def with_shares(texts: Sequence[str]) -> tuple[list, list[float]]:
    """Sources and their shares of `FILE=SHARE`."""
    pairs = [text.rpartition('=') for text in texts]
    sources = [open_source(file) for file, _, _ in pairs]
    return sources, [float(share) for _, _, share in pairs]


class GeneralImages:
    """Draws any images, each source as often as its share says."""

    def __init__(self, texts: Sequence[str]) -> None:
        sources, self.shares = with_shares(texts)
        self.frames: list[list[Frame]] = [list(source.frames) for source in sources]

    def draw(self, size: tuple[int, int], count: int, rng: random.Random) -> Tensor:
        """Float32 `[count, 3, h, w]`."""
        chosen = rng.choices(self.frames, self.shares, k=count)
        return torch.stack([sample(frames, size, rng) for frames in chosen])


def main(args: argparse.Namespace) -> None:
    torch.set_num_threads(args.threads)
    start = load_detector(args.start)
    teacher = load_detector(args.teacher)
    facts = read_metadata(args.start)[0]
    student = student_of(start, start.config.activation)
    parameters = list(student.parameters())
    optimiser = torch.optim.Adam(parameters, betas=(0.9, 0.99))
    average = weights_of(student)
    step = 0
    spent_ms = 0.0
    if args.state.is_file():
        kept = torch.load(args.state, weights_only=True)
        student.load_state_dict(kept['student'])
        optimiser.load_state_dict(kept['optimiser'])
        average = kept['average']
        step = kept['step']
        spent_ms = kept['spent_ms']
    sources, shares = with_shares(args.roads)
    roads = SampleSource(sources, shares, start.input_size, start.class_names)
    general = GeneralImages(args.general)
    begun_ms = kept_ms = now_ms()
    while (share := (spent_ms + now_ms() - begun_ms) / (60_000.0 * args.minutes)) < 1.0:
        rng, generator = (
            random.Random(f'{args.seed} {step}'),
            np.random.default_rng([args.seed, step]),
        )
        rate = 0.5 * args.learning_rate * (1.0 + math.cos(math.pi * share))
        optimiser.param_groups[0]['lr'] = rate * min(1.0, (step + 1) / WARM_UP_STEPS)
        size, count, _ = rng.choices(SIZES, [share for *_, share in SIZES])[0]
        samples = [roads.draw(generator, size) for _ in range(count)]
        pixels = torch.from_numpy(np.stack([one.image_bgr for one in samples]))
        of_roads = pixels.permute(0, 3, 1, 2).float()
        others = general.draw(size, count // 2, rng)
        pixels = torch.cat([of_roads, others])
        pixels = pixels.contiguous(memory_format=torch.channels_last)
        objects = [TargetObjects.of(one.ground_truth, one.named) for one in samples]
        with in_bfloat16(pixels.device):
            with torch.no_grad():
                unmarked = answers_of(start, pixels[:count])
                known = answers_of(teacher, pixels[count:])
            answers = answers_of(student, pixels)
        parts = losses(part_of(answers, 0, count), unmarked, objects, size)
        parts['kept'] = args.kept_weight * kept_knowledge(
            part_of(answers, count, len(pixels)), known
        )
        optimiser.zero_grad()
        torch.stack(list(parts.values())).sum().backward()
        nn.utils.clip_grad_norm_(parameters, MOST_GRADIENT)
        optimiser.step()
        step += 1
        remaining = min(AVERAGED, (step + 1) / (step + 10))
        for name, value in weights_of(student).items():
            average[name].mul_(remaining).add_(value, alpha=1.0 - remaining)
        if step % 50 == 0:
            words = ', '.join(f'{name} {value.item():.3f}' for name, value in parts.items())
            print(f'step {step}, {share:.1%}: {words}', flush=True)
        if now_ms() - kept_ms > KEPT_EVERY_MS:
            kept_ms = now_ms()
            keep(average, student, facts, args.out, step)
            state = {'student': student.state_dict(), 'optimiser': optimiser.state_dict()}
            so_far = {'average': average, 'step': step, 'spent_ms': spent_ms + now_ms() - begun_ms}
            torch.save({**state, **so_far}, args.state)
    keep(average, student, facts, args.out, step)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('out', type=Path)
    parser.add_argument('--roads', nargs='+', required=True, metavar='FILE=SHARE')
    parser.add_argument('--general', nargs='+', required=True, metavar='FILE=SHARE')
    parser.add_argument('--teacher', type=Path, required=True, help='published weights')
    parser.add_argument('--start', type=Path, default=find_weights('street-first'))
    parser.add_argument('--state', type=Path, default=Path('out/roads.pt'))
    parser.add_argument('--learning-rate', type=float, default=1.5e-3)
    parser.add_argument('--kept-weight', type=float, default=1.0)
    parser.add_argument('--minutes', type=float, default=60.0)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--seed', type=int, default=0)
    main(parser.parse_args())
