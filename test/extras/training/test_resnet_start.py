from dataclasses import replace

import pytest
import torch
from torch import nn
from torchvision.models import resnet50

from deadline_perception.extras.faster_rcnn.backbone import Backbone
from deadline_perception.extras.faster_rcnn.configuration import ORIN
from deadline_perception.extras.training.resnet_start import start_from_resnet
from deadline_perception.networks.weights_file import CheckpointError

ONE = {'kept_blocks': (1,) * 4, 'skip_groups': ((),) * 4}
NARROW = replace(ORIN, stage_channels=(64,) * 4, norm_group_channels=4, **ONE)


def _keep_statistics(norm, inputs):
    norm.running_mean = inputs[0].mean((0, 2, 3))
    norm.running_var = inputs[0].var((0, 2, 3), unbiased=False)


@pytest.fixture(scope='module')
def resnet(tmp_path_factory):
    """A ResNet-50 whose batch norms hold the statistics of one image, that image in RGB, and its file."""
    torch.manual_seed(0)
    network = resnet50(weights=None).eval()
    image = torch.randn(1, 3, 64, 96)
    for norm in network.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias)
            norm.register_forward_pre_hook(_keep_statistics)
    with torch.no_grad():
        network(image)
    file = tmp_path_factory.mktemp('resnet') / 'resnet50.pth'
    torch.save(network.state_dict(), file)
    return network, image, file


def _stages(backbone, image):
    x, skips, stages = image, iter(backbone.skips), []
    for stage, count in enumerate(map(len, ORIN.skip_groups), 1):
        x = backbone.kept(stage, x, 1.0)
        for _ in range(count):
            x = next(skips)(x, ORIN.path_space.largest)
        stages.append(x)
    return stages


@pytest.mark.parametrize('norm', ['group', 'frozen'])
def test_features_equal_those_of_the_resnet_on_an_image_of_its_statistics(resnet, norm):
    network, image, file = resnet
    backbone = Backbone(replace(ORIN, norm=norm)).eval()
    start = start_from_resnet(backbone, file)
    assert start.absent == () and set(start.unused) == {'fc.weight', 'fc.bias'}
    words = '53 convolutions taken, with their batch norms; 2 unused: fc.weight, fc.bias'
    assert str(start) == words
    with torch.no_grad():
        x = network.maxpool(network.relu(network.bn1(network.conv1(image))))
        for number, mine in enumerate(_stages(backbone, image.flip(1)), 1):
            x = getattr(network, f'layer{number}')(x)
            torch.testing.assert_close(mine, x, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize(
    'content, words',
    [
        (None, 'other.pth does not exist'),
        (b'no weights', 'other.pth cannot be read as a state_dict: .'),
        ({'weight': torch.zeros(1)}, 'expected a state_dict of a torchvision ResNet'),
        ({'conv1.weight': torch.full((1,), torch.nan)}, 'NaN or infinity in conv1.weight'),
    ],
)
def test_files_that_are_no_resnet_are_refused(tmp_path, content, words):
    file = tmp_path / 'other.pth'
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content:
        torch.save(content, file)
    with pytest.raises(CheckpointError, match=words):
        start_from_resnet(Backbone(NARROW), file)
