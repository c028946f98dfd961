"""What the benchmarks of sub-networks have in common: the SubFlow paper's three networks (its Table I) and data for
them.

MNIST, CIFAR-10 and speech commands are not at hand: LeNet-5 and the keyword network see scikit-learn's digits, resized
to the paper's inputs, the AlexNet shape objects cut out of the driving images. Networks are trained here, so that
accuracies are those of the shape on these data, not of the paper's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from elastic_training import TimeBoundTrainer
from rankings import Ranking, elastic
from time_bounds import TimeBounds
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.extras.data.class_images import cut_objects
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.elastic.elastic import SETTINGS, ElasticModule

CARLA = Path(__file__).parents[3] / 'shared' / 'data' / 'carla'
BATCH = 96  # of training, as in the paper (section VII-B)
CALIBRATION = 256


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs `[N, C, H, W]` and labels `[N]` to train with, and those to test with."""

    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor

    @property
    def calibration(self) -> Tensor:
        """Some of the inputs to train with."""
        return self.inputs[:CALIBRATION]


def digits(size: tuple[int, int]) -> Split:
    """Scikit-learn's 1,797 digits of 8 x 8 px, resized; every fifth is for testing."""
    from sklearn.datasets import load_digits

    found = load_digits()
    inputs = torch.from_numpy(found.images).float()[:, None] / 8.0 - 1.0
    return split(
        F.interpolate(inputs, size, mode='bilinear', align_corners=False),
        torch.from_numpy(found.target),
    )


def driving_objects() -> Split:
    """Objects of the driving images: those of `train.json` to train with, of `val.json` (other stretches) to test
    with."""
    files = [CARLA / 'train.json', CARLA / 'val.json']
    parts = [cut_objects(read_coco(file), (32, 32)) for file in files]
    tensors = []
    for part in parts:
        tensors += [
            torch.from_numpy(part.images).permute(0, 3, 1, 2).float() / 64.0 - 2.0,
            torch.from_numpy(part.labels),
        ]
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(tensors[0]), generator=generator)
    return Split(tensors[0][order], tensors[1][order], *tensors[2:])


def split(inputs: Tensor, labels: Tensor) -> Split:
    """Every fifth sample for testing."""
    test = torch.arange(len(labels)) % 5 == 4
    return Split(inputs[~test], labels[~test], inputs[test], labels[test])


@dataclass(frozen=True)
class Shape:
    """One column of Table I; of as many classes as the data.

    Attributes:
        convolutions: channels read and written, kernel, and padding where there is some.
        linear: sizes of the fully connected layers, from the flattened features to the classes.
    """

    name: str
    convolutions: Sequence[tuple]
    linear: Sequence[int]
    data: Callable[[], Split]
    epochs: int

    def make(self) -> nn.Sequential:
        """The network, untrained; each convolution is halved in size."""
        layers: list[nn.Module] = []
        for convolution in self.convolutions:
            layers += [nn.Conv2d(*convolution[:3], padding=sum(convolution[3:]))]
            layers += [nn.ReLU(), nn.MaxPool2d(2)]
        layers.append(nn.Flatten())
        for read, written in itertools.pairwise(self.linear):
            layers += [nn.Linear(read, written), nn.ReLU()]
        return nn.Sequential(*layers[:-1])


_SHAPES = (
    Shape(
        'LeNet-5',
        ((1, 6, 5), (6, 16, 5)),
        (256, 400, 84, 10),
        lambda: digits((28, 28)),
        20,
    ),
    Shape(
        'AlexNet',
        ((3, 64, 3, 1), (64, 192, 3, 1), (192, 384, 3, 1)),
        (6144, 4096, 2048, 5),
        driving_objects,
        4,
    ),
    Shape(
        'KWS',
        ((1, 64, (12, 6)), (64, 64, (6, 3))),
        (640, 1024, 512, 10),
        lambda: digits((61, 13)),
        12,
    ),
)
SHAPES = {shape.name: shape for shape in _SHAPES}


def trained(shape: Shape, data: Split, quick: bool, seed: int = 0) -> nn.Sequential:
    """The ordinary network, trained as a whole; for one epoch where it is to be quick."""
    torch.manual_seed(seed)
    network = shape.make()
    optimiser = torch.optim.Adam(network.parameters(), 3e-4)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(1 if quick else shape.epochs):
        for rows in torch.randperm(len(data.labels), generator=generator).split(BATCH):
            optimiser.zero_grad(set_to_none=True)
            F.cross_entropy(network(data.inputs[rows]), data.labels[rows]).backward()
            optimiser.step()
    return network.eval()


def made_elastic(
    module: nn.Sequential,
    data: Split,
    settings: tuple[float, ...] = SETTINGS,
    ranking: Ranking = Ranking.OBS,
    seed: int = 0,
) -> ElasticModule:
    """An ordinary network as an elastic one."""
    return elastic(
        module, (data.inputs[:1],), data.calibration, settings=settings, ranking=ranking, seed=seed
    )


def nested_training(network: ElasticModule, data: Split, iterations: int, seed: int = 0) -> None:
    """Trains all sub-networks, without a limit of time."""
    trainer = TimeBoundTrainer(
        network, F.cross_entropy, budget_ms=float('inf'), learning_rate=0.003, seed=seed
    )
    trainer.bounds = TimeBounds({setting: setting for setting in network.settings}, 0.01)  # all fit
    generator = torch.Generator().manual_seed(seed)
    for _ in range(iterations):
        rows = torch.randint(len(data.labels), (BATCH,), generator=generator)
        trainer.iterate(data.inputs[rows], data.labels[rows])


def accuracy_by_setting(network: ElasticModule, data: Split) -> dict[float, float]:
    """Accuracy of every sub-network, in %."""
    return {u: accuracy(lambda x: network(x, utilisation=u), data) for u in network.settings}


@torch.inference_mode()
def accuracy(network: Callable[[Tensor], Tensor], data: Split) -> float:
    """Share of the test samples that get their class, in %."""
    hits = [
        (network(inputs).argmax(1) == labels).sum().item()
        for inputs, labels in zip(data.test_inputs.split(256), data.test_labels.split(256))
    ]
    return 100.0 * float(np.sum(hits)) / len(data.test_labels)
