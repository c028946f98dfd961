import pytest
import torch
from torchvision.ops import batched_nms, roi_align

from deadline_perception.core.detections import Detections
from deadline_perception.networks.multi_path.array_forms import BINS
from deadline_perception.networks.multi_path.heads import decode_detections, region_features
from deadline_perception.networks.multi_path.outline import STRIDES


def _levels(channels=6):
    torch.manual_seed(0)
    return [torch.randn(2, channels, 128 // stride, 192 // stride) for stride in STRIDES]


def test_region_features_equal_torchvisions_roi_align():
    levels = _levels()
    low = torch.rand(60, 2) * torch.tensor([170.0, 110.0])
    boxes = torch.cat((low, low + torch.rand(60, 2) * 90 + 1), 1)  # some reach beyond the image
    box_levels, images = torch.randint(0, 4, (60,)), torch.randint(0, 2, (60,))
    found = region_features(levels, boxes, box_levels, images).view(60, BINS * BINS, -1)
    for level, stride in enumerate(STRIDES):
        chosen = box_levels == level
        rois = torch.cat((images[chosen, None].float(), boxes[chosen]), 1)
        expected = roi_align(levels[level], rois, BINS, 1 / stride, 2, aligned=True)
        torch.testing.assert_close(
            found[chosen], expected.permute(0, 2, 3, 1).flatten(1, 2), atol=1e-4, rtol=1e-4
        )


def test_no_region_gives_no_features():
    none = torch.zeros(0, dtype=torch.long)
    assert region_features(_levels(6), torch.zeros(0, 4), none).shape == (0, 49 * 6)


def test_region_features_pass_gradients_like_roi_align():
    levels = [level.double().requires_grad_() for level in _levels(2)]
    boxes = torch.tensor([[10.0, 20.0, 70.0, 90.0], [0.0, 0.0, 30.0, 12.0]], dtype=torch.float64)
    region_features(
        levels, boxes, torch.tensor([0, 0]), torch.tensor([0, 1])
    ).square().sum().backward()
    mine = levels[0].grad.clone()
    levels[0].grad = None
    rois = torch.cat((torch.tensor([[0.0], [1.0]], dtype=torch.float64), boxes), 1)
    roi_align(levels[0], rois, BINS, 1 / 4, 2, aligned=True).square().sum().backward()
    torch.testing.assert_close(mine, levels[0].grad, atol=1e-4, rtol=1e-4)


def test_decoding_equals_a_plain_loop_over_classes():
    torch.manual_seed(2)
    regions = torch.rand(40, 2) * 60
    regions = torch.cat((regions, regions + torch.rand(40, 2) * 30 + 2), 1)
    logits = torch.randn(40, 4) * 2
    boxes, scores, labels = decode_detections(
        logits, torch.zeros(40, 4), regions, input_size=(100, 100)
    )
    probabilities = logits.softmax(1)
    wanted_boxes, wanted_scores, wanted_labels = [], [], []
    for region in range(40):
        for label in range(3):
            if probabilities[region, label + 1] > 0.05:
                wanted_boxes.append(regions[region])
                wanted_scores.append(probabilities[region, label + 1])
                wanted_labels.append(label)
    wanted_boxes, wanted_scores = torch.stack(wanted_boxes), torch.stack(wanted_scores)
    wanted_labels = torch.tensor(wanted_labels)
    kept = batched_nms(wanted_boxes, wanted_scores, wanted_labels, 0.5)[:100]
    torch.testing.assert_close(boxes, wanted_boxes[kept])
    torch.testing.assert_close(scores, wanted_scores[kept])
    assert torch.equal(labels, wanted_labels[kept])


def test_what_is_not_finite_is_no_empty_road():
    """NaN was below the threshold of scores, so that a network that had gone NaN looked like an empty road."""
    logits, regions = torch.zeros(4, 3), torch.tensor([[10.0, 10.0, 50.0, 50.0]]).repeat(4, 1)
    for broken in ('logits', 'deltas'):
        values = {'logits': logits.clone(), 'deltas': torch.zeros(4, 4)}
        values[broken][1] = torch.nan
        with pytest.raises(ValueError, match='boxes or scores hold NaN or infinity'):
            Detections(
                *(
                    part.numpy()
                    for part in decode_detections(*values.values(), regions, input_size=(100, 100))
                )
            )
