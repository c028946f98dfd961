import pytest
import torch
import torchvision
from python_run import run_python

from deadline_perception.networks.multi_path.suppression import nms


@pytest.mark.parametrize('count', [0, 1, 200])
def test_keeps_what_torchvision_keeps(count):
    generator = torch.Generator().manual_seed(count)
    corners = torch.rand(count, 2, generator=generator) * 50.0
    boxes = torch.cat((corners, corners + torch.rand(count, 2, generator=generator) * 30.0), 1)
    scores = torch.rand(count, generator=generator)
    assert nms(boxes, scores, 0.4).tolist() == torchvision.ops.nms(boxes, scores, 0.4).tolist()


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
