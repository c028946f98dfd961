"""torchvision's detectors with random weights, made to work as trained ones would, and converted as a user of OpenVINO
does.

No trained weights are downloaded, so only times mean anything. They depend on values in three
places, which are set so that post-processing is neither skipped nor flooded: statistics of the norms come from the
images, so that features have the scale that they have after training; scores of regions differ by a standard deviation
of 2 in each class, where those of random weights are all alike; and the score of the background is shifted until as
many objects per image are found, at a score of 0.05, as wanted. How many regions were proposed is told.
"""
from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import get_model

from deadline_perception.engine.openvino_library import load_openvino, openvino_core, own_signal_stack

LEAST_SCORE = 0.05  # torchvision's own for Faster R-CNN; SSDLite's is 0.001, which passes nearly every anchor
SCORE_DEVIATION = 2.0  # of scores before their softmax, over the regions
BISECTIONS, BISECTED_IMAGES = 10, 6
CALIBRATION_IMAGES = 8
SIZE = (384, 640)
# Architecture and its options; sizes that images are resized to are the model's own where none is given.
PEERS = {
    'SSDLite320 MobileNetV3': ('ssdlite320_mobilenet_v3_large', {'score_thresh': LEAST_SCORE}),
    'Faster R-CNN MobileNetV3-320 FPN': ('fasterrcnn_mobilenet_v3_large_320_fpn', {'box_score_thresh': LEAST_SCORE}),
    'Faster R-CNN ResNet-50 FPN, 640x384': ('fasterrcnn_resnet50_fpn', {
        'box_score_thresh': LEAST_SCORE, 'min_size': SIZE[0], 'max_size': SIZE[1]}),
}
TRAINED = dict(zip(('ssdlite', 'fasterrcnn'), PEERS))  # those that peer_training.py trains, by their files' names


def prepared(image_bgr: np.ndarray) -> Tensor:
    """uint8 `[H, W, 3]` -> float32 `[1, 3, H, W]`, RGB from 0 to 1."""
    return torch.from_numpy(image_bgr).permute(2, 0, 1).flip(0)[None].float().div_(255.0)


class Plain(nn.Module):
    """A detector of torchvision with one tensor in and three out, for tracing."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self._model([images[0]])[0]
        return found['boxes'], found['scores'], found['labels']


def build(name: str, classes: int, state: Path | None = None) -> nn.Module:
    """A peer in evaluation mode, random without a file of its weights.

    Args:
        name: one of `PEERS`.
        classes: that it finds, the background not among them.
        state: weights that `make` wrote.
    """
    architecture, options = PEERS[name]
    torch.manual_seed(0)
    model = get_model(architecture, weights=None, weights_backbone=None, num_classes=classes + 1, **options).eval()
    if state is not None:
        model.load_state_dict(torch.load(state, weights_only=True))
    return model


def settle_norms(model: nn.Module, images: list[Tensor]) -> None:
    """Gives every norm the statistics that its inputs have on the images."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all that it sees
        norm.train()
    model([image[0] for image in images])  # together: the smallest maps have one pixel
    for norm in norms:
        norm.eval()


def score_layers(model: nn.Module) -> list[nn.Module]:
    """The last layers of the scores; the background comes first among the classes of each."""
    if hasattr(model, 'roi_heads'):
        return [model.roi_heads.box_predictor.cls_score]
    return [layers[-1] for layers in model.head.classification_head.module_list]


def spread_scores(model: nn.Module, images: list[Tensor]) -> None:
    """Gives the scores of every class a mean of 0 and a standard deviation of `SCORE_DEVIATION` over the regions."""
    for layer in score_layers(model):
        given: list[Tensor] = []
        handle = layer.register_forward_hook(lambda _, __, scores: given.append(scores))
        for image in images:
            model([image[0]])
        handle.remove()
        rows = torch.cat([scores.movedim(1, -1).flatten(0, -2) for scores in given])
        scale = SCORE_DEVIATION / rows.std(0).clamp(min=1e-6)
        layer.weight.mul_(scale.view(-1, *[1] * (layer.weight.dim() - 1)))
        layer.bias.copy_((layer.bias - rows.mean(0)) * scale)


def set_objects(model: nn.Module, images: list[Tensor], wanted: float) -> float:
    """Shifts the score of the background until so many objects per image are found, in the mean; what came of it."""
    columns = model.head.classification_head.num_columns if hasattr(model, 'head') else None
    biases = [layer.bias[::columns] if columns else layer.bias[:1] for layer in score_layers(model)]
    before = [bias.clone() for bias in biases]

    backbone, features, shown = model.backbone.forward, {}, [0]

    def remembered(pixels: Tensor) -> object:
        if shown[0] not in features:
            features[shown[0]] = backbone(pixels)
        return features[shown[0]]

    def found(shift: float) -> float:
        for bias, value in zip(biases, before):
            bias.copy_(value + shift)
        count = 0
        for shown[0], image in enumerate(images):
            count += len(model([image[0]])[0]['scores'])
        return count / len(images)

    model.backbone.forward = remembered  # which does not depend on the score, and takes most of the time
    low, high = -10.0, 30.0  # of more background come fewer objects
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if found(middle) > wanted else (low, middle)
    objects = found(high)
    del model.backbone.forward
    return objects


@torch.inference_mode()
def make(name: str, classes: int, images: list[np.ndarray], wanted: float, folder: Path) -> dict:
    """Builds a peer and writes its weights and its two models of OpenVINO into a folder, where they can be made.

    Returns:
        Operations, counts, and why a form is missing, by its name.
    """
    inputs = [prepared(image) for image in images]
    model = build(name, classes)
    settle_norms(model, inputs[::max(1, len(inputs) // 4)][:4])
    seen = [inputs[index * len(inputs) // BISECTED_IMAGES] for index in range(BISECTED_IMAGES)]
    spread_scores(model, seen)
    objects = set_objects(model, seen, wanted)
    with FlopCounterMode(display=False) as counter:
        model([inputs[0][0]])
    torch.save(model.state_dict(), folder / 'weights.pt')
    facts = {'gflop': counter.get_total_flops() / 1e9, 'objects_per_image': objects,
             'regions': regions(model, inputs[0]), 'missing': {}}
    openvino = load_openvino()
    # Converter and quantiser may end the process, which is a result too: facts are kept before each.
    keep(facts | {'missing': dict.fromkeys(('float', '8 bit'), 'converting it ended the process')}, folder)
    try:
        with torch.inference_mode(False), torch.no_grad():
            converted = openvino.convert_model(Plain(build(name, classes, folder / 'weights.pt')),
                                               example_input=(inputs[0].clone(),), input=[(1, 3, *SIZE)])
        openvino.save_model(converted, folder / 'float.xml', compress_to_fp16=False)
    except Exception as error:  # of any kind: what the converter cannot do is a result
        facts['missing'] |= dict.fromkeys(('float', '8 bit'), told(error))
        return facts
    keep(facts | {'missing': {'8 bit': 'quantising it ended the process'}}, folder)
    try:
        import nncf

        nncf.set_log_level(logging.ERROR)
        data = nncf.Dataset([image.numpy() for image in inputs[:CALIBRATION_IMAGES]])
        converted = openvino_core().read_model(folder / 'float.xml')  # as converted, some names occur twice
        with contextlib.redirect_stdout(io.StringIO()), own_signal_stack():  # it makes cores of its own
            quantised = nncf.quantize(converted, data, subset_size=min(len(inputs), CALIBRATION_IMAGES),
                                      target_device=nncf.TargetDevice.CPU)
        openvino.save_model(quantised, folder / '8 bit.xml', compress_to_fp16=False)
    except Exception as error:  # as above
        facts['missing']['8 bit'] = told(error)
    return facts


def regions(model: nn.Module, image: Tensor) -> int:
    """Regions that the second stage computes; of a network of one stage, its anchors."""
    counts = []
    layer = model.roi_heads.box_predictor if hasattr(model, 'roi_heads') else model.head
    handle = layer.register_forward_hook(
        lambda _, __, given: counts.append(len(given[0]) if isinstance(given, tuple) else given['cls_logits'].shape[1]))
    model([image[0]])
    handle.remove()
    return counts[0]


def keep(facts: dict, folder: Path) -> None:
    """Writes `facts.json`."""
    (folder / 'facts.json').write_text(json.dumps(facts), encoding='utf-8')


def told(error: Exception) -> str:
    """An error in one line."""
    return f'{type(error).__name__}: {(str(error).strip().splitlines() or [""])[-1][:200]}'


def main(name: str, classes: str, images: str, wanted: str, folder: str) -> None:
    """In a process of its own, because conversion takes memory: makes a peer and leaves `facts.json` beside it."""
    keep(make(name, int(classes), list(np.load(images)), float(wanted), Path(folder)), Path(folder))


if __name__ == '__main__':
    main(*sys.argv[1:])
