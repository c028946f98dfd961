"""The loss of one path on one batch against the ground truth or a teacher: objectness, boxes and classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from deadline_perception.extras.training.batch_proposals import proposals_of_batch
from deadline_perception.extras.training.box_deltas import encode
from deadline_perception.extras.training.first_stage import BOX_BETA, first_stage_of
from deadline_perception.extras.training.pyramid_features import pyramid_features
from deadline_perception.extras.training.strategies import TrainedPath
from deadline_perception.extras.training.targets import TargetObjects, box_scale, sample_regions
from deadline_perception.extras.training.transfer import to_device
from deadline_perception.networks.multi_path import heads as head_ops
from deadline_perception.networks.multi_path.array_forms import HEAD_DELTA_WEIGHTS
from deadline_perception.networks.multi_path.network import MultiPathDetector

REGIONS_PER_IMAGE = 128
_REGION_POSITIVE_SHARE = 0.25
_UNNAMED_LOGIT = (
    -1e4
)  # of a class that takes no part: its probability is 0, and finite logits keep 0 times it 0


@dataclass(frozen=True, eq=False)
class RegionSample:
    """The regions that the heads of a step are trained on, drawn from one path's proposals and the known objects.

    Attributes:
        boxes: `[R, 4]` xyxy in px of images of `size`.
        size: height and width in px of the images of the path that proposed them.
        images: `[R]` index into the batch.
        labels: `[R]`, 0 background, else 1 + class.
        deltas: `[R, 4]` wanted of regions on objects, 0 of others.
        ranks: `[R]` place among the proposals of the image, 0 the best; negative for known objects. On the CPU.
        on_object: `[R]` True where the label is not background. On the CPU, so that no GPU is waited for.
    """

    boxes: Tensor
    size: tuple[int, int]
    images: Tensor
    labels: Tensor
    deltas: Tensor
    ranks: np.ndarray
    on_object: np.ndarray


@dataclass(frozen=True, eq=False)
class DistillationTarget:
    """What the first path of a step leaves to the others.

    Attributes:
        regions: what its heads were trained on.
        first_stage: what its first stage answered; of no use at another input size, which has other anchors.
        classes: `[R, 1 + classes]` probabilities that its first head gave to the regions.
    """

    regions: RegionSample
    first_stage: Tensor
    classes: Tensor


def path_losses(
    network: MultiPathDetector,
    images: Tensor,
    ground_truths: Sequence[TargetObjects],
    anchors: object,
    trained: TrainedPath,
    generators: Sequence[np.random.Generator],
    *,
    batch: int,
    target: DistillationTarget | None = None,
) -> tuple[dict[str, Tensor], DistillationTarget]:
    """Losses of one path, each a scalar, and the distillation target for other paths on the same batch.

    Every anchor and region weighs the same whatever their number, so that the losses of parts of a batch add up to
    those of the whole.

    Args:
        network: in training mode.
        images: `[N, 3, h, w]`, normalised, of the path's input size.
        ground_truths: N images' objects, in px of that size.
        anchors: what is wanted of the first stage on these images at that size.
        trained: the path, and the heads to train on its regions.
        generators: one per image; draw the regions.
        batch: number of images that the losses are averaged over, N or more where other processes hold the others.
        target: of the step's first path. Its regions are used again, those among the best `proposals` of this path,
            and its output is mixed into the targets; boxes are learnt from the ground truth alone.

    A class that the source of an image does not name takes no part in the classes of its regions: neither its objects,
    which may be there unmarked, nor background are learnt against it. Anchors of a first stage that knows no classes
    take such objects for background, unless a teacher's boxes (`label`) cover them as objects or crowd.
    """
    size = tuple(images.shape[-2:])
    levels = pyramid_features(network, images, trained.path)
    answer = first_stage_of(network).answer(
        network,
        levels,
        anchors,
        trained,
        batch,
        target.first_stage if target is not None and target.regions.size == size else None,
    )
    losses = dict(answer.losses)
    regions = (
        target.regions
        if target
        else _draw_regions(network, answer.proposed, ground_truths, trained, generators, size)
    )
    chosen = np.flatnonzero(regions.ranks < trained.path['proposals'])
    on_objects = np.flatnonzero(regions.on_object[chosen])
    moved = to_device(np.concatenate((chosen, on_objects)), images.device)
    kept, positive = moved[: len(chosen)], moved[len(chosen) :]
    boxes, labels = regions.boxes[kept], regions.labels[kept]
    if regions.size != size:
        boxes = boxes * to_device(box_scale(regions.size, size), images.device)
    named = np.stack([ground_truth.named for ground_truth in ground_truths])
    unnamed = (
        None
        if named.all()
        else to_device(np.pad(~named, ((0, 0), (1, 0))), images.device)[regions.images[kept]]
    )
    features = head_ops.region_features(
        [level.float() for level in levels],
        boxes,
        head_ops.pyramid_levels(boxes, len(levels), network.strides[0]),
        regions.images[kept],
        strides=network.strides,
    )
    known_classes = F.one_hot(labels, len(network.class_names) + 1).float()
    distilled = target.classes[kept] if target else None
    weight = 1.0 / (REGIONS_PER_IMAGE * batch)
    for name, class_logits, box_deltas in _head_outputs(network, features, trained):
        if unnamed is not None:
            class_logits = class_logits.masked_fill(unnamed, _UNNAMED_LOGIT)
        wanted = (
            known_classes
            if distilled is None
            else known_classes.lerp(distilled, trained.distillation_weight)
        )
        losses[f'classes_{name}'] = F.cross_entropy(class_logits, wanted, reduction='sum') * weight
        losses[f'boxes_{name}'] = (
            F.smooth_l1_loss(
                box_deltas[positive], regions.deltas[kept[positive]], beta=BOX_BETA, reduction='sum'
            )
            * weight
        )
        if distilled is None:
            distilled = class_logits.detach().softmax(1)
    return losses, target or DistillationTarget(regions, answer.teacher, distilled)


def _head_outputs(
    network: MultiPathDetector, features: Tensor, trained: TrainedPath
) -> list[tuple[str, Tensor, Tensor]]:
    """Name, class logits and box deltas of every head that is trained, or those of their mean."""
    outputs = []
    for head in trained.heads:
        subnet = network.head(head)
        if subnet is None:
            continue
        class_logits, box_deltas = subnet(features)
        outputs.append((f'h{head}', class_logits.float(), box_deltas.float()))
    if not trained.aggregated:
        return outputs
    return [
        (
            'mean',
            torch.stack([classes for _, classes, _ in outputs]).mean(0),
            torch.stack([boxes for _, _, boxes in outputs]).mean(0),
        )
    ]


def _draw_regions(
    network: MultiPathDetector,
    answered: tuple,
    ground_truths: Sequence[TargetObjects],
    trained: TrainedPath,
    generators: Sequence[np.random.Generator],
    size: tuple[int, int],
) -> RegionSample:
    parts = []
    proposed = proposals_of_batch(
        network.select_proposals, answered, trained.path['proposals'], size
    )
    for image, (regions, ground_truth, generator) in enumerate(
        zip(proposed, ground_truths, generators)
    ):
        boxes, labels, targets, ranks = sample_regions(
            regions, ground_truth, REGIONS_PER_IMAGE, _REGION_POSITIVE_SHARE, generator
        )
        wanted = np.zeros_like(boxes)
        wanted[: len(targets)] = encode(
            torch.from_numpy(targets),
            torch.from_numpy(boxes[: len(targets)]),
            HEAD_DELTA_WEIGHTS,
        ).numpy()
        parts.append((boxes, wanted, np.full_like(labels, image), labels, ranks))
    boxes, wanted, images, labels, ranks = (np.concatenate(column) for column in zip(*parts))
    device = network.pixel_mean.device
    numbers, indices = (
        to_device(np.stack((boxes, wanted)), device),
        to_device(np.stack((images, labels)), device),
    )
    return RegionSample(numbers[0], size, indices[0], indices[1], numbers[1], ranks, labels > 0)
