import torch
from torchvision.ops import roi_align

from deadline_perception.extras.faster_rcnn.outline import STRIDES
from deadline_perception.networks.multi_path.array_forms import BINS
from deadline_perception.networks.multi_path.heads import region_features


def test_region_features_equal_torchvisions_roi_align():
    torch.manual_seed(0)
    levels = [torch.randn(2, 6, 128 // stride, 192 // stride) for stride in STRIDES]
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
