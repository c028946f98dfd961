"""An elastic network among the others: one operator, the utilisation, and images in, classes or objects out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor, nn

from deadline_perception.core.detections import Classification, Detections
from deadline_perception.core.execution_path import (
    WIDTH,
    ExecutionPath,
    Operator,
    PathSpace,
    Segment,
)
from deadline_perception.core.opencv import cv2
from deadline_perception.engines.eager import Eager, Inputs, Values, as_tensors
from deadline_perception.engines.segment_run import SegmentRun, check_image
from deadline_perception.engines.torch_network import TorchNetwork
from deadline_perception.extras.elastic.elastic import ElasticModule
from deadline_perception.extras.elastic.source import NetworkSource

UTILISATION = 'utilisation'


def utilisation_space(settings: tuple[float, ...]) -> PathSpace:
    """The paths of an elastic network: one for each utilisation, ascending.

    Args:
        settings: see `ElasticModule`; no two alike when written with two decimals.

    Raises:
        ValueError: two settings have one name.
    """
    return PathSpace(
        (Operator(UTILISATION, WIDTH, settings, 'u'),),
        (
            Segment('pre', 'pre'),
            Segment('layers', 'conv', UTILISATION, (UTILISATION,)),
            Segment('post', 'post', None, (UTILISATION,)),
        ),
    )


def input_of(source: NetworkSource, image_bgr: np.ndarray, device: str = 'cpu') -> Tensor:
    """uint8 `[H, W, 3]` of any size -> normalised RGB `[1, 3, h, w]` of the network's input size, channels last.

    Raises:
        ValueError: another type or shape.
    """
    check_image(image_bgr)
    if image_bgr.shape[:2] != source.input_size:
        image_bgr = cv2.resize(image_bgr, source.input_size[::-1], interpolation=cv2.INTER_LINEAR)
    pixels = (
        torch.from_numpy(cv2.cvtColor(image_bgr, cv2.COLOR_BGR2RGB))
        .to(device)
        .permute(2, 0, 1)[None]
        .float()
    )
    mean, deviation = (
        torch.tensor(values, device=device).view(1, 3, 1, 1)
        for values in (source.mean, source.deviation)
    )
    return (pixels / 255.0 - mean) / deviation


def image_batches(
    source: NetworkSource, images: Sequence[np.ndarray], size: int
) -> Iterator[Tensor]:
    """Images as inputs of a network, `[size, 3, h, w]` each but the last."""
    for begin in range(0, len(images), size):
        yield torch.cat([input_of(source, image) for image in images[begin : begin + size]])


class ElasticNetwork(TorchNetwork):
    """See `Network`: an elastic module with the images that go into it and the meaning of what comes out.

    Attributes:
        module: the weights that the next frame runs with; to assign another one of the same shape is a swap that no
            frame notices.
    """

    def __init__(self, module: ElasticModule, source: NetworkSource, device: str = 'cpu') -> None:
        self.module = module.to(device, memory_format=torch.channels_last)
        self.source, self.device = source, device
        self.path_space = utilisation_space(module.settings)
        self.class_names, self.input_size = source.class_names, source.input_size
        self.config_name = f'{source.model.rpartition(":")[2]}-elastic'
        self.engine = Eager()
        self.decoder = source.decoder()
        self.result_type = self.decoder.result_type

    @property
    def shape(self) -> dict[str, object]:
        """See `TorchNetwork`."""
        facts = asdict(self.source)
        del facts['mean'], facts['deviation']
        class_names = facts.pop('class_names')
        return {**facts, 'classes': len(class_names), 'settings': self.module.settings}

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """See `TorchNetwork`; in full, by name."""
        return iter(sorted(self.module.state_dict().items()))

    def modules(self) -> Iterator[nn.Module]:
        """Its layers, as those of a PyTorch module."""
        return self.module.modules()

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> ElasticRun:
        """See `Network`."""
        return ElasticRun(self, image_bgr, path)


class ElasticRun(SegmentRun):
    """One frame of an elastic network, which keeps the weights that it began with when they are swapped meanwhile."""

    def __init__(self, network: ElasticNetwork, image_bgr: np.ndarray, path: ExecutionPath) -> None:
        super().__init__(network.path_space, path, network.device)
        self._network, self._module, self._image = network, network.module, image_bgr
        self._values: Values = ()
        self._result: Detections | Classification | None = None
        self._number = network.engine.begin_frame()

    @torch.inference_mode()
    def compute(self, name: str, key: str) -> None:
        """See `SegmentRun`."""
        network = self._network
        network.engine.check_frame(self._number)
        if name == 'pre':
            self._values = network.engine.hold(
                'pre', (input_of(network.source, self._image, network.device),)
            )
        elif name == 'layers':
            self._values = network.engine.run(key, 'layers', self._layers, {'pre': self._values})
        else:
            self._result = network.decoder.decode(as_tensors(self._values), self._image.shape[:2])

    def _layers(self, inputs: Inputs) -> Values:
        made = self._module(inputs['pre'][0], utilisation=self.path[UTILISATION])
        return made if isinstance(made, tuple) else (made,)

    def result(self) -> Detections | Classification:
        """See `SegmentRun`."""
        self.check_finished()
        return self._result
