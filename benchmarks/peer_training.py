"""Trains a detector of torchvision from random weights on the images that `deadline-perception train` learns from.

    python benchmarks/peer_training.py --peer ssdlite --minutes 40 --out out/peers/ssdlite.pt [--start FILE]
        [--data ../shared/data/carla/train.json] [--drives 200] [--threads 1]
    python benchmarks/peer_training.py --peer fasterrcnn --bfloat16 --learning-rate 6e-4 --out out/peers/fasterrcnn.pt

Images, their random changes and their shares are those of the command (`SampleSource`), and so are AdamW, its warm-up
and cosine, the clipped gradients and the averaged weights (`TrainingPlan`); the rate goes by the time that has passed,
since the time is what is given. Losses are torchvision's own. Three things differ from our training. Whole images alone
are drawn: a peer resizes whatever it is given, so that a window saves it no time and shows objects in another size than
they have later. Faster R-CNN draws 128 regions of an image, as our training does; the 512 of torchvision double the
time of a step. And nothing is distilled, for a peer has one path.

As in our training, a class that an image's source does not name takes no part in the classes of its anchors (SSDLite)
or regions (Faster R-CNN): an unmarked person on a CARLA image teaches nothing against persons, but background against
the other classes. Proposals know no classes, so that such a person counts as background among them. What lies mostly in
a crowd region is neither object nor background; torchvision knows no such regions, `LossMask` adds them.

Norms compute the statistics of the batch, and keep their mean for later. Writes the averaged weights and, beside them,
a JSON file with steps, images, minutes and those of the CPU, which are fewer beside other programs; those of --start
count too. At the end of the time, SIGTERM or Ctrl-C. peers.py --trained evaluates them.
"""
from __future__ import annotations

import argparse
import json
import math
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from peer_networks import TRAINED, build, prepared
from torch import Tensor, nn
from torchvision.ops import box_area

from deadline_perception.datasets.source import open_source
from deadline_perception.latency.device import use_threads
from deadline_perception.latency.json_file import write_text_atomically
from deadline_perception.learning.losses import REGIONS_PER_IMAGE
from deadline_perception.learning.samples import Sample, SampleSource, all_class_names
from deadline_perception.learning.training_plan import TrainingPlan
from deadline_perception.learning.training_state import TrainingDiverged
from deadline_perception.rendering.drive import render_drives
from deadline_perception.tools.command_line import exit_status
from deadline_perception.tools.stop_request import StopRequest
from deadline_perception.tools.train import DRIVE_RATE_HZ, DRIVE_SECONDS, FIRST_DRIVE_SEED

ROOT = Path(__file__).resolve().parents[1]
INPUT_SIZE = (384, 640)  # of the samples: that of our network
SCHEDULE_STEPS = 10_000  # the time is cut into so many, by which the rate goes
WARM_UP_SHARE = 0.04  # of the time; 150 of 3,900 steps in our training
SHOWN_EVERY = 100
MOST_LEFT_OUT = 20  # steps without a finite loss; crowd that covers every region of a batch gives one
NO_LOGIT = -1e4  # of a class that takes no part, as in learning/losses.py
CROWD_SHARE, CROWD = 0.5, -1  # of a box that lies in a crowd region to be left out; label of such regions


class LossMask:
    """Keeps out of the losses of a detector of torchvision what nobody knows: unnamed classes and crowd regions.

    Its targets then hold boxes `[G, 4]` with labels `[G]` from 1, or `CROWD`, and `unnamed`, bool `[1 + classes]`.

    Args:
        model: changed in place; its weights keep their names.
    """

    def __init__(self, model: nn.Module) -> None:
        self._unnamed = torch.empty(0, 0, dtype=torch.bool)  # of every region of the batch
        if not hasattr(model, 'roi_heads'):
            model.compute_loss = partial(self._anchor_loss, model.compute_loss)
            return
        rpn, heads = model.rpn, model.roi_heads
        rpn.assign_targets_to_anchors = partial(self._anchor_targets, rpn.assign_targets_to_anchors)
        heads.assign_targets_to_proposals = partial(self._region_targets, heads.assign_targets_to_proposals)
        heads.select_training_samples = partial(self._regions, heads.select_training_samples)
        heads.box_predictor.register_forward_hook(self._region_logits)

    def _anchor_loss(self, loss, targets: list[dict[str, Tensor]], outputs: dict[str, Tensor], anchors: list[Tensor],
                     matched: list[Tensor]) -> dict[str, Tensor]:
        """SSD's loss; anchors on crowd say background without doubt, which costs nothing and is never drawn."""
        logits = outputs['cls_logits'].float().masked_fill(
            torch.stack([target['unnamed'] for target in targets])[:, None], NO_LOGIT)
        left_out = torch.stack([
            (nn.functional.pad(target['labels'], (0, 1))[of] == CROWD) | ((of < 0) & on_crowd(boxes, target))
            for target, boxes, of in zip(targets, anchors, matched)])  # -1, no object, finds the padding
        sure = torch.full(logits.shape[-1:], NO_LOGIT)
        sure[0] = 0.0
        return loss(targets, outputs | {'cls_logits': torch.where(left_out[..., None], sure, logits)}, anchors,
                    list(torch.stack(matched).masked_fill(left_out, -1)))

    def _anchor_targets(self, assign, anchors: list[Tensor],
                        targets: list[dict[str, Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
        """Labels of anchors, 1 object, 0 background, -1 neither, and the boxes of their objects."""
        labels, boxes = assign(anchors, [{'boxes': target['boxes'][target['labels'] != CROWD]} for target in targets])
        return [said.masked_fill((said == 0) & on_crowd(of_image, target), -1.0)
                for said, of_image, target in zip(labels, anchors, targets)], boxes

    def _region_targets(self, assign, regions: list[Tensor], boxes: list[Tensor],
                        labels: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Numbers of the objects of regions and their labels, of which -1 is not drawn."""
        matched, said = assign(regions, boxes, labels)
        return matched, [
            of_image.masked_fill((of_image == 0) & on_crowd(found, {'boxes': known, 'labels': names}), CROWD)
            for of_image, found, known, names in zip(said, regions, boxes, labels)]

    def _regions(self, select, regions: list[Tensor], targets: list[dict[str, Tensor]]) -> tuple:
        """Draws regions, and notes which classes take no part in each."""
        drawn = select(regions, targets)
        self._unnamed = torch.cat([target['unnamed'].expand(len(of_image), -1)
                                   for of_image, target in zip(drawn[0], targets)])
        return drawn

    def _region_logits(self, module: nn.Module, _, outputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        logits, deltas = (output.float() for output in outputs)
        return (logits.masked_fill(self._unnamed, NO_LOGIT) if module.training else logits), deltas


def on_crowd(boxes: Tensor, target: dict[str, Tensor]) -> Tensor:
    """Bool `[N]`: more than `CROWD_SHARE` of a box `[N, 4]` lies in one crowd region of the target."""
    crowd = target['boxes'][target['labels'] == CROWD]
    sides = torch.minimum(boxes[:, None, 2:], crowd[:, 2:]) - torch.maximum(boxes[:, None, :2], crowd[:, :2])
    return (sides.clamp(min=0).prod(2) > CROWD_SHARE * box_area(boxes)[:, None]).any(1)


def target_of(sample: Sample) -> dict[str, Tensor]:
    """What a masked detector of torchvision takes beside an image."""
    known = sample.ground_truth
    return {'boxes': torch.from_numpy(known.boxes_xyxy_px).float(),
            'labels': torch.from_numpy(np.where(known.crowd, CROWD, known.labels + 1)),
            'unnamed': torch.from_numpy(np.pad(~sample.named, (1, 0)))}


def for_training(name: str, classes: int, start: Path | None = None) -> nn.Module:
    """A peer in training mode, its losses masked; random without weights to start from."""
    model = build(name, classes, start).train().to(memory_format=torch.channels_last)
    if hasattr(model, 'roi_heads'):
        model.roi_heads.fg_bg_sampler.batch_size_per_image = REGIONS_PER_IMAGE
        # torchvision computes regions in the type of their deltas, and bfloat16 holds px to a multiple of 4.
        model.rpn.head.register_forward_hook(lambda _, __, levels: [[one.float() for one in part] for part in levels])
    LossMask(model)
    return model


def optimiser_of(model: nn.Module, plan: TrainingPlan) -> torch.optim.Optimizer:
    """AdamW; only weights of convolutions and matrices decay."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW([
        {'params': [one for one in parameters if one.dim() >= 2], 'weight_decay': plan.weight_decay},
        {'params': [one for one in parameters if one.dim() < 2], 'weight_decay': 0.0}], lr=plan.learning_rate,
        fused=True)


def train(model: nn.Module, source: SampleSource, plan: TrainingPlan, minutes: float,
          stop: StopRequest) -> tuple[dict[str, Tensor], int]:
    """Trains in place until the time is up or it should stop; the averaged weights and the number of steps.

    Args:
        model: of `for_training`.
        source: draws samples of its classes.
        plan: its steps are parts of the time.
        minutes: by which the rate goes.
        stop: asked in every step.

    Raises:
        TrainingDiverged: losses or gradients of more than `MOST_LEFT_OUT` steps, which are left out, are not finite.
    """
    optimiser, step, left_out, began_s, shown = optimiser_of(model, plan), 0, 0, time.monotonic(), []
    state = {name: tensor for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
    average = {name: tensor.clone() for name, tensor in state.items()}
    while (done := (time.monotonic() - began_s) / (60.0 * minutes)) < 1.0 and not stop():
        samples = [source.draw(np.random.default_rng([plan.seed, step + left_out, 1 + index]))
                   for index in range(plan.batch)]
        for group in optimiser.param_groups:
            group['lr'] = plan.rate(int(done * plan.steps))
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast('cpu', dtype=torch.bfloat16, enabled=plan.bfloat16):
            losses = model([prepared(sample.image_bgr)[0] for sample in samples], [target_of(one) for one in samples])
        total = sum(losses.values())
        total.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), plan.clip_norm)
        values = [value.item() for value in losses.values()]
        if not math.isfinite(sum(values) + norm.item()):
            left_out += 1
            print(f'step {step + 1} left out: losses {values}, gradient {norm.item()}', flush=True)
            if left_out > MOST_LEFT_OUT:
                raise TrainingDiverged(f'{left_out} steps have no finite losses; try a lower learning rate than '
                                       f'{plan.learning_rate}')
            continue
        shown.append(values)
        optimiser.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(average.values()), list(state.values()),
                                 1 - min(plan.ema, (1 + step) / (10 + step)))
        step += 1
        if step % SHOWN_EVERY == 0:
            means = dict(zip(losses, np.mean(shown, 0)))
            shown.clear()
            print(f'step {step}, {done:.0%} of the time, loss {sum(means.values()):.3f}: '
                  + ', '.join(f'{name} {value:.3f}' for name, value in means.items()), flush=True)
    return model.state_dict() | average, step


def samples_of(data: str, drives: int, drive_share: float, seconds: float = DRIVE_SECONDS) -> SampleSource:
    """Annotated images and rendered drives, as the command `train` mixes them; rendering takes a second a drive."""
    annotated = open_source(data, split='train')
    rendered = render_drives(range(FIRST_DRIVE_SEED, FIRST_DRIVE_SEED + drives), seconds, DRIVE_RATE_HZ, 1)
    return SampleSource([annotated, *rendered], [1.0 - drive_share] + [drive_share / max(1, drives)] * drives,
                        INPUT_SIZE, all_class_names([annotated, *rendered[:1]]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--peer', choices=TRAINED, required=True, help='what to train')
    parser.add_argument('--minutes', type=float, default=40.0, help='of training; rendering the drives comes before')
    parser.add_argument('--data', default=str(ROOT / '..' / 'shared' / 'data' / 'carla' / 'train.json'),
                        help='annotated images')
    parser.add_argument('--drives', type=int, default=200, help='rendered drives to add')
    parser.add_argument('--drive-share', type=float, default=0.45, help='share of the samples from rendered drives')
    parser.add_argument('--batch', type=int, default=4, help='images per step, at least 2 for the norms')
    parser.add_argument('--learning-rate', type=float, default=1e-3, help='peak rate')
    parser.add_argument('--ema', type=float, default=0.998, help='largest decay of the averaged weights')
    parser.add_argument('--bfloat16', action='store_true', help='compute in it, where that is faster')
    parser.add_argument('--seed', type=int, default=0, help='of samples, anchors and regions')
    parser.add_argument('--threads', type=int, default=1, help='CPU threads')
    parser.add_argument('--start', type=Path, help='weights of this script to go on from; random ones without')
    parser.add_argument('--out', type=Path, required=True, help='weights to write')
    args = parser.parse_args()
    for option, value, least in (('--batch', args.batch, 2), ('--drives', args.drives, 0)):
        if value < least:
            parser.error(f'{option} is {value}, expected at least {least}')
    plan = TrainingPlan(steps=SCHEDULE_STEPS, batch=args.batch, learning_rate=args.learning_rate, seed=args.seed,
                        warm_up=int(WARM_UP_SHARE * SCHEDULE_STEPS), ema=args.ema, bfloat16=args.bfloat16)
    use_threads(args.threads)
    source = samples_of(args.data, args.drives, args.drive_share)
    model = for_training(TRAINED[args.peer], len(source.class_names), args.start)
    print(f'{len(source)} images, {sum(one.numel() for one in model.parameters()) / 1e6:.1f} M weights', flush=True)
    torch.manual_seed(args.seed)
    began_s, began_cpu_s, stop = time.monotonic(), time.process_time(), StopRequest(args.minutes)
    with stop.listening():
        weights, steps = train(model, source, plan, args.minutes, stop)
    facts = {'peer': TRAINED[args.peer], 'class_names': source.class_names, 'steps': steps,
             'images': steps * plan.batch, 'minutes': (time.monotonic() - began_s) / 60.0,
             'cpu_minutes': (time.process_time() - began_cpu_s) / 60.0}
    if args.start is not None:
        earlier = json.loads(args.start.with_suffix('.json').read_text(encoding='utf-8'))
        facts |= {name: earlier[name] + facts[name] for name in ('steps', 'images', 'minutes', 'cpu_minutes')}
    facts |= {'batch': plan.batch, 'learning_rate': plan.learning_rate, 'data': source.digest,
              'start': None if args.start is None else args.start.name}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    torch.save(weights, args.out)
    write_text_atomically(args.out.with_suffix('.json'), json.dumps(facts, indent=1) + '\n')
    print(f'wrote {args.out} after {steps} steps')
    return stop.exit_status


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
