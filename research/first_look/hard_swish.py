"""Trains a YOLOX-Nano with hard swish to answer as one with SiLU does; see README.md.

    python research/first_look/hard_swish.py OUT.safetensors --images FILE [FILE ...] [--start FILE] [--minutes 50]

Of every channel the weights are learnt as multiples of their size, since those that held batch norms differ by orders of
magnitude. Written are the weights averaged over steps, every two minutes and at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.external_models.public_yolox import FACTS, save_yolox
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.weights_file import read_metadata
from deadline_perception.networks.yolox.network import YoloxDetector

# Sizes of the input, images of a step, and share of the steps.
SIZES = (((384, 640), 4, 0.45), ((256, 416), 8, 0.35), ((192, 320), 12, 0.20))
LEARNING_RATE = 8e-4
WARM_UP_STEPS = 50
MOST_GRADIENT = 5.0
AVERAGED = 0.998  # of the average of before, in each step
LEAST_SCALE = 1e-4
BIAS_SCALE = 0.1
PADDING = 114  # as the network has beside an image
KEPT_EVERY_MS = 120_000.0


class Scaled(nn.Module):
    """A value as a multiple of a fixed one."""

    def __init__(self, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer('scale', scale)

    def forward(self, multiple: Tensor) -> Tensor:
        """What the layer has."""
        return multiple * self.get_buffer('scale')

    def right_inverse(self, value: Tensor) -> Tensor:
        """What is learnt."""
        return value / self.get_buffer('scale')


def student_of(teacher: YoloxDetector, activation: str) -> YoloxDetector:
    """The same layers with this activation, ready to be trained."""
    student = YoloxDetector(replace(teacher.config, activation=activation), teacher.class_names).to(
        memory_format=torch.channels_last
    )
    student.load_state_dict(teacher.state_dict())
    student.score_calibration = teacher.score_calibration
    for layer in list(student.modules()):
        if isinstance(layer, nn.Conv2d):
            squares = layer.weight.data.pow(2)
            size = squares.mean((1, 2, 3), keepdim=True).sqrt()
            bias = layer.get_parameter('bias').data
            scales = {'weight': size.clamp_min(LEAST_SCALE), 'bias': bias.abs() + BIAS_SCALE}
            for name, scale in scales.items():
                parametrize.register_parametrization(layer, name, Scaled(scale))
    return student


def weights_of(student: YoloxDetector) -> dict[str, Tensor]:
    """As a network without the multiples names them."""
    return {
        f'{name}.{part}': getattr(layer, part).detach().clone()
        for name, layer in student.named_modules()
        if isinstance(layer, nn.Conv2d)
        for part in ('weight', 'bias')
    }


def sample(frames: Sequence[Frame], size: tuple[int, int], rng: random.Random) -> Tensor:
    """Some image, or a part of one, or a small one on grey: float32 `[3, h, w]`."""
    image = rng.choice(frames).load_bgr()
    height, width = image.shape[:2]
    if rng.random() < 0.5:
        zoom = math.exp(rng.uniform(math.log(0.3), 0.0))
        aspect = math.exp(rng.uniform(-0.2, 0.2))
        h = min(height, int(height * zoom * aspect))
        w = min(width, int(width * zoom / aspect))
        y = rng.randint(0, height - h)
        x = rng.randint(0, width - w)
        image = image[y : y + h, x : x + w]
    elif rng.random() < 0.25:
        zoom = rng.uniform(0.4, 0.8)
        h = max(8, int(height * zoom))
        w = max(8, int(width * zoom))
        y = rng.randint(0, height - h)
        x = rng.randint(0, width - w)
        small = cv2.resize(image, (w, h), interpolation=cv2.INTER_AREA)
        image = np.full_like(image, PADDING)
        image[y : y + h, x : x + w] = small
    if rng.random() < 0.5:
        image = image[:, ::-1]
    fitted = size
    if rng.random() < 0.6:  # as the network has it: in its own aspect
        height, width = image.shape[:2]
        zoom = min(size[0] / height, size[1] / width)
        fitted = tuple(max(1, round(side * zoom)) for side in image.shape[:2])
    pixels = np.full((*size, 3), PADDING, np.float32)
    rows, columns = fitted
    pixels[:rows, :columns] = cv2.resize(image, (columns, rows))
    if rng.random() < 0.5:
        contrast = rng.uniform(0.6, 1.3)
        brightness = rng.uniform(-20.0, 20.0)
        pixels = np.clip(pixels * contrast + brightness, 0.0, 255.0)
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32))


def distance(teacher: YoloxDetector, student: YoloxDetector, pixels: Tensor) -> Tensor:
    """How far the student is from the teacher: features over their variance; of each object, as the teacher sees them,
    the divergence of objectness and classes, and twice the error of the box in strides."""
    with torch.no_grad():
        wanted, wanted_answers = _seen_by(teacher, pixels)
    found, answers = _seen_by(student, pixels)
    features = torch.zeros(())
    for one, other in zip(wanted, found):
        variance = one.var((0, 2, 3), keepdim=True) + 1e-3 * one.var()
        features = features + ((one - other) ** 2 / variance).mean()
    errors = torch.zeros(())
    objects = torch.tensor(4.0)
    for at in range(0, len(answers), 3):
        boxes, objectness, classes = wanted_answers[at : at + 3]
        share = objectness.sigmoid()
        box_error = F.smooth_l1_loss(answers[at], boxes, reduction='none', beta=0.1)
        errors = errors + _divergence(answers[at + 1], objectness).sum()
        class_error = _divergence(answers[at + 2], classes)
        errors = errors + (class_error.sum(1, True) * share).sum()
        errors = errors + 2.0 * (box_error.sum(1, True) * share).sum()
        objects = objects + share.sum()
    return features / len(found) + errors / objects


def _seen_by(network: YoloxDetector, pixels: Tensor) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    features = network.backbone(pixels)
    levels = network.neck(features)
    return [*features, *levels], network.head(levels)


def _divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    shares = wanted.sigmoid()
    least = F.binary_cross_entropy_with_logits(wanted, shares, reduction='none')
    found = F.binary_cross_entropy_with_logits(logits, shares, reduction='none')
    return found - least


def main(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    frames = [frame for file in args.images for frame in open_source(file).frames]
    facts = read_metadata(args.start)[0]
    teacher = load_detector(args.start)
    student = student_of(teacher, 'hard_swish')
    rng = random.Random(0)
    parameters = list(student.parameters())
    optimiser = torch.optim.Adam(parameters, betas=(0.9, 0.99))
    average = weights_of(student)
    step = 0
    begun_ms = kept_ms = now_ms()
    while (spent := (now_ms() - begun_ms) / (60_000.0 * args.minutes)) < 1.0:
        rate = 0.5 * LEARNING_RATE * (1.0 + math.cos(math.pi * spent))
        optimiser.param_groups[0]['lr'] = rate * min(1.0, (step + 1) / WARM_UP_STEPS)
        size, count, _ = rng.choices(SIZES, [share for *_, share in SIZES])[0]
        pixels = torch.stack([sample(frames, size, rng) for _ in range(count)])
        loss = distance(teacher, student, pixels.contiguous(memory_format=torch.channels_last))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, MOST_GRADIENT)
        optimiser.step()
        step += 1
        kept = min(AVERAGED, (step + 1) / (step + 10))
        for name, value in weights_of(student).items():
            average[name].mul_(kept).add_(value, alpha=1.0 - kept)
        if step % 50 == 0:
            print(f'step {step}, {spent:.0%}: {loss.item():.3f}', flush=True)
        if now_ms() - kept_ms > KEPT_EVERY_MS:
            kept_ms = now_ms()
            keep(average, student, facts, args.out, step)
    keep(average, student, facts, args.out, step)


def keep(
    weights: dict[str, Tensor],
    student: YoloxDetector,
    facts: dict[str, str],
    file: Path,
    steps: int,
) -> None:
    """Writes a network as the student is, with these weights; its recipe is that of its start and these steps."""
    network = YoloxDetector(student.config, student.class_names)
    network.load_state_dict(weights)
    network.score_calibration = student.score_calibration
    known = {name: facts[name] for name in FACTS if name in facts}
    recipe = {'start': known.get('recipe'), 'activation': student.config.activation, 'steps': steps}
    save_yolox(network, file, **{**known, 'recipe': json.dumps(recipe)})


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('out', type=Path)
    parser.add_argument('--images', nargs='+', required=True)
    parser.add_argument('--start', type=Path, default=find_weights('street-open'))
    parser.add_argument('--minutes', type=float, default=50.0)
    main(parser.parse_args())
