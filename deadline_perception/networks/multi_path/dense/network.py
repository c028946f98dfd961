"""The dense detector: its parts, and what each of its segments computes."""

from __future__ import annotations

from torch import Tensor

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.networks.multi_path.dense.backbone import DenseBackbone, DensePyramid
from deadline_perception.networks.multi_path.dense.configuration import DenseConfig
from deadline_perception.networks.multi_path.dense.first_stage import DenseProposals, FirstStage
from deadline_perception.networks.multi_path.dense.outline import DenseOutline
from deadline_perception.networks.multi_path.heads import Head
from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.networks.multi_path.operators import SlicedFrozenNorm, Switch


class DenseDetector(DenseOutline, MultiPathDetector):
    """MobileNetV2 with skip and width, a first stage that knows classes, dynamic proposals, and a switch of heads.

    Head 0 takes the first stage's answer as it is; the others examine the region of each box. A score is then the
    geometric mean of both stages', as in probabilistic two-stage detection (Zhou et al. 2021).
    """

    backbone: DenseBackbone
    pyramid: DensePyramid
    rpn: FirstStage

    def _build(self, config: DenseConfig, classes: int) -> None:
        self.backbone = DenseBackbone(config)
        self.pyramid = DensePyramid(config)
        self.rpn = FirstStage(config, classes)
        self.select_proposals = DenseProposals()
        channels = config.pyramid_channels
        self.heads = Switch(
            [
                Head(channels, shape, classes, lambda: SlicedFrozenNorm(channels, (1.0,)))
                for shape in config.heads
            ]
        )

    def head(self, setting: int) -> Head | None:
        """See `MultiPathDetector`; None for the first stage's own answer."""
        return self.heads.subnets[setting - 1] if setting else None

    def compute(
        self,
        segment: str,
        path: ExecutionPath,
        values: dict[str, tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """See `MultiPathDetector`. `rpn` makes what `FirstStage` does; `proposals`, boxes `[R, 4]` and their scores
        `[R, classes]`."""
        if segment == 'pyramid':
            return tuple(self.pyramid([values[stage][0] for stage in self.reads(segment)]))
        if segment == 'rpn':
            return self.rpn(list(values['pyramid']))
        if segment == 'proposals':
            size = self.input_size_on(path)
            return self.select_proposals(*values['rpn'], path['proposals'], size)
        return super().compute(segment, path, values)
