"""Non-maximum suppression: torchvision's kernel, without torchvision's Python.

Importing `torchvision` loads PyTorch's compiler, Triton and SymPy with it: 170 MB and a second that a detector has no
use for (measured: benchmarks/start_up.py).
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path

import torch
from torch import Tensor

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
