import torch
from torchvision.ops import roi_align

from deadline_perception.extras.faster_rcnn.outline import STRIDES
from deadline_perception.networks.multi_path.array_forms import BINS
from deadline_perception.networks.multi_path.heads import region_features


def _levels(channels=6):
    torch.manual_seed(0)
    return [torch.randn(2, channels, 128 // stride, 192 // stride) for stride in STRIDES]


def test_region_features_equal_torchvisions_roi_align():
    levels = _levels()
    low = torch.rand(60, 2) * torch.tensor([170.0, 110.0])
    boxes = torch.cat((low, low + torch.rand(60, 2) * 90 + 1), 1)  # some reach beyond the image
    box_levels, images = torch.randint(0, 4, (60,)), torch.randint(0, 2, (60,))
    found = region_features(levels, boxes, box_levels, images, strides=STRIDES)
    found = found.view(60, BINS * BINS, -1)
    for level, stride in enumerate(STRIDES):
        chosen = box_levels == level
        rois = torch.cat((images[chosen, None].float(), boxes[chosen]), 1)
        expected = roi_align(levels[level], rois, BINS, 1 / stride, 2, aligned=True)
        expected = expected.permute(0, 2, 3, 1).flatten(1, 2)
        torch.testing.assert_close(found[chosen], expected, atol=1e-4, rtol=1e-4)
    none = region_features(levels, boxes[:0], box_levels[:0], strides=STRIDES)
    assert none.shape == (0, BINS * BINS * 6)


def test_region_features_pass_gradients_like_roi_align():
    levels = [level.double().requires_grad_() for level in _levels(2)]
    boxes = torch.tensor([[10.0, 20.0, 70.0, 90.0], [0.0, 0.0, 30.0, 12.0]], dtype=torch.float64)
    places = torch.tensor([0, 0]), torch.tensor([0, 1])
    region_features(levels, boxes, *places, strides=STRIDES).square().sum().backward()
    mine = levels[0].grad.clone()
    levels[0].grad = None
    rois = torch.cat((torch.tensor([[0.0], [1.0]], dtype=torch.float64), boxes), 1)
    roi_align(levels[0], rois, BINS, 1 / 4, 2, aligned=True).square().sum().backward()
    torch.testing.assert_close(mine, levels[0].grad, atol=1e-4, rtol=1e-4)
