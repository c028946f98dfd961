import pytest
import torch

from deadline_perception.detector.backbone import Backbone, ResidualBlock
from deadline_perception.detector.configuration import PAPER


def _features(backbone, width, images):
    x, shapes = images, []
    for stage in range(1, 5):
        x = backbone.kept(stage, x, width)
        shapes.append(tuple(x.shape))
    return shapes


@pytest.mark.parametrize('width', [1.0, 0.5])
def test_stages_halve_the_size_and_follow_the_width(tiny_config, width):
    backbone = Backbone(tiny_config).eval()
    with torch.no_grad():
        shapes = _features(backbone, width, torch.randn(2, 3, 64, 96))
    assert shapes == [(2, round(c * width), 64 // s, 96 // s) for c, s in zip((16, 32, 32, 64), (4, 8, 16, 32))]


def test_skippable_blocks_do_something_from_the_start(tiny_config):
    """Blocks that begin as an identity stay one when training often skips them."""
    torch.manual_seed(0)
    backbone = Backbone(tiny_config).eval()
    x = torch.randn(1, 16, 8, 8)
    with torch.no_grad():
        y = backbone.skips[0].blocks[0](x, 16)
    assert (y - x.relu()).abs().mean() > 0.1


def test_bottleneck_of_the_paper_keeps_its_shape():
    block = ResidualBlock(PAPER, 256, 512, stride=2).eval()
    with torch.no_grad():
        assert block(torch.randn(1, 256, 8, 6), 512).shape == (1, 512, 4, 3)
    kernels = [convolution.weight.shape[-1] for convolution in block.convolutions]
    assert kernels == [1, 3, 1] and block.convolutions[1].stride == 2
