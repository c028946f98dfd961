"""Detectors as teams bring them, with random weights: real exports of small YOLO-like networks, and weights of
torchvision."""

import importlib
import importlib.util
import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

CLASSES = ('car', 'person', 'bike')
SIZE = (64, 96)


class SmallYolo(nn.Module):
    """One head at stride 16, with the outputs of YOLOv8 (`[1, 4 + C, N]`) or YOLOv5 (`[1, N, 5 + C]`)."""

    def __init__(self, classes: int = len(CLASSES), form: str = 'yolov8', width: int = 8) -> None:
        super().__init__()
        channels = (3, width, width, 2 * width, 2 * width)
        pairs = zip(channels, channels[1:])
        self.body = nn.Sequential(
            *(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.SiLU()) for a, b in pairs)
        )
        self.head = nn.Conv2d(channels[-1], 5 + classes, 1)
        self.form = form
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(std=0.4)

    def forward(self, images: Tensor) -> Tensor:
        given = self.head(self.body(images))
        rows, columns = given.shape[2:]
        ys, xs = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing='ij')
        grid = torch.stack([xs, ys])[None].to(given)
        centres = (given[:, :2].sigmoid() + grid) * 16.0
        sizes = (given[:, 2:4].sigmoid() + 0.2) * 40.0
        boxes = torch.cat([centres, sizes], 1).flatten(2)
        objectness, scores = given[:, 4:5].sigmoid().flatten(2), given[:, 5:].sigmoid().flatten(2)
        if self.form == 'yolov5':
            return torch.cat([boxes, objectness, scores], 1).transpose(1, 2)
        return torch.cat([boxes, scores], 1)


class BoxesScoresLabels(nn.Module):
    """Three outputs of fixed number, as exports with suppression inside have them; labels as whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.yolo = SmallYolo()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = self.yolo(images)[0].T
        scores, labels = rows[:, 4:].max(1)
        scores, order = scores.topk(6)
        rows = rows[order]
        centres, halves = rows[:, :2], rows[:, 2:4] / 2
        return torch.cat([centres - halves, centres + halves], 1), scores, labels[order]


def export_onnx(
    module: nn.Module,
    file: Path,
    size: tuple[int, ...] = SIZE,
    *,
    outputs: tuple[str, ...] = ('output0',),
    dynamic: dict | None = None,
    kind: torch.dtype = torch.float32,
    batch: int = 1,
    further: Mapping[str, Tensor] | None = None,
) -> Path:
    """PyTorch's own export of a module, with inputs beside the image by name."""
    example = torch.zeros(batch, 3, *size, dtype=kind)
    beside = dict(further or {})
    names = {'input_names': ['images', *beside], 'output_names': list(outputs)}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter('ignore')
        if importlib.util.find_spec('onnx') is None:
            _do_without_onnx(patch)
        torch.onnx.export(
            module.eval(),
            (example, *beside.values()),
            str(file),
            dynamo=False,
            opset_version=17,
            dynamic_axes=dynamic,
            **names,
        )
    return file


def _do_without_onnx(patch: pytest.MonkeyPatch) -> None:
    """The exporter takes the package onnx for one thing alone: to add functions of other domains, of which there are
    none here."""
    for name in (
        'torch.onnx._internal.torchscript_exporter.onnx_proto_utils',
        'torch.onnx._internal.onnx_proto_utils',
    ):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        patch.setattr(module, '_add_onnxscript_fn', lambda model_bytes, custom_opsets: model_bytes)
        return


def small_yolo(
    folder: Path,
    form: str = 'yolov8',
    *,
    name: str = 'small_yolo',
    width: int = 8,
    classes: int = len(CLASSES),
    **options,
) -> Path:
    """A file of a small YOLO with random weights."""
    torch.manual_seed(1)
    return export_onnx(SmallYolo(classes, form, width), folder / f'{name}.onnx', **options)


def ssdlite_weights(folder: Path, classes: int = len(CLASSES)) -> Path:
    """Random weights of torchvision's smallest detector, as `torch.save` writes a state dict."""
    from torchvision.models import get_model

    torch.manual_seed(2)
    random = {'weights': None, 'weights_backbone': None}
    model = get_model('ssdlite320_mobilenet_v3_large', num_classes=classes + 1, **random)
    torch.save(model.state_dict(), folder / 'ssdlite.pth')
    return folder / 'ssdlite.pth'
