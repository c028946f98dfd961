"""What the first stage of a detector learns: an objectness of drawn anchors, or classes of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from deadline_perception.extras.training.dense_targets import DenseAnchors, assign_anchors
from deadline_perception.extras.training.strategies import TrainedPath
from deadline_perception.extras.training.targets import (
    ANCHORS_PER_IMAGE,
    AnchorSample,
    ImageAnchors,
    TargetObjects,
    all_anchors,
    choose_anchors,
    join_anchors,
)
from deadline_perception.extras.training.transfer import to_device
from deadline_perception.networks.multi_path import boxes as box_ops
from deadline_perception.networks.multi_path.dense.network import DenseDetector
from deadline_perception.networks.multi_path.dense.outline import DELTA_WEIGHTS
from deadline_perception.networks.multi_path.network import MultiPathDetector

BOX_BETA = 1.0 / 9.0
_FOCUS = 2.0  # of the classes' loss, on anchors whose probability is far off (Lin et al. 2017, Li et al. 2020)
_BOX_WEIGHT = 2.0  # ATSS, section 4


@dataclass(frozen=True, eq=False)
class FirstAnswer:
    """What a first stage said of a batch.

    Attributes:
        losses: by name, scalars.
        proposed: what `select_proposals` chooses from.
        teacher: probabilities for paths on images of the same size to be distilled from.
    """

    losses: dict[str, Tensor]
    proposed: tuple
    teacher: Tensor


class AnchorStage:
    """How a region proposal network is trained: it learns objectness and boxes of some anchors of each image."""

    def targets(
        self,
        network: MultiPathDetector,
        size: tuple[int, int],
        objects: TargetObjects,
        generator: np.random.Generator,
    ) -> ImageAnchors:
        """What is wanted of one image of height and width `size` in px; on the CPU."""
        return choose_anchors(all_anchors(network.config, size), objects, generator)

    def joined(
        self,
        network: MultiPathDetector,
        size: tuple[int, int],
        targets: Sequence[ImageAnchors],
        device: torch.device,
    ) -> AnchorSample:
        """The targets of all images of a batch, on a device."""
        return join_anchors(targets, len(all_anchors(network.config, size)), device)

    def answer(
        self,
        network: MultiPathDetector,
        levels: list[Tensor],
        targets: AnchorSample,
        trained: TrainedPath,
        batch: int,
        teacher: Tensor | None,
    ) -> FirstAnswer:
        """What the first stage says of pyramid levels, and its losses.

        Args:
            network: in training mode.
            levels: features of the batch.
            targets: as `joined` gives them.
            trained: says how much of the target is the teacher's.
            batch: number of images that the losses are averaged over.
            teacher: by the first path of the step at the same size of image, None without one.
        """
        logits, deltas = network.rpn(levels)
        said = torch.cat(logits, 1).flatten()[targets.indices].float()
        said_deltas = torch.cat(deltas, 1).flatten(0, 1)[targets.indices[targets.positives]].float()
        wanted = (
            targets.labels
            if teacher is None
            else targets.labels.lerp(teacher, trained.distillation_weight)
        )
        weight = 1.0 / (ANCHORS_PER_IMAGE * batch)
        losses = {
            'objectness': F.binary_cross_entropy_with_logits(said, wanted, reduction='sum')
            * weight,
            'anchor_boxes': F.smooth_l1_loss(
                said_deltas, targets.deltas, beta=BOX_BETA, reduction='sum'
            )
            * weight,
        }
        return FirstAnswer(losses, (logits, deltas), said.detach().sigmoid())


@dataclass(frozen=True, eq=False)
class _DenseBatch:
    """The targets of a batch: see `DenseAnchors`, all images in one.

    Attributes:
        wanted: `[N, A, classes]` 1 where an anchor has a class.
        counts: `[N, A, classes]` 0 where a class takes no part at an anchor.
        positives: indices `[P]` into all anchors of all images.
        anchors: `[P, 4]`, boxes: `[P, 4]` wanted, centred: `[P]` wanted.
        totals: `[2]` positives, and the sum of what is centred, of the images of all processes.
    """

    wanted: Tensor
    counts: Tensor
    positives: Tensor
    anchors: Tensor
    boxes: Tensor
    centred: Tensor
    totals: Tensor


class DenseStage:
    """How a dense first stage is trained, with the methods of `AnchorStage`.

    It learns the classes of all anchors; one of an unnamed class takes no part there.
    """

    def targets(
        self,
        network: DenseDetector,
        size: tuple[int, int],
        objects: TargetObjects,
        generator: np.random.Generator,
    ) -> DenseAnchors:
        """See `AnchorStage`."""
        return assign_anchors(size, objects)

    def joined(
        self,
        network: DenseDetector,
        size: tuple[int, int],
        targets: Sequence[DenseAnchors],
        device: torch.device,
    ) -> _DenseBatch:
        """See `AnchorStage`."""
        count, classes = targets[0].count, len(network.class_names)
        wanted = np.zeros((len(targets), count, classes), np.float32)
        counts = np.ones_like(wanted)
        for number, one in enumerate(targets):
            wanted[number, one.positives, one.labels] = 1.0
            counts[number, one.crowd] = 0.0
            counts[number, :, ~one.named] = 0.0
            counts[number, one.positives] = one.named
        positives = np.concatenate(
            [one.positives + number * count for number, one in enumerate(targets)]
        )
        parts = (
            np.concatenate([getattr(one, name) for one in targets])
            for name in ('anchors', 'boxes', 'centred')
        )
        totals = to_device(
            np.float32([len(positives), sum(one.centred.sum() for one in targets)]), device
        )
        if torch.distributed.is_initialized():  # all join the same batches in the same order
            torch.distributed.all_reduce(totals)
        return _DenseBatch(
            *(to_device(part, device) for part in (wanted, counts, positives, *parts)), totals
        )

    def answer(
        self,
        network: DenseDetector,
        levels: list[Tensor],
        targets: _DenseBatch,
        trained: TrainedPath,
        batch: int,
        teacher: Tensor | None,
    ) -> FirstAnswer:
        """See `AnchorStage`."""
        from torchvision.ops import generalized_box_iou_loss

        answer = network.compute('rpn', trained.path, {'pyramid': tuple(levels)})
        logits, centred, deltas = (part.float() for part in answer)
        said = logits.detach().sigmoid()
        wanted = (
            targets.wanted
            if teacher is None
            else targets.wanted.lerp(teacher, trained.distillation_weight)
        )
        focus = (wanted - said).abs() ** _FOCUS * targets.counts
        per_object, weight = 1.0 / targets.totals.clamp(min=1.0)
        found = box_ops.decode(
            deltas.flatten(0, 1)[targets.positives], targets.anchors, DELTA_WEIGHTS
        )
        box_losses = generalized_box_iou_loss(found, targets.boxes) * targets.centred
        classes = F.binary_cross_entropy_with_logits(logits, wanted, reduction='none') * focus
        losses = {
            'dense_classes': classes.sum() * per_object,
            'dense_boxes': box_losses.sum() * (_BOX_WEIGHT * weight),
            'centredness': F.binary_cross_entropy_with_logits(
                centred.flatten()[targets.positives], targets.centred, reduction='sum'
            )
            * per_object,
        }
        return FirstAnswer(losses, tuple(part.detach() for part in (logits, centred, deltas)), said)


def first_stage_of(network: MultiPathDetector) -> AnchorStage | DenseStage:
    """How a network's first stage is trained."""
    return DenseStage() if isinstance(network, DenseDetector) else AnchorStage()
