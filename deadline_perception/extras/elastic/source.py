"""Where an ordinary network comes from, and what goes into it and comes out: torchvision's, or a callable of the
user's.

Classifiers give logits `[N, classes]`. Detectors are torchvision's SSD and SSDLite: what lies between image and boxes
is the network, `SsdOutputs`; boxes are decoded as torchvision does.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from deadline_perception.core.detections import Classification, Detections
from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.extras.state_dict import read_state_dict
from deadline_perception.extras.trusted_callable import CALLABLES, may_call
from deadline_perception.networks.multi_path.checkpoint import WithoutMemory
from deadline_perception.networks.weights_file import MOST_CLASSES, is_class_name

_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CLASSIFIER_SIZE = (224, 224)
MOST_INPUT_PX = 2048  # of a network that a file may describe
_FIRST_SCORES = 'head.classification_head.module_list.0.'  # weights of an SSD that score the finest level's anchors


class SourceError(DeadlinePerceptionError):
    """There is no such network, or its weights do not fit it."""


@dataclass(frozen=True)
class NetworkSource:
    """What an ordinary network is made of, kept with its weights.

    Attributes:
        model: name of one of torchvision's networks, or `package.module:callable`, which is called without arguments
            and gives a classifier.
        class_names: what its labels mean, at least one and at most `MOST_CLASSES`; without a detector's background.
        input_size: height and width in px that images are resized to, at most `MOST_INPUT_PX`.
        mean, deviation: of RGB values in [0, 1], which the input is normalised by.

    Raises:
        ValueError: a value lies outside its range.
    """

    model: str
    class_names: tuple[str, ...]
    input_size: tuple[int, int] = _CLASSIFIER_SIZE
    mean: tuple[float, ...] = _IMAGENET[0]
    deviation: tuple[float, ...] = _IMAGENET[1]

    def __post_init__(self) -> None:
        for name in ('class_names', 'input_size', 'mean', 'deviation'):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not 0 < len(self.class_names) <= MOST_CLASSES or not all(
            map(is_class_name, self.class_names)
        ):
            raise ValueError(
                f'class_names is {printable(repr(self.class_names), 60)}, expected 1 to {MOST_CLASSES} '
                f'names'
            )
        if len(self.input_size) != 2 or not all(
            isinstance(side, int) and 0 < side <= MOST_INPUT_PX for side in self.input_size
        ):
            raise ValueError(
                f'input_size is {printable(repr(self.input_size), 60)}, expected height and width of 1 to '
                f'{MOST_INPUT_PX} px'
            )
        if (
            not len(self.mean) == len(self.deviation) == 3
            or not all(value > 0 for value in self.deviation)
            or not all(map(math.isfinite, (*self.mean, *self.deviation)))
        ):
            raise ValueError(
                f'mean is {self.mean} and deviation {self.deviation}, expected three finite '
                f'numbers each, the latter above 0'
            )

    @property
    def example_inputs(self) -> tuple[Tensor]:
        """What the network is traced with: one image of zeros."""
        return (torch.zeros(1, 3, *self.input_size),)

    def ordinary(self, weights: Mapping[str, Tensor] | None = None) -> nn.Module:
        """The ordinary network, in evaluation mode.

        Args:
            weights: of the network, by name; random ones without.

        Raises:
            SourceError: there is no such network, or the weights are not its.
        """
        model = _build(self.model, len(self.class_names))
        if weights is not None:
            try:
                model.load_state_dict(dict(weights))
            except RuntimeError as error:
                raise SourceError(
                    f'weights do not fit {self.model} of {len(self.class_names)} classes: '
                    f'{" ".join(str(error).split())[:300]}'
                ) from error
        return (SsdOutputs(model) if _is_ssd(model) else model).eval()

    def decoder(self) -> ClassDecoder | SsdDecoder:
        """What makes the network's outputs into a result."""
        model = _build(self.model, len(self.class_names))
        return SsdDecoder(model.eval(), self.input_size) if _is_ssd(model) else ClassDecoder()


class SsdOutputs(nn.Module):
    """The part of torchvision's SSD between normalised images and boxes: logits and box offsets of every anchor.

    Args:
        ssd: whose layers it shares.
    """

    def __init__(self, ssd: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = ssd.backbone, ssd.head

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """`[N, 3, H, W]` -> logits `[N, anchors, 1 + classes]` and offsets `[N, anchors, 4]`."""
        outputs = self.head(list(self.backbone(images).values()))
        return outputs['cls_logits'], outputs['bbox_regression']


class ClassDecoder:
    """Logits to probabilities."""

    result_type = Classification

    def decode(self, values: tuple[Tensor, ...], image_size: tuple[int, int]) -> Classification:
        """The result for an image of that height and width in px."""
        return Classification(values[0][0].float().softmax(0).cpu().numpy())


class SsdDecoder:
    """Logits and offsets to boxes, with torchvision's thresholds and suppression.

    Args:
        ssd: whose weights are not kept.
        input_size: height and width in px of its input.
    """

    result_type = Detections

    def __init__(self, ssd: nn.Module, input_size: tuple[int, int]) -> None:
        from torchvision.models.detection.image_list import ImageList

        images = torch.zeros(1, 3, *input_size)
        with torch.no_grad():
            features = list(ssd.backbone(images).values())
            self._anchors = ssd.anchor_generator(ImageList(images, [tuple(input_size)]), features)
        ssd.backbone, ssd.head = nn.Identity(), nn.Identity()
        self._ssd, self._size = ssd, tuple(input_size)

    def decode(self, values: tuple[Tensor, ...], image_size: tuple[int, int]) -> Detections:
        """The result for an image of that height and width in px."""
        outputs = {
            'cls_logits': values[0].cpu().float(),
            'bbox_regression': values[1].cpu().float(),
        }
        found = self._ssd.postprocess_detections(outputs, self._anchors, [self._size])[0]
        scale = np.divide(image_size, self._size)[[1, 0, 1, 0]]
        return Detections(
            found['boxes'].numpy() * scale,
            found['scores'].numpy().clip(0.0, 1.0),
            found['labels'].numpy() - 1,
        )


def find_source(
    model: str,
    weights: Mapping[str, Tensor],
    class_names: tuple[str, ...] = (),
    size: tuple[int, int] | None = None,
) -> NetworkSource:
    """The source of a network with a user's weights, whose number of classes they tell.

    Args:
        model: see `NetworkSource`.
        weights: by name.
        class_names: what the labels mean; empty: those of ImageNet or COCO where the number is theirs, else numbers.
        size: height and width in px of a classifier's input; None for 224 x 224. A detector has its own.

    Raises:
        SourceError: there is no such network, or names and weights disagree in the number of classes, or it is beyond
            `MOST_CLASSES`.
    """
    template = _build(model, len(class_names) or 2)
    # In the order of the layers, which a safetensors file does not keep.
    biases = {
        name: weights[name] for name, value in template.state_dict().items() if name in weights
    } or weights
    biases = {name: value for name, value in biases.items() if value.dim() == 1}
    if _is_ssd(template):
        of_first = [value for name, value in biases.items() if name.startswith(_FIRST_SCORES)]
        anchors = template.anchor_generator.num_anchors_per_location()[0]
        count = len(of_first[-1]) // anchors - 1 if of_first else len(class_names)
        input_size = tuple(template.transform.fixed_size[::-1])
        mean, deviation = tuple(template.transform.image_mean), tuple(template.transform.image_std)
    else:
        count = len(list(biases.values())[-1]) if biases else len(class_names)
        input_size, (mean, deviation) = size or _CLASSIFIER_SIZE, _IMAGENET
    if count > MOST_CLASSES:
        raise SourceError(f'weights are of {count} classes, expected at most {MOST_CLASSES}')
    names = class_names or _known_names(count, _is_ssd(template))
    if len(names) != count:
        raise SourceError(
            f'{len(names)} class names with weights of {count} classes, expected one for each'
        )
    return NetworkSource(model, names, input_size, mean, deviation)


def source_in_file(facts: Mapping[str, object], weights: int) -> NetworkSource:
    """The source that a file of an elastic network states, within the limits of what a stranger may state.

    Args:
        facts: fields of `NetworkSource`.
        weights: values that the file holds; those of the network must be among them before any takes memory.

    Raises:
        SourceError: it names code that the user did not, or a network of more than the file holds.
        TypeError: a field is unknown or missing.
        ValueError: a value is out of range.
    """
    source = NetworkSource(**facts)
    model, count = source.model, len(source.class_names)
    if not isinstance(model, str):
        raise ValueError(f'model is {printable(repr(model), 60)}, expected the name of a network')
    if ':' in model:
        if not may_call(model):
            raise SourceError(
                f'it names the code {printable(repr(model), 100)}, which a file alone does not start; if '
                f'you trust it, name it yourself: {CALLABLES}={printable(model, 100)}'
            )
        return source
    with WithoutMemory():
        network = _build(model, count)
    needed = sum(value.numel() for value in network.parameters())
    if needed > weights:
        raise SourceError(
            f'{model} of {count} classes has {needed} weights and the file {weights} values'
        )
    return source


def read_weights(file: Path) -> dict[str, Tensor]:
    """Weights by name, of a safetensors file or of one that `torch.save` wrote; nothing in it is executed.

    Raises:
        SourceError: the file is missing or holds something else.
    """
    try:
        found = read_state_dict(Path(file))
    except FileNotFoundError:
        raise SourceError(f'weights file {file} does not exist') from None
    except (OSError, FileRefused) as error:
        raise SourceError(
            f'weights file {file} cannot be read: {error}; expected safetensors, or a state dict that '
            f'torch.save wrote'
        ) from error
    return {
        name: value.float() if value.is_floating_point() else value for name, value in found.items()
    }


def _build(model: str, classes: int) -> nn.Module:
    module, _, name = model.partition(':')
    if name:
        try:
            made = getattr(importlib.import_module(module), name)()
        except (ImportError, AttributeError) as error:
            raise SourceError(
                f'model is {model!r}, expected package.module:callable: {error}'
            ) from error
        if not isinstance(made, nn.Module):
            raise SourceError(
                f'model {model!r} gives a {type(made).__name__}, expected a torch.nn.Module'
            )
        return made
    from torchvision import models

    detectors = models.list_models(module=models.detection)
    if model not in (
        *models.list_models(module=models),
        *detectors,
    ):  # others would download a part of themselves
        raise SourceError(
            f"model is {model!r}, expected the name of one of torchvision's networks, such as resnet18 "
            f'or ssdlite320_mobilenet_v3_large, or package.module:callable'
        )
    arguments: dict[str, object] = {'weights': None, 'num_classes': classes}
    if model in detectors:
        arguments |= {'weights_backbone': None, 'num_classes': classes + 1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = models.get_model(model, **arguments)
    if model in detectors and not _is_ssd(made):
        raise SourceError(
            f'model {model!r} finds its regions by the data, expected a classifier, SSD or SSDLite'
        )
    return made


def _is_ssd(model: nn.Module) -> bool:
    from torchvision.models.detection.ssd import SSD

    return isinstance(model, SSD)


def _known_names(count: int, is_detector: bool) -> tuple[str, ...]:
    from torchvision.models._meta import _COCO_CATEGORIES, _IMAGENET_CATEGORIES

    known = _COCO_CATEGORIES[1:] if is_detector else _IMAGENET_CATEGORIES
    digits = int(math.log10(max(count, 1))) + 1
    if len(known) != count:
        return tuple(f'class{number:0{digits}d}' for number in range(count))
    return tuple(
        name if known.count(name) == 1 else f'{name} {number}' for number, name in enumerate(known)
    )
