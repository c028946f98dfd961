"""The detector: its layers, and what each of its segments computes with them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.torch_network import TorchModule
from deadline_perception.networks.yolox.configuration import YoloxConfig
from deadline_perception.networks.yolox.layers import ACTIVATIONS, Backbone, Head, Neck, Unit
from deadline_perception.networks.yolox.outline import YoloxOutline


class YoloxDetector(TorchModule, YoloxOutline):
    """YOLOX-Nano with a choice of the input's size.

    Args:
        config: the shape.
        class_names: what the labels mean, one for each of `config.sources`.

    Raises:
        ValueError: there is not one name for each class.
    """

    def __init__(self, config: YoloxConfig, class_names: Sequence[str]) -> None:
        super().__init__(config.name, class_names)
        self.declare(config, tuple(class_names))
        self.backbone = Backbone()
        self.neck = Neck()
        self.head = Head(sum(self.sources))
        for module in self.modules():
            if isinstance(module, Unit):
                module[1] = ACTIVATIONS[config.activation]()

    def compute(
        self,
        segment: str,
        path: ExecutionPath,
        values: dict[str, tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """What a segment between `pre` and `post` makes of what the one before it made; changes none of it.

        Args:
            segment: its name.
            path: the path.
            values: by the segment that made them. `pre`: image `[1, 3, h, w]`, uint8; `backbone` and `neck`: features of
                three levels; `head`: see `Head`.
        """
        given = values[self.reads(segment)[0]]
        if segment == 'backbone':
            return tuple(self.backbone(given[0].float()))
        if segment == 'neck':
            return self.neck(given)
        return self.head(given)
