"""Copies of weights count as memory."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from weight_memory import weight_bytes

from deadline_perception.engines.sliced_layers import Convolution, Span


class Part(NamedTuple):
    kept: tuple[int, ...]
    key: object = None
    row: int = 0


def test_copies_count_as_memory():
    spans = {'weight': {0: (Span(0, 8),), 1: (Span(1, 8),)}}
    layer = Convolution(spans, nn.Conv2d(8, 8, 3, bias=False)).eval()
    layer = layer.to(memory_format=torch.channels_last)
    with torch.no_grad():
        layer.used(Part((8, 8), 'whole'))
        assert weight_bytes(layer) == 4 * 8 * 8 * 9, 'the whole weight is no copy'
        layer.used(Part((2, 4), 'narrow'))
    own = 4 * 9 * (8 * 8 + 4 * 2)
    assert weight_bytes(layer) == own
    assert weight_bytes(nn.Sequential(layer, nn.Linear(3, 2))) == own + 4 * (6 + 2)
