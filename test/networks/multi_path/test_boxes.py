import pytest
import torch
from torchvision.models.detection._utils import BoxCoder

from deadline_perception.extras.training.box_deltas import encode
from deadline_perception.networks.multi_path import boxes as box_ops


@pytest.mark.parametrize('weights', [(10.0, 10.0, 5.0, 5.0), (1.0, 1.0, 1.0, 1.0)])
def test_boxes_are_written_as_torchvision_writes_them(weights):
    torch.manual_seed(0)
    low = torch.rand(2, 50, 2) * 300
    references, boxes = torch.cat((low, low + 2 + torch.rand(2, 50, 2) * 200), 2)
    theirs = BoxCoder(weights)
    torch.testing.assert_close(
        encode(boxes, references, weights),
        theirs.encode_single(boxes, references),
        atol=1e-4,
        rtol=1e-4,
    )
    deltas = torch.randn(50, 4) * 4  # some beyond the largest scale
    decoded = box_ops.decode(deltas, references, weights)
    expected = theirs.decode_single(deltas, references)
    torch.testing.assert_close(decoded, expected, atol=1e-2, rtol=1e-4)
    wild = box_ops.decode(torch.tensor([[0.0, 0.0, 1e4, 1e4]]), references[:1], weights)
    assert torch.isfinite(wild).all()
