"""The multi-path detector: its layers, and what each of its segments computes with them."""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.torch_network import PIXEL_DEVIATION, PIXEL_MEAN, TorchModule
from deadline_perception.networks.multi_path.heads import (
    Head,
    features_of_rows,
    pyramid_levels,
    region_features,
)
from deadline_perception.networks.multi_path.operators import Switch
from deadline_perception.networks.multi_path.outline import MultiPathOutline
from deadline_perception.networks.multi_path.shape import DetectorShape


class MultiPathDetector(TorchModule, MultiPathOutline):
    """A two-stage detector with skip, switch, dynamic proposals, width and scale; the families derive their own.

    Args:
        config: the shape.
        class_names: what the labels mean, at least one.
    """

    backbone: Any  # each family has its own, as of the others
    pyramid: nn.Module
    rpn: nn.Module
    select_proposals: Any
    heads: Switch[Head]

    def __init__(self, config: DetectorShape, class_names: tuple[str, ...]) -> None:
        super().__init__(config.name, class_names)
        self.declare(config, class_names)
        self._build(config, len(class_names))

    @abstractmethod
    def _build(self, config: Any, classes: int) -> None:
        """Makes the layers of a shape of the family."""

    @abstractmethod
    def head(self, setting: int) -> Head | None:
        """The subnet of a setting of the switch; None where regions are not examined."""

    @property
    def variant(self) -> list[str]:
        """See `TorchNetwork`."""
        return [str(self.precision)] * (self.precision != torch.float32)

    @property
    def precision(self) -> torch.dtype:
        """Type of weights and features."""
        return next(self.parameters()).dtype

    def use_float16(self) -> None:
        """Computes with float16 weights and features from now on, for GPUs; boxes and scores stay float32."""
        for parameter in self.parameters():
            parameter.data = parameter.data.half()
        self.train(self.training)  # drops what was laid out of the old weights

    def _normalised(self, pixels: Tensor) -> Tensor:
        """As `normalise`, of one image uint8 `[1, 3, h, w]`, over whole rows of pixels: over three channels at a time
        it takes three times as long."""
        height, width = pixels.shape[2:]
        mean, scale = _pixel_rows(width, self.pixel_mean.device)
        rows = pixels.to(mean.device).permute(0, 2, 3, 1).reshape(height, 3 * width)
        rows = (rows.float() - mean) * scale
        return rows.to(self.precision).view(1, height, width, 3).permute(0, 3, 1, 2)

    def compute(
        self,
        segment: str,
        path: ExecutionPath,
        values: dict[str, tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """What a segment between `pre` and `post` makes of what earlier ones made; changes none of it.

        Args:
            segment: its name; a skip operator only where the path runs it.
            path: the path.
            values: those that it `reads`, by the segment that made them. `pre`: image `[N, 3, h, w]`, uint8 of one or
                normalised; `stage1` and so on: features, with the skip operators' work; `pyramid`: its levels, or all
                of one image as rows `[positions, c]`; `rpn`: as the family has it; `proposals`: boxes `[R, 4]` first;
                `regions`: their features `[R, 49 * c]`; `head`: logits `[R, 1 + classes]` and deltas `[R, 4]`.
        """
        if segment == 'stage1' and not values['pre'][0].is_floating_point():
            values = {'pre': (self._normalised(values['pre'][0]),)}
        if segment.startswith('stage'):
            return (
                self.backbone.kept(
                    int(segment[5:]), values[self.reads(segment)[0]][0], float(path['width'])
                ),
            )
        if segment.startswith('skip'):
            return (self.backbone.skips[int(segment[4:])](values[self.makes[segment]][0], path),)
        if segment == 'regions':
            height, width = self.input_size_on(path)
            levels = values['pyramid']
            boxes = values['proposals'][0]
            box_levels = pyramid_levels(boxes, len(self.strides), self.strides[0])
            if len(levels) > 1:
                return (region_features(levels, boxes, box_levels, strides=self.strides),)
            shapes = tuple(
                (1, -(-height // stride), -(-width // stride)) for stride in self.strides
            )
            return (features_of_rows(levels[0], shapes, boxes, box_levels, strides=self.strides),)
        head = self.head(int(path['head']))
        assert head is not None
        return head(values['regions'][0])


@cache
@torch.inference_mode(False)
def _pixel_rows(width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation of the values of a row of pixels, each `[3 * width]`."""
    return (
        torch.tensor(PIXEL_MEAN, device=device).repeat(width),
        (1 / torch.tensor(PIXEL_DEVIATION, device=device)).repeat(width),
    )
