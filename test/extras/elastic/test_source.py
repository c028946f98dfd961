import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torchvision.models.detection import ssdlite320_mobilenet_v3_large

from deadline_perception.core.detections import Detections
from deadline_perception.extras.elastic.source import (
    NetworkSource,
    SourceError,
    _build,
    find_source,
    read_weights,
)


def test_weights_tell_the_number_of_classes_of_a_classifier():
    weights = NetworkSource('resnet18', tuple('abcde')).ordinary().state_dict()
    source = find_source('resnet18', weights)
    assert source.class_names == ('class0', 'class1', 'class2', 'class3', 'class4')
    assert source.input_size == (224, 224)
    assert find_source('resnet18', weights, tuple('vwxyz'), (64, 96)).input_size == (64, 96)
    with pytest.raises(SourceError, match='2 class names with weights of 5 classes'):
        find_source('resnet18', weights, ('a', 'b'))
    with pytest.raises(SourceError, match='weights do not fit resnet18 of 2 classes'):
        NetworkSource('resnet18', ('a', 'b')).ordinary({'fc.bias': torch.zeros(2)})


def test_weights_tell_the_number_of_classes_of_a_detector():
    ssd = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=91)
    source = find_source('ssdlite320_mobilenet_v3_large', ssd.state_dict())
    assert len(source.class_names) == 90 and source.class_names[0] == 'person'
    assert source.input_size == (320, 320)
    decoder = source.decoder()
    found = decoder.decode((torch.zeros(1, 3234, 91), torch.zeros(1, 3234, 4)), (240, 640))
    assert decoder.result_type is Detections and len(found) > 0
    assert (found.boxes_xyxy_px.max(0) <= (640, 240, 640, 240)).all() and found.labels.min() >= 0


def test_a_detector_finds_what_torchvision_finds():
    form = (320, 320), (0.5,) * 3, (0.5,) * 3
    source = NetworkSource('ssdlite320_mobilenet_v3_large', ('a', 'b'), *form)
    ssd = _build(source.model, 2).eval()
    for module in ssd.head.modules():
        if isinstance(module, torch.nn.Conv2d):
            generator = torch.Generator().manual_seed(1)
            torch.nn.init.normal_(module.weight, std=0.2, generator=generator)
    image = torch.rand(3, 320, 320, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        (expected,) = ssd([image])
        outputs = source.ordinary(ssd.state_dict())(2.0 * image[None] - 1.0)
        found = source.decoder().decode(outputs, (320, 320))
    assert len(found) == len(expected['scores']) > 0
    np.testing.assert_allclose(found.scores, expected['scores'].numpy(), atol=1e-5)
    np.testing.assert_allclose(found.boxes_xyxy_px, expected['boxes'].numpy(), atol=1e-2)
    np.testing.assert_array_equal(found.labels + 1, expected['labels'].numpy())


@pytest.mark.parametrize(
    'source, message',
    [
        ('no_such_network', "model is 'no_such_network', expected the name"),
        ('deeplabv3_resnet50', 'expected the name of one'),
        ('raft_small', 'expected the name of one'),
        ('no.module:made', 'expected package.module:callable'),
        ('deadline_perception.core.errors:command_lin', 'expected package.module:callable'),
        ('collections:OrderedDict', 'gives a OrderedDict, expected a torch.nn.Module'),
        ('fasterrcnn_mobilenet_v3_large_320_fpn', 'finds its regions by the data'),
        ({'class_names': ()}, 'expected 1 to 10000 names'),
        ({'input_size': (0, 5)}, 'input_size'),
        ({'deviation': (1.0, 0.0, 1.0)}, 'deviation'),
    ],
)
def test_refuses_what_is_no_network(source, message):
    source = source if isinstance(source, dict) else {'model': source}
    with pytest.raises((SourceError, ValueError), match=message):
        NetworkSource(**{'model': 'resnet18', 'class_names': ('a', 'b'), **source}).ordinary()


def test_reads_both_formats_and_nested_state_dicts(tmp_path):
    weights = {'a': torch.ones(2, dtype=torch.float16), 'n': torch.tensor(3)}
    torch.save({'model': weights, 'epoch': 3}, tmp_path / 'w.pth')
    save_file(weights, tmp_path / 'w.safetensors')
    for name in ('w.pth', 'w.safetensors'):
        found = read_weights(tmp_path / name)
        assert found['a'].dtype is torch.float32 and found['n'] == 3
    torch.save([1, 2], tmp_path / 'w.pth')
    with pytest.raises(SourceError, match='w.pth cannot be read: it holds list'):
        read_weights(tmp_path / 'w.pth')
    with pytest.raises(SourceError, match='does not exist'):
        read_weights(tmp_path / 'none.pth')
