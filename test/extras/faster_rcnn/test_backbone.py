import torch
from torch.nn import functional as F

from deadline_perception.extras.faster_rcnn.backbone import Pyramid


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
