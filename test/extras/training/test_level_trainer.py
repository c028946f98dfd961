import numpy as np
import pytest
import torch
from plain_images import noise
from torch.nn import functional as F

from deadline_perception.extras.rendered_drive.single_object import render_views
from deadline_perception.extras.several_networks.classifier.network import (
    ClassifierConfig,
    build_classifier,
)
from deadline_perception.extras.training.crop_samples import CropSource
from deadline_perception.extras.training.level_trainer import LevelTrainer, possible_loss
from deadline_perception.extras.training.training_plan import TrainingPlan

NAMES = ('stop', 'no_entry', 'ahead_only')
CONFIG = ClassifierConfig(name='tiny', channels=(8, 8, 16, 16), ratios=(0.25, 0.5, 1.0))
PLAN = TrainingPlan(steps=60, batch=24, learning_rate=4e-3, warm_up=4, ema=0.9, seed=1)


@pytest.mark.slow
def test_training_brings_the_mean_loss_of_all_levels_down_and_every_level_learns():
    views = render_views(NAMES, 8, [noise(40, 40)], seed=1, sizes_px=(24.0, 48.0))
    source, seen = CropSource([views], NAMES, 32), []
    one = LevelTrainer(build_classifier(CONFIG, NAMES, seed=2), source, PLAN)
    one.run(report=lambda step, losses: seen.append(losses))
    assert [len(losses) for losses in seen] == [4] * 60
    for losses in seen[::10]:
        mean, *levels = (losses[name] for name in ('mean', 'level1', 'level2', 'level3'))
        assert mean == pytest.approx(np.mean(levels), rel=1e-5)
    first, last = (np.mean([losses['mean'] for losses in part]) for part in (seen[:5], seen[-5:]))
    assert last < 0.6 * first
    one.finish()
    batch = source.draw(np.random.default_rng(99), 60)
    crops = one.network.normalise_crops(batch.crops)
    found = [one.network.logits(crops, ratio).argmax(1).numpy() for ratio in CONFIG.ratios]
    right = [float((labels == batch.possible.argmax(1)).mean()) for labels in found]
    assert right[-1] > 0.75 and min(right) > 0.45, right  # a third by chance


def test_the_loss_of_one_possible_class_is_the_cross_entropy_and_of_all_classes_nothing():
    logits = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    one = torch.tensor([[True, False, False], [False, False, True]])
    entropy = F.cross_entropy(logits, torch.tensor([0, 2]))
    torch.testing.assert_close(possible_loss(logits, one), entropy)
    every = torch.ones(2, 3, dtype=torch.bool)
    assert float(possible_loss(logits, every)) == pytest.approx(0.0, abs=1e-6)
    two = torch.tensor([[True, True, False], [True, True, True]])
    expected = -np.log(logits[0].softmax(0)[:2].sum().item()) / 2
    assert float(possible_loss(logits, two)) == pytest.approx(expected, rel=1e-5)
