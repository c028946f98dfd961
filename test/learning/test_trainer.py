import copy

import numpy as np
import pytest
import torch
from torchvision.ops import box_iou

from deadline_perception.learning.samples import SampleSource
from deadline_perception.learning.strategies import STRATEGIES, Sandwich
from deadline_perception.learning.trainer import Trainer, TrainingDiverged, TrainingPlan, to_batch


def _trainer(network, shapes, strategy=Sandwich(alone_share=0.3), **changes):
    plan = TrainingPlan(**{'steps': 6, 'batch': 2, 'warm_up': 2, 'half_precision': False, **changes})
    return Trainer(network, SampleSource([shapes], [1.0], (64, 96)), plan, strategy)


def test_resumed_run_gives_the_weights_of_an_unbroken_one(tiny_network, shapes, tmp_path):
    whole, broken = _trainer(copy.deepcopy(tiny_network), shapes), _trainer(copy.deepcopy(tiny_network), shapes)
    whole.run()
    broken.run(until=3)
    broken.save(tmp_path / 'state.safetensors')
    resumed = _trainer(tiny_network, shapes)
    resumed.resume(tmp_path / 'state.safetensors')
    assert resumed.step == 3
    resumed.run()
    for name, tensor in whole.network.state_dict().items():
        torch.testing.assert_close(resumed.network.state_dict()[name], tensor, atol=0, rtol=0)
    for name, tensor in whole.average.items():
        torch.testing.assert_close(resumed.average[name], tensor, atol=0, rtol=0)


def test_state_of_another_plan_is_refused(tiny_network, shapes, tmp_path):
    trainer = _trainer(tiny_network, shapes)
    trainer.save(tmp_path / 'state.safetensors')
    with pytest.raises(ValueError, match='was saved for .*"steps": 6.*expected .*"steps": 7'):
        _trainer(tiny_network, shapes, steps=7).resume(tmp_path / 'state.safetensors')


def test_diverged_loss_stops_the_run(tiny_network, shapes):
    trainer = _trainer(tiny_network, shapes)
    tiny_network.rpn.outputs.bias.data.fill_(float('nan'))
    with pytest.raises(TrainingDiverged, match='loss of step 0 .* is nan'):
        trainer.run()


def test_few_images_are_learnt(tiny_network, shapes):
    """Objectness is learnt, and the trained network finds the shapes."""
    trainer = _trainer(tiny_network, shapes, steps=120, batch=4, learning_rate=4e-3, warm_up=10, ema=0.9)
    losses = []
    trainer.run(report=lambda step, values: losses.append(values['objectness']))
    assert np.mean(losses[-20:]) < 0.4 * np.mean(losses[:10])
    network = trainer.network.eval()
    network.load_state_dict(trainer.average)
    found = sum(_found(network.detect(frame.load_bgr(), network.path_space.largest), frame.truth)
                for frame in shapes.frames)
    assert found >= 9  # of 12


def _found(detections, truth):
    """Number of known objects that one of the ten surest detections of their class overlaps by half."""
    mine, labels = torch.from_numpy(detections.boxes_xyxy_px[:10]), torch.from_numpy(detections.labels[:10])
    overlap = box_iou(torch.from_numpy(truth.boxes_xyxy_px), mine) * (torch.from_numpy(truth.labels)[:, None] == labels)
    return int((overlap > 0.5).any(1).sum())


def test_first_steps_see_windows_and_the_others_sizes_that_are_drawn(tiny_network, shapes, monkeypatch):
    """A batch fills about the area of whole images of the input size, whatever the size of its own."""
    trainer = _trainer(tiny_network, shapes, crop=(32, 64), crop_share=0.5, sizes=((64, 96), (96, 96)), batch=3)
    seen = []
    monkeypatch.setattr('deadline_perception.learning.trainer.to_batch',
                        lambda samples, device: seen.append([s.image_bgr.shape[:2] for s in samples])
                        or to_batch(samples, device))
    trainer.run()
    assert seen[:3] == [[(32, 64)] * 9] * 3
    assert all(sizes in ([(64, 96)] * 3, [(96, 96)] * 2) for sizes in seen[3:]) and len(seen) == 6
    assert tiny_network.eval().detect(shapes.frames[0].load_bgr(), tiny_network.path_space.largest) is not None
    assert len(torch.cat([tiny_network.rpn.anchors(level) for level in range(4)])) == 4 * (384 + 96 + 24 + 6)


@pytest.mark.parametrize('name', STRATEGIES)
def test_every_strategy_lowers_the_loss(tiny_network, shapes, name):
    trainer = _trainer(tiny_network, shapes, strategy=STRATEGIES[name], steps=24, learning_rate=4e-3)
    losses = []
    trainer.run(report=lambda step, values: losses.append(values['path0']))
    assert np.mean(losses[-6:]) < 0.75 * np.mean(losses[:3])


@pytest.mark.parametrize('change, message', [({'steps': 0}, 'steps is 0'), ({'batch': 0}, 'batch 0'),
                                             ({'ema': 1.0}, 'ema is 1.0'),
                                             ({'crop_share': 1.5}, 'crop_share is 1.5'),
                                             ({'crop': (32, 40)}, r'size is \(32, 40\) px'),
                                             ({'sizes': ((0, 32),)}, r'size is \(0, 32\) px')])
def test_impossible_plans_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        TrainingPlan(**{'steps': 1, **change})


def test_rate_warms_up_and_decays():
    plan = TrainingPlan(steps=100, warm_up=10, learning_rate=1.0)
    rates = [plan.rate(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1) and max(rates) == pytest.approx(1.0) and rates[-1] < 0.02
    assert rates[10:] == sorted(rates[10:], reverse=True)
