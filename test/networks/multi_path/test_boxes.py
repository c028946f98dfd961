import pytest
import torch
import torchvision
from python_run import run_python
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


@pytest.mark.parametrize('count', [0, 1, 200])
def test_keeps_what_torchvision_keeps(count):
    generator = torch.Generator().manual_seed(count)
    corners = torch.rand(count, 2, generator=generator) * 50.0
    boxes = torch.cat((corners, corners + torch.rand(count, 2, generator=generator) * 30.0), 1)
    scores = torch.rand(count, generator=generator)
    assert (
        box_ops.nms(boxes, scores, 0.4).tolist() == torchvision.ops.nms(boxes, scores, 0.4).tolist()
    )


PROGRAM = """
import sys
import numpy as np
from deadline_perception.networks.multi_path.array_forms import region_features
from deadline_perception.networks.multi_path.checkpoint import load_detector
load_detector(sys.argv[1])
boxes = np.array([[1, 1, 9, 9]], np.float32)
found = region_features(np.ones((20, 3), np.float32), ((1, 4, 4), (1, 2, 2)), boxes, (8, 16))
left_out = 'torchvision', 'torch._dynamo', 'sympy', 'triton', 'scipy.sparse'
print(found.shape, round(float(found.max()), 3), [name for name in left_out if name in sys.modules])
"""


@pytest.mark.slow
def test_a_detector_leaves_pytorchs_compiler_and_sparse_matrices_out(repository):
    told = run_python('-c', PROGRAM, repository / 'models' / 'street.safetensors', check=True)
    assert told.stdout == '(1, 147) 1.0 []\n'
