"""Trains a YOLOX-Nano further on annotated images; see `train --start models/street-open.safetensors`.

Source: Ge et al. 2021 (YOLOX, sections 2.1 to 2.3): each object takes the cells of least cost, as many as its best
boxes overlap it in sum; cells learn whether they hold an object, its class and its box. What differs: a class that an
image's source does not mark is learnt from the weights that the training starts from, and so are the cells that it
fills; norms stay within the convolutions.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from deadline_perception.extras.training.samples import Sample, SampleSource
from deadline_perception.extras.training.targets import TargetObjects
from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.extras.training.training_state import ResumableTraining
from deadline_perception.extras.training.transfer import in_bfloat16
from deadline_perception.networks.yolox.network import YoloxDetector
from deadline_perception.networks.yolox.outline import LARGEST_LOG_SIZE, cells

SIZES = ((384, 640), (256, 416), (192, 320))  # height and width in px
_RADIUS = 2.5  # strides from an object's middle within which a cell may stand for it
_MOST_CELLS = 10  # of one object
_BOX_WEIGHT, _IOU_COST, _OUTSIDE_COST = 5.0, 3.0, 1e5
_READY = 4  # batches that are drawn ahead

_Drawn = tuple[tuple[int, int], list[Sample]]


@dataclass(frozen=True, eq=False)
class Answers:
    """What the network says of `N` images, for all of their `K` cells.

    Attributes:
        boxes: `[N, K, 4]` xyxy in px.
        objectness: logits `[N, K]`.
        absent: `[N, K, C]`, logarithms of the probability that an object is not of a class.
    """

    boxes: Tensor
    objectness: Tensor
    absent: Tensor


def answers_of(network: YoloxDetector, images: Tensor) -> Answers:
    """Answers to uint8 `[N, 3, H, W]`."""
    values = network.head(network.neck(network.backbone(images.float())))
    boxes, objectness, classes = (
        torch.cat([value.float().flatten(2) for value in values[first::3]], 2).transpose(1, 2)
        for first in range(3)
    )
    corners, strides = map(torch.from_numpy, cells((images.shape[2], images.shape[3])))
    strides = strides[:, None]
    centres = (boxes[..., :2] + corners) * strides
    halves = boxes[..., 2:].clamp(max=LARGEST_LOG_SIZE).exp() * (strides / 2)
    # An object is of a class unless it is of none of the classes that stand for it.
    of_sources = F.softplus(classes).split(network.sources, 2)
    absent = torch.stack([-one.sum(2) for one in of_sources], 2)
    return Answers(torch.cat((centres - halves, centres + halves), 2), objectness[..., 0], absent)


@dataclass(frozen=True, eq=False)
class Assignment:
    """Which cells of an image stand for which of its objects.

    Attributes:
        cells: int64 `[P]`.
        objects: int64 `[P]`.
        overlaps: float `[P]`, of the cell's box with the object's.
    """

    cells: Tensor
    objects: Tensor
    overlaps: Tensor


@torch.no_grad()
def assign(
    boxes: Tensor,
    objectness: Tensor,
    absent: Tensor,
    wanted: Tensor,
    labels: Tensor,
    size: tuple[int, int],
) -> Assignment:
    """Assigns cells to objects by the cost of what they say now (simplified optimal transport, Ge et al. 2021).

    Args:
        boxes, objectness, absent: of one image, see `Answers`.
        wanted: boxes of objects `[G, 4]` xyxy in px.
        labels: their classes `[G]` from 0.
        size: height and width of the image in px.
    """
    corners, strides = map(torch.from_numpy, cells(size))
    middles = (corners + 0.5) * strides[:, None]
    distances = (middles[None] - (wanted[:, None, :2] + wanted[:, None, 2:]) / 2).abs().amax(2)
    near = distances < _RADIUS * strides
    candidates = near.any(0).nonzero()[:, 0]
    if not len(candidates):
        nothing = torch.zeros(0, dtype=torch.int64)
        return Assignment(nothing, nothing, torch.zeros(0))
    near, middles = near[:, candidates], middles[candidates]
    overlaps = overlap(wanted[:, None], boxes[None, candidates])
    inside = ((middles[None] > wanted[:, None, :2]) & (middles[None] < wanted[:, None, 2:])).all(2)
    present = (-torch.expm1(absent[candidates])).clamp(1e-6) * objectness[
        candidates, None
    ].sigmoid()
    cost = (
        -0.5 * present.log()[:, labels].T
        - _IOU_COST * overlaps.clamp(1e-6).log()
        + _OUTSIDE_COST * ~(near & inside)
        + _OUTSIDE_COST * 10 * ~near
    )
    best = overlaps.topk(min(_MOST_CELLS, len(candidates)), 1).values
    counts = best.sum(1).int().clamp(1)
    ranks = cost.argsort(1).argsort(1)
    chosen = (ranks < counts[:, None]) & near
    cheapest = cost.argmin(0)
    several = chosen.sum(0) > 1
    chosen[:, several] = False
    chosen[cheapest[several], several] = True
    objects, places = chosen.nonzero(as_tuple=True)
    return Assignment(candidates[places], objects, overlaps[objects, places])


def overlap(one: Tensor, other: Tensor) -> Tensor:
    """Intersection over union of boxes xyxy, of any shapes that go together."""
    low = torch.maximum(one[..., :2], other[..., :2])
    high = torch.minimum(one[..., 2:], other[..., 2:])
    shared = (high - low).clamp(0).prod(-1)
    areas = [(box[..., 2:] - box[..., :2]).clamp(0).prod(-1) for box in (one, other)]
    return shared / (areas[0] + areas[1] - shared).clamp(1e-6)


def losses(
    answers: Answers, teacher: Answers, objects: Sequence[TargetObjects], size: tuple[int, int]
) -> dict[str, Tensor]:
    """Losses of a batch by name, each over the number of cells that stand for objects.

    Args:
        answers: of the network.
        teacher: of the network that knows what the sources do not mark.
        objects: of each image, in px.
        size: height and width of the images in px.
    """
    sums: dict[str, list[Tensor]] = {'boxes': [], 'objectness': [], 'classes': []}
    count = 0
    corners, strides = map(torch.from_numpy, cells(size))
    middles = (corners + 0.5) * strides[:, None]
    for index, known in enumerate(objects):
        boxes, objectness, absent = (
            answers.boxes[index],
            answers.objectness[index],
            answers.absent[index],
        )
        named = torch.from_numpy(known.named)
        unmarked = 1 - teacher.absent[index][:, ~named].sum(1).exp()
        wanted_objectness = teacher.objectness[index].sigmoid() * unmarked
        weights = torch.ones_like(objectness)
        for crowd in torch.from_numpy(known.crowd):
            weights[((middles > crowd[:2]) & (middles < crowd[2:])).all(1)] = 0
        if len(known.boxes):
            wanted = torch.from_numpy(known.boxes)
            labels = torch.from_numpy(known.labels)
            found = assign(boxes, objectness, absent, wanted, labels, size)
            count += len(found.cells)
            wanted_objectness[found.cells] = 1.0
            weights[found.cells] = 1.0
            shared = overlap(boxes[found.cells], wanted[found.objects])
            sums['boxes'].append((1 - shared.square()).sum() * _BOX_WEIGHT)
            wanted_classes = F.one_hot(labels[found.objects], len(named)) * found.overlaps[:, None]
            sums['classes'].append(_class_loss(absent[found.cells], wanted_classes)[:, named].sum())
        if not named.all():
            distilled = (-torch.expm1(teacher.absent[index][:, ~named])).clamp(0, 1)
            each = _class_loss(absent[:, ~named], distilled).sum(1)
            sums['classes'].append((each * wanted_objectness * (unmarked > 0.5)).sum())
        each = F.binary_cross_entropy_with_logits(
            objectness, wanted_objectness, weights, reduction='none'
        )
        sums['objectness'].append(each.sum())
    return {name: torch.stack(parts).sum() / max(1, count) for name, parts in sums.items() if parts}


def _class_loss(absent: Tensor, wanted: Tensor) -> Tensor:
    """Binary cross entropy where the logarithm of the probability that a class is absent is given."""
    absent = absent.clamp(max=-1e-4)
    return -(wanted * torch.log(-torch.expm1(absent)) + (1 - wanted) * absent)


class YoloxTrainer(ResumableTraining[YoloxDetector]):
    """Trains a network in place.

    Args:
        network: with the weights that the training starts from, which teach what a source does not mark.
        source: draws samples.
        plan: how long and how fast; its rate is of the size of the weights of each channel, its sizes are `SIZES` where
            it names none.
        start: see `ResumableTraining`.

    Raises:
        ValueError: source and network have other classes.
    """

    def __init__(
        self,
        network: YoloxDetector,
        source: SampleSource,
        plan: TrainingPlan,
        start: str = '',
    ) -> None:
        if source.class_names != network.class_names:
            raise ValueError(
                f'classes of the samples are {source.class_names}, expected those of the network, '
                f'{network.class_names}'
            )
        self.source = source
        self.teacher = copy.deepcopy(network).eval().requires_grad_(False)
        network.requires_grad_(True)
        # Decay would go with the size of a weight, as the rate does already.
        super().__init__(network, replace(plan, weight_decay=0.0), start)
        self._ahead: deque[Future[_Drawn]] = deque()
        # Norms lie within the convolutions, so that channels differ in size by orders of magnitude.
        self._sizes = [_channel_sizes(weight.detach()) for weight in network.parameters()]

    @property
    def _facts(self) -> dict[str, str]:
        return {'samples': self.source.digest}

    def run(
        self,
        until: int | None = None,
        report: Callable[[int, dict[str, float]], None] | None = None,
        *,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """See `ResumableTraining.run`; samples of the next steps are drawn beside a step."""
        self._ahead.clear()
        with ThreadPoolExecutor(1) as self._reader:
            super().run(until, report, stop=stop)

    def _draw(self, step: int) -> _Drawn:
        """Depends on nothing but plan, source and step."""
        generator = np.random.default_rng([self.plan.seed, step])
        sizes = self.plan.sizes or SIZES
        size = sizes[generator.integers(len(sizes))]
        count = max(1, self.plan.batch * math.prod(self.source.size) // math.prod(size))
        return size, [self.source.draw(generator, size) for _ in range(count)]

    def _one_step(self) -> dict[str, float]:
        while len(self._ahead) < _READY:
            self._ahead.append(self._reader.submit(self._draw, self.step + len(self._ahead)))
        size, samples = self._ahead.popleft().result()
        pixels = np.stack([sample.image_bgr for sample in samples])
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        objects = [TargetObjects.of(sample.ground_truth, sample.named) for sample in samples]
        self._begin_step()
        with in_bfloat16(images.device, self.plan.bfloat16):
            with torch.no_grad():
                teacher = answers_of(self.teacher, images)
            answers = answers_of(self.network, images)
        parts = losses(answers, teacher, objects, size)
        total = torch.stack(list(parts.values())).sum()
        self._refuse_diverged('the loss', float(total.detach()))
        total.backward()
        self._refuse_diverged('the gradient', float(self._clip_gradients()))
        self._end_step()
        return {name: float(value.detach()) for name, value in parts.items()}

    def _update(self) -> None:
        """Each channel learns at a rate that goes with its own size."""
        weights = list(self.network.parameters())
        before = [weight.detach().clone() for weight in weights]
        super()._update()
        for weight, old, channel in zip(weights, before, self._sizes):
            weight.copy_(old + (weight - old) * channel)


def _channel_sizes(weight: Tensor) -> Tensor:
    """Root mean square of the weights of each output channel, that goes with `weight`; of all for biases."""
    if weight.dim() == 1:
        return weight.square().mean().sqrt()
    return weight.square().mean((1, 2, 3), keepdim=True).sqrt()
