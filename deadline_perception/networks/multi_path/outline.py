"""The multi-path detector without its layers: what its segments read and make, and one frame's way through them. Needs no
torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.eager import ArrayCompute, Arrays
from deadline_perception.networks.multi_path import array_forms as forms
from deadline_perception.networks.multi_path.shape import DetectorShape
from deadline_perception.networks.own_detector import OwnDetector


class MultiPathOutline(OwnDetector):
    """What follows from the shape of a multi-path detector alone.

    Attributes:
        strides: of the pyramid's levels, in px.
        pyramid_stages: numbers of the stages that the pyramid reads.
    """

    strides: tuple[int, ...]
    pyramid_stages: tuple[int, ...]
    config: DetectorShape
    gathers = {'regions': 'pyramid'}
    selects = 'proposals'

    def declare(
        self,
        config: DetectorShape,
        class_names: tuple[str, ...],
    ) -> None:
        """See `OwnDetector`."""
        super().declare(config, class_names)
        # A skip operator goes on with its stage's features.
        self.makes: dict[str, str] = {}
        for segment in self.path_space.segments:
            is_skip = segment.name.startswith('skip')
            self.makes[segment.name] = (
                next(reversed(self.makes.values())) if is_skip else segment.name
            )

    @property
    def shape(self) -> list[object]:
        """See `ShapedNetwork`."""
        return [self.config.identity, len(self.class_names)]

    def reads(self, segment: str) -> tuple[str, ...]:
        """See `OwnDetector`."""
        if segment.startswith('stage'):
            return ('pre',) if segment == 'stage1' else (f'stage{int(segment[5:]) - 1}',)
        if segment.startswith('skip'):
            return (self.makes[segment],)
        if segment == 'pyramid':
            return tuple(f'stage{stage}' for stage in self.pyramid_stages)
        return {
            'rpn': ('pyramid',),
            'proposals': ('rpn',),
            'regions': ('pyramid', 'proposals'),
            'head': ('regions',),
            'post': ('head', 'proposals'),
        }[segment]

    def array_form(self, segment: str, path: ExecutionPath) -> ArrayCompute | None:
        """See `OwnDetector`."""
        found = {'proposals': self.proposals, 'regions': self.regions}
        return partial(found[segment], path) if segment in found else None

    def regions(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """As `heads.features_of_rows`."""
        height, width = self.input_size_on(path)
        (rows,) = values['pyramid']
        boxes = values['proposals'][0]
        strides = self.strides
        shapes = tuple((1, -(-height // stride), -(-width // stride)) for stride in strides)
        return (forms.region_features(rows, shapes, boxes, strides),)

    @abstractmethod
    def proposals(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """Boxes of regions, as the network selects them; and what the family keeps of each."""
