import torch
from torch.nn import functional as F

from deadline_perception.networks.multi_path.backbone import Backbone, Pyramid, ResidualBlock
from deadline_perception.networks.multi_path.configuration import PAPER


def test_skippable_blocks_do_something_from_the_start(tiny_config):
    """Blocks that begin as an identity stay one when training often skips them."""
    torch.manual_seed(0)
    backbone = Backbone(tiny_config).eval()
    x = torch.randn(1, 16, 8, 8)
    with torch.no_grad():
        y = backbone.skips[0].blocks[0](x, 1.0)
    assert (y - x.relu()).abs().mean() > 0.1


def test_bottleneck_of_the_paper_keeps_its_shape():
    block = ResidualBlock(PAPER, 256, 512, stride=2).eval()
    with torch.no_grad():
        assert block(torch.randn(1, 256, 8, 6), 1.0).shape == (1, 512, 4, 3)
    kernels = [convolution.weight.shape[-1] for convolution in block.convolutions]
    assert kernels == [1, 3, 1] and block.convolutions[1].stride == (2, 2)


def _stages(config, width):
    torch.manual_seed(1)
    return [
        torch.randn(1, round(c * width), 64 // s, 96 // s)
        for c, s in zip(config.stage_channels, (4, 8, 16, 32))
    ]


def test_coarse_levels_reach_fine_ones(tiny_config):
    """Level 2 equals its own lateral plus the coarsest one, enlarged; the finest changes with the coarsest stage."""
    pyramid = Pyramid(tiny_config).eval()
    stages = _stages(tiny_config, 1.0)
    with torch.no_grad():
        levels = pyramid(stages, 1.0)
        merged = pyramid.laterals[2](stages[2], 16) + F.interpolate(
            pyramid.laterals[3](stages[3], 16), scale_factor=2
        )
        torch.testing.assert_close(levels[2], pyramid.norms[2](pyramid.outputs[2](merged, 16)))
        changed = pyramid([*stages[:3], stages[3] + 1.0], 1.0)
    assert not torch.allclose(levels[0], changed[0])
