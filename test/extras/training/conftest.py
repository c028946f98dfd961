"""A tiny network and a tiny annotated sequence: bright squares and bars on noise."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from made_up_detector import TINY

from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.faster_rcnn.network import FasterRcnn

# Beside other work on the machine, several threads would wait for each other.
torch.set_num_threads(1)

NAMES = ('square', 'bar')


def _frame(index):
    generator = np.random.default_rng(index)
    image = generator.integers(0, 60, (64, 96, 3), dtype=np.uint8)
    boxes, labels = [], []
    for label, (width, height, colour) in enumerate(
        (((24, 24, (60, 220, 240))), (10, 34, (240, 90, 60)))
    ):
        x = int(generator.integers(48 * label + 1, 48 * label + 20))
        y = int(generator.integers(2, 26))
        cv2.rectangle(image, (x, y), (x + width - 1, y + height - 1), colour, -1)
        boxes.append((x, y, x + width, y + height))
        labels.append(label)
    ground_truth = GroundTruth(np.array(boxes, np.float32), np.array(labels), np.zeros(2, bool))
    return Frame(f'{index}', index, lambda: image, None, ground_truth)


@pytest.fixture(scope='session')
def shapes():
    return Sequence('shapes', NAMES, tuple(_frame(i) for i in range(6)))


@pytest.fixture
def tiny_network():
    torch.manual_seed(0)
    return FasterRcnn(replace(TINY, heads=TINY.heads[:2]), NAMES)
