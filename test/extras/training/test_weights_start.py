from dataclasses import replace

import torch

from deadline_perception.extras.faster_rcnn.network import FasterRcnn
from deadline_perception.extras.training.weights_start import start_from_weights


def _network(config, seed, names=('vehicle', 'bike'), **changes):
    torch.manual_seed(seed)
    network = FasterRcnn(replace(config, **changes), names).eval()
    for parameter in network.parameters():
        torch.nn.init.uniform_(parameter, 0.1, 0.4)
    return network


def test_parts_are_matched_by_shape_rows_by_width_and_class(tiny_config):
    other = _network(tiny_config, 1, ('bike', 'cat', 'vehicle'), norm='group')
    network = _network(
        tiny_config,
        2,
        ('vehicle', 'person', 'bike'),
        skip_groups=((1,), (), (2,), (1,)),
        heads=tiny_config.heads[1:],
        widths=(1.0, 0.5),
    )
    fresh = network.heads.subnets[0].classes.weight[2].clone()
    start = start_from_weights(network, other)
    for mine, theirs in ((0, 0), (1, 3), (2, 4)):
        skips = network.backbone.skips[mine], other.backbone.skips[theirs]
        assert torch.equal(*(skip.blocks[-1].convolutions[0].weight for skip in skips))
    mine, theirs = network.backbone.stem.norm1, other.backbone.stem.norm1
    assert torch.equal(mine.weight, theirs.weight[[0, 2]])
    assert torch.equal(mine.bias, theirs.bias[[0, 2]])
    mine, theirs = network.heads.subnets[0], other.heads.subnets[1]
    assert torch.equal(mine.first.weight, theirs.first.weight)
    assert torch.equal(mine.classes.weight[[0, 1, 3]], theirs.classes.weight[[0, 3, 1]])
    assert torch.equal(mine.classes.weight[2], fresh)
    absent = {name.rpartition('.')[2] for name in start.absent}
    assert absent == {'mean', 'deviation', 'class person'}
    assert {name.split('.')[2] for name in start.unused if 'skips' in name} == {'1', '2'}
    assert 'tensors taken' in str(start) and 'absent, fresh: ' in str(start)
