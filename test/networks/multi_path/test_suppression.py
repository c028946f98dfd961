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


@pytest.mark.slow
def test_loading_a_detector_leaves_pytorchs_compiler_out(repository):
    program = (
        'import sys\nfrom deadline_perception.networks.multi_path.checkpoint import load_detector\n'
        'load_detector(sys.argv[1])\n'
        'print([name for name in ("torchvision", "torch._dynamo", "sympy", "triton") if name in sys.modules])\n'
    )
    told = run_python('-c', program, repository / 'models' / 'street.safetensors', check=True)
    assert told.stdout == '[]\n'
