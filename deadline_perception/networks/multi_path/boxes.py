"""Box arithmetic: boxes written relative to others, and those that others suppress. All boxes are xyxy in px.

Suppression is torchvision's kernel without torchvision's Python. Importing that loads PyTorch's compiler, Triton and SymPy
with it: 170 MB and a second that a detector has no use for (measured: benchmarks/start_up.py).
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from deadline_perception.networks.multi_path.array_forms import MAX_LOG_SCALE


def decode(
    deltas: Tensor, references: Tensor, weights: tuple[float, float, float, float]
) -> Tensor:
    """Deltas `[N, 4]` to references `[N, 4]` -> boxes `[N, 4]`: centre shift over size, log of the size ratio, times
    weights."""
    # Both axes at once, with few operations: of some boxes each costs its call.
    sizes = references[:, 2:] - references[:, :2]
    shifts = deltas / row(weights, deltas.device)
    centres = references[:, :2] + sizes * (shifts[:, :2] + 0.5)
    half = shifts[:, 2:].clamp(max=MAX_LOG_SCALE).exp() * (sizes / 2)
    return torch.cat((centres - half, centres + half), 1)


def clip(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes `[N, 4]` cut to an image of height and width `size` in px."""
    height, width = size
    return torch.minimum(boxes.clamp(min=0.0), row((width, height, width, height), boxes.device))


@cache
@torch.inference_mode(False)
def row(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers as a float32 tensor, kept: making one costs more than computing with it, and makes a GPU wait."""
    return torch.tensor(numbers, dtype=torch.float32, device=device)


_LIBRARIES = ('_C_stable', '_C')  # of torchvision, the newer first


def _load_kernels() -> None:
    """Registers the operators of torchvision, or imports it all where their library has another name."""
    spec = importlib.util.find_spec('torchvision')
    folders = (
        [] if spec is None else [Path(place) for place in spec.submodule_search_locations or ()]
    )
    for file in (
        folder / f'{name}{suffix}'
        for folder in folders
        for name in _LIBRARIES
        for suffix in importlib.machinery.EXTENSION_SUFFIXES
    ):
        if file.is_file():
            torch.ops.load_library(str(file))
            return
    import torchvision  # noqa: F401


_load_kernels()


def nms(boxes: Tensor, scores: Tensor, most_iou: float) -> Tensor:
    """Indices `[K]` of the boxes `[N, 4]`, xyxy, that no box of a higher score overlaps by more than `most_iou`; the
    best first. Source: torchvision.ops.nms."""
    return torch.ops.torchvision.nms(boxes, scores, most_iou)
