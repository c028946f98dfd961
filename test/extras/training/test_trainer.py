import copy

import numpy as np
import pytest
import torch
from torchvision.ops import box_iou

from deadline_perception.extras.training.samples import SampleSource
from deadline_perception.extras.training.strategies import Sandwich
from deadline_perception.extras.training.trainer import Trainer
from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.extras.training.training_state import TrainingDiverged
from deadline_perception.extras.workers import Workers


def _trainer(network, shapes, strategy=Sandwich(alone_share=0.3), **changes):
    plan = TrainingPlan(**{'steps': 6, 'batch': 2, 'warm_up': 2, 'bfloat16': False, **changes})
    return Trainer(network, SampleSource([shapes], [1.0], (64, 96)), plan, strategy)


@pytest.mark.slow
def test_resumed_run_gives_the_weights_of_an_unbroken_one(tiny_network, shapes, tmp_path):
    whole, broken = (_trainer(copy.deepcopy(tiny_network), shapes) for _ in range(2))
    whole.run()
    broken.run(until=3)
    broken.save(tmp_path / 'state.safetensors')
    resumed = _trainer(tiny_network, shapes)
    resumed.resume(tmp_path / 'state.safetensors')
    assert resumed.step == 3
    resumed.run(ahead=1)  # images drawn ahead are the same
    torch.testing.assert_close(_weights(resumed), _weights(whole), atol=0, rtol=0)


def _weights(trainer):
    return dict(trainer.network.state_dict()), trainer.average


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device')
def test_bfloat16_on_a_gpu_is_saved_and_resumed(tiny_network, shapes, tmp_path):
    """Sums on a GPU have no fixed order, so that the resumed run is close to the unbroken one, not the same."""
    network = tiny_network.to('cuda', memory_format=torch.channels_last)
    whole, broken = (_trainer(copy.deepcopy(network), shapes, bfloat16=True) for _ in range(2))
    whole.run()
    broken.run(until=3)
    broken.save(tmp_path / 'state.safetensors')
    resumed = _trainer(network, shapes, bfloat16=True)
    resumed.resume(tmp_path / 'state.safetensors')
    torch.testing.assert_close(_weights(resumed), _weights(broken), atol=0, rtol=0)
    assert all(group['fused'] for group in resumed.optimiser.param_groups)
    resumed.run()
    assert resumed.step == whole.step == 6
    torch.testing.assert_close(resumed.average, whole.average, atol=5e-3, rtol=0)


@pytest.mark.parametrize('broken', ['loss', 'gradient'])
def test_diverged_run_stops_with_the_weights_of_the_step_before(tiny_network, shapes, broken):
    """Whether the loss is NaN, or its gradient alone is infinite."""
    trainer = _trainer(tiny_network, shapes)
    trainer.run(until=2)
    outputs = tiny_network.rpn.outputs
    if broken == 'loss':
        outputs.register_forward_hook(lambda module, inputs, output: output * float('nan'))
    else:
        outputs.bias.register_hook(lambda gradient: gradient + float('inf'))

    def state():
        return *_weights(trainer), trainer.optimiser.state_dict()['state']

    before = copy.deepcopy(state())
    words = f'{broken} of step 2 .*is (nan|inf); try a lower learning rate'
    with pytest.raises(TrainingDiverged, match=words):
        trainer.run()
    assert trainer.step == 2
    torch.testing.assert_close(state(), before, atol=0, rtol=0)


@pytest.mark.slow
def test_few_images_are_learnt(tiny_network, shapes):
    """Objectness is learnt, and the trained network finds the shapes: with four seeds of weights 0.19 to 0.30 of the
    loss was left, and all were found; after 100 steps it depended on the processor."""
    trainer = _trainer(
        tiny_network, shapes, steps=160, batch=3, learning_rate=8e-3, warm_up=10, ema=0.9
    )
    losses = []
    trainer.run(report=lambda step, values: losses.append(values['objectness']))
    assert np.mean(losses[-20:]) < 0.45 * np.mean(losses[:10])
    network = trainer.network.eval()
    network.load_state_dict(trainer.average)
    found = sum(
        _found(network.detect(frame.load_bgr(), network.path_space.largest), frame.ground_truth)
        for frame in shapes.frames
    )
    assert found >= 11  # of 12


def _found(detections, ground_truth):
    """Number of known objects that one of the ten surest detections of their class overlaps by half."""
    known, mine = (
        (torch.from_numpy(one.boxes_xyxy_px[:10]), torch.from_numpy(one.labels[:10]))
        for one in (ground_truth, detections)
    )
    overlap = box_iou(known[0], mine[0]) * (known[1][:, None] == mine[1])
    return int((overlap > 0.5).any(1).sum())


def test_more_processes_than_images_and_samples_of_other_classes_are_refused(tiny_network, shapes):
    trainer = _trainer(tiny_network, shapes)
    with pytest.raises(ValueError, match='3 processes share batches of 2 images'):
        Trainer(tiny_network, trainer.source, trainer.plan, trainer.strategy, Workers(1, 3))
    turned = SampleSource([shapes], [1.0], (64, 96), ('bar', 'square'))
    with pytest.raises(ValueError, match=r"samples are \('bar', 'square'\), expected those"):
        Trainer(tiny_network, turned, trainer.plan, trainer.strategy)
