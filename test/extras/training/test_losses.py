import numpy as np
import pytest
import torch
from made_up_labels import target_objects

from deadline_perception.extras.training.losses import path_losses
from deadline_perception.extras.training.strategies import TrainedPath
from deadline_perception.extras.training.targets import all_anchors, choose_anchors, join_anchors
from deadline_perception.extras.training.transfer import resized

OBJECT = [[10.0, 10, 40, 40]]
SIZE = (64, 96)


KNOWN = target_objects(OBJECT, [0])


def _generators(count):
    return [np.random.default_rng(index) for index in range(count)]


def _step(network, *trained, known=(KNOWN,)):
    """Losses of several paths on one batch, each with what the first can teach."""
    count = len(known)
    device = network.rpn.outputs.weight.device
    generators = _generators(count)
    losses = []
    target = None
    images = torch.randn(count, 3, *SIZE, generator=torch.Generator().manual_seed(0)).to(device)
    for one in trained:
        size = network.input_size_on(one.path)
        objects = [ground_truth.resized(SIZE, size) for ground_truth in known]
        laid_out = all_anchors(network.config, size)
        pairs = zip(objects, _generators(count))
        chosen = [choose_anchors(laid_out, *pair) for pair in pairs]
        anchors = join_anchors(chosen, len(laid_out), device)
        images_of_size = resized(images, size)
        batch = objects, anchors, one, generators
        own, target = path_losses(network, images_of_size, *batch, batch=count, target=target)
        losses.append(own)
    return losses, target


@pytest.fixture
def network(tiny_network):
    return tiny_network.train()


@pytest.fixture
def largest(network):
    return network.path_space.largest


def test_losses_of_a_network_that_says_the_same_everywhere(network, largest):
    """By hand: each of 256 anchors and 128 regions of an image weighs the same, also where fewer are there."""
    layers = [layer for head in network.heads.subnets for layer in (head.classes, head.deltas)]
    with torch.no_grad():
        for layer in (network.rpn.outputs, *layers):
            layer.weight.zero_()
            layer.bias.zero_()
        network.rpn.outputs.bias[: network.rpn.per_position] = -1.0
        network.heads.subnets[1].deltas.bias.copy_(torch.tensor([0.3, 0.0, -0.05, 0.0]))
    laid_out = all_anchors(network.config, SIZE)
    anchors = choose_anchors(laid_out, KNOWN, np.random.default_rng(0))
    (losses,), target = _step(network, TrainedPath(largest, (1,)))
    losses = {name: loss.item() for name, loss in losses.items()}
    objects, chosen = len(anchors.deltas), len(anchors.indices)
    assert objects > 0 and chosen == 256
    told = objects * np.log1p(np.e) + (256 - objects) * np.log1p(1 / np.e)
    assert losses['objectness'] == pytest.approx(told / 256, rel=1e-5)

    def of_boxes(off):
        return np.where(off < 1 / 9, off**2 * 4.5, off - 1 / 18).sum()

    expected = of_boxes(np.abs(anchors.deltas)) / 256
    assert losses['anchor_boxes'] == pytest.approx(expected, rel=1e-4) != 0
    regions = target.regions
    assert losses['classes_h1'] == pytest.approx(len(regions.labels) * np.log(3) / 128, rel=1e-5)
    off = np.abs(regions.deltas.numpy()[regions.on_object] - np.float32([0.3, 0.0, -0.05, 0.0]))
    assert losses['boxes_h1'] == pytest.approx(of_boxes(off) / 128, rel=1e-4) != 0


def test_teacher_that_is_distilled_learns_nothing_new(network, largest):
    """Told only what it says itself, a path has no gradient in objectness and classes; boxes follow ground truth."""
    taught = TrainedPath(largest, (1,), distillation_weight=1.0)
    (_, losses), target = _step(network, TrainedPath(largest, (1,)), taught)
    assert not any(part.requires_grad for part in (target.first_stage, target.classes))
    (losses['objectness'] + losses['classes_h1']).backward(retain_graph=True)
    assert max(float(p.grad.abs().max()) for p in network.parameters() if p.grad is not None) < 1e-6
    losses['boxes_h1'].backward()
    assert float(network.heads.subnets[1].deltas.weight.grad.abs().max()) > 1e-4


def test_class_that_a_source_does_not_name_takes_no_part(network, largest):
    """Regions of such an image teach its logits nothing; those of another image in the batch do."""
    smallest = network.path_space.smallest
    unnamed = target_objects(OBJECT, [0], named=(True, False))
    paths = TrainedPath(largest, (1, 0), 0.5), TrainedPath(smallest, (0,), 0.5)
    for known, learns in (([unnamed, unnamed], False), ([unnamed, KNOWN], True)):
        network.zero_grad()
        losses, target = _step(network, *paths, known=known)
        sum(loss for own in losses for loss in own.values()).backward()
        for head in network.heads.subnets:
            gradient = head.classes.weight.grad
            assert gradient[:2].abs().max() > 0 and torch.isfinite(gradient).all()
            assert (gradient[2].abs().max() > 0) == learns
        assert target.classes[target.regions.images == 0, 2].abs().max() == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device')
def test_losses_on_a_gpu_are_those_on_the_cpu(network, largest):
    trained = TrainedPath(largest, (1, 0), 0.5)
    (on_cpu,), _ = _step(network, trained)
    (on_gpu,), _ = _step(network.to('cuda'), trained)
    # the regions depend on the order of nearly equal scores
    for name in ('objectness', 'anchor_boxes'):
        torch.testing.assert_close(on_gpu[name].cpu(), on_cpu[name], rtol=1e-2, atol=1e-3)
    assert all(torch.isfinite(loss) for loss in on_gpu.values())
