"""The Faster R-CNN: its parts, and what each of its segments computes."""

from __future__ import annotations

from torch import Tensor

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.extras.faster_rcnn.backbone import Backbone, Pyramid
from deadline_perception.extras.faster_rcnn.configuration import DetectorConfig
from deadline_perception.extras.faster_rcnn.group_norm import sliced_norm
from deadline_perception.extras.faster_rcnn.outline import STRIDES, FasterRcnnOutline
from deadline_perception.extras.faster_rcnn.proposals import (
    DynamicProposals,
    RegionProposalNetwork,
)
from deadline_perception.networks.multi_path.heads import Head
from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.networks.multi_path.operators import Switch


class FasterRcnn(FasterRcnnOutline, MultiPathDetector):
    """Faster R-CNN with skip, switch, dynamic proposals, width and scale.

    Args:
        config: the shape.
        class_names: what the labels mean, at least one.
    """

    backbone: Backbone
    pyramid: Pyramid
    rpn: RegionProposalNetwork

    def _build(self, config: DetectorConfig, classes: int) -> None:
        self.backbone = Backbone(config)
        self.pyramid = Pyramid(config)
        self.rpn = RegionProposalNetwork(config)
        self.select_proposals = DynamicProposals(config)
        channels, widths = config.pyramid_channels, config.pyramid_widths
        self.heads = Switch(
            [
                Head(channels, shape, classes, lambda: sliced_norm(config, channels, widths))
                for shape in config.heads
            ]
        )

    def head(self, setting: int) -> Head:
        """See `MultiPathDetector`."""
        return self.heads.subnets[setting]

    def compute(
        self,
        segment: str,
        path: ExecutionPath,
        values: dict[str, tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """See `MultiPathDetector`. `rpn` makes logits of each level, then deltas; `proposals`, boxes `[R, 4]`."""
        if segment == 'pyramid':
            stages = [values[stage][0] for stage in self.reads(segment)]
            return tuple(self.pyramid(stages, path['pyramid_width']))
        if segment == 'rpn':
            logits, deltas = self.rpn(list(values['pyramid']))
            return (*logits, *deltas)
        if segment == 'proposals':
            logits, deltas = values['rpn'][: len(STRIDES)], values['rpn'][len(STRIDES) :]
            size = self.input_size_on(path)
            return (self.select_proposals(logits, deltas, path['proposals'], size),)
        return super().compute(segment, path, values)
