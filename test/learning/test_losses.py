import torch

from deadline_perception.learning.losses import match_batch, path_losses
from deadline_perception.learning.targets import Truth


def _losses(network, truths, path, heads=(0,)):
    images = torch.randn(len(truths), 3, 64, 96, generator=torch.Generator().manual_seed(0))
    return path_losses(network, images, truths, match_batch(network, truths), path, heads,
                       torch.Generator().manual_seed(0))


def _truth(boxes, labels):
    return Truth(torch.tensor(boxes).reshape(-1, 4).float(), torch.tensor(labels, dtype=torch.long), torch.zeros(0, 4))


def test_images_with_and_without_objects_give_finite_losses(tiny_network):
    network = tiny_network.train()
    truths = [_truth([[10, 10, 40, 40]], [0]), _truth([], [])]
    losses = _losses(network, truths, network.path_space.largest, heads=(0, 1))
    assert set(losses) == {'objectness', 'anchor_boxes', 'classes_h0', 'boxes_h0', 'classes_h1', 'boxes_h1'}
    assert all(torch.isfinite(loss) for loss in losses.values())
    assert losses['boxes_h0'] > 0
    empty = _losses(network, [_truth([], [])], network.path_space.largest)
    assert empty['anchor_boxes'] == 0 and empty['boxes_h0'] == 0 and torch.isfinite(empty['classes_h0'])


def test_gradients_reach_only_what_the_path_runs(tiny_network):
    network = tiny_network.train()
    losses = _losses(network, [_truth([[10, 10, 40, 40]], [0])], network.path_space.smallest)
    sum(losses.values()).backward()
    assert all(p.grad is None for p in network.backbone.skips.parameters())
    assert all(p.grad is None for p in network.heads.subnets[1].parameters())
    assert all(p.grad is not None for p in network.heads.subnets[0].parameters())
    first = network.backbone.first_blocks[0].convolutions[0].weight.grad
    narrow = round(16 * network.path_space.widths[-1])
    assert first[:narrow, :narrow].abs().sum() > 0 and first[narrow:].abs().sum() == 0
