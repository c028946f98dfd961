from __future__ import annotations

import random

import hard_swish
import numpy as np
import pytest
import torch

from deadline_perception.extras.external_models.public_yolox import build_yolox
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.yolox.configuration import YoloxConfig

SMALL = YoloxConfig('small', (96, 160), (1.0, 0.41), (('car', 'bus'), ('person',)))


class Picture:
    def __init__(self, seed: int) -> None:
        shape = np.random.default_rng(seed).integers(40, 200, 2)
        self.pixels = np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)

    def load_bgr(self) -> np.ndarray:
        return self.pixels


@pytest.fixture
def teacher():
    torch.manual_seed(0)
    return build_yolox(SMALL, ('vehicle', 'person')).eval()


def test_the_student_starts_with_the_weights_of_its_teacher_and_comes_nearer(teacher, tmp_path):
    student = hard_swish.student_of(teacher, 'hard_swish')
    rng = random.Random(0)
    of_teacher = teacher.state_dict()
    weights = hard_swish.weights_of(student)
    assert weights.keys() == of_teacher.keys()
    for name, value in weights.items():
        torch.testing.assert_close(value, of_teacher[name])
    frames = [Picture(seed) for seed in range(4)]
    pixels = torch.stack([hard_swish.sample(frames, (96, 160), rng) for _ in range(4)])
    optimiser = torch.optim.Adam(student.parameters(), hard_swish.LEARNING_RATE)
    losses = []
    for _ in range(12):
        loss = hard_swish.distance(teacher, student, pixels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    file = tmp_path / 'small.safetensors'
    hard_swish.keep(hard_swish.weights_of(student), student, {'licence': 'mine'}, file, 12)
    kept = load_detector(file)
    assert kept.config.activation == 'hard_swish'
    found = kept.backbone(pixels)[0]
    wanted = student.backbone(pixels)[0]
    assert (found - wanted).abs().mean() < 0.01 * wanted.abs().mean()  # stored as float16
