"""torchvision's networks become elastic, and what cannot is refused by the name of its layer."""

import pytest
import torch
from element_form import MaskedNetwork
from made_up_elastic import images
from torch import nn
from torch.nn import functional as F

from deadline_perception.extras.elastic.elastic import elastic, structure
from deadline_perception.extras.elastic.source import NetworkSource
from deadline_perception.extras.elastic.tracing import ConversionError


@pytest.mark.parametrize(
    'model, size, share',
    [
        ('resnet18', 64, 0.3),
        ('mobilenet_v3_small', 64, 0.4),
        ('ssdlite320_mobilenet_v3_large', 320, 0.4),
    ],
)
def test_torchvision_networks_convert(model, size, share):
    source = NetworkSource(model, tuple('abcd'), (size, size))
    module = source.ordinary()
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(2, 3, size, size, generator=generator)
    network = elastic(module, source.example_inputs, inputs, settings=(0.5, 1.0))
    with torch.no_grad():
        masked = MaskedNetwork(network, network.activate(0.5)).compute(inputs)
        pairs = (module(inputs), network(inputs)), (masked, network(inputs, utilisation=0.5))
    for pair in pairs:
        for one, other in zip(*(part if isinstance(part, tuple) else (part,) for part in pair)):
            scale = one.abs().max()
            torch.testing.assert_close(other / scale, one / scale, rtol=0.0, atol=1e-4)
    assert network.used_weights(0.5) < share * network.weights


class Wrong(nn.Module):
    def __init__(self, layer: nn.Module | None = None) -> None:
        super().__init__()
        self.stem, self.middle = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)
        self.last = nn.Conv2d(8, 2, 1)
        self.layer = layer if layer is not None else nn.Identity()

    def forward(self, x):
        return self.last(self.layer(F.relu(self.middle(F.relu(self.stem(x))))))


@pytest.mark.parametrize(
    'module, message',
    [
        (Wrong(nn.ConvTranspose2d(8, 8, 3)), 'layer layer is a ConvTranspose2d'),
        (Wrong(nn.Conv2d(8, 8, 3, padding=1, padding_mode='reflect')), 'layer layer pads'),
        (Wrong().half(), r'stem.weight is of torch.float16, expected torch.float32'),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), 'no layer of the network can be narrowed'),
        (Wrong(nn.Linear(99, 3)), r'does not run on example inputs of the shape \(1, 3, 8.*shapes'),
    ],
)
def test_refuses_what_cannot_be_converted(module, message, capsys):
    with pytest.raises(ConversionError, match=message):
        structure(module, (images(1),))
    assert capsys.readouterr().err == ''


class Moved(Wrong):
    def __init__(self, operation) -> None:
        super().__init__(nn.Conv2d(8, 8, 1))
        self.operation = operation

    def forward(self, x):
        x = self.operation(F.relu(self.middle(F.relu(self.stem(x)))))
        return self.last(F.relu(self.layer(x)))


@pytest.mark.parametrize(
    'operation, name',
    [
        (lambda x: x.view(-1, 2, 4, 4, 4).transpose(1, 2).reshape(-1, 8, 4, 4), 'view'),
        (lambda x: x.permute(dims=(0, 1, 3, 2)), 'permute'),
        (lambda x: torch.cat(tensors=(x,), dim=1), 'cat'),
        (lambda x: torch.transpose(x, dim0=2, dim1=3), 'transpose'),
    ],
)
def test_what_an_unknown_operation_reads_stays_whole(operation, name):
    network = structure(Moved(operation), (images(1),))
    whole = {group.names[0]: group.whole_because for group in network.groups}
    assert whole['middle'].startswith(name)
    assert whole['middle'].endswith('needs all channels')
    assert whole['layer'] == ''
    expected = MaskedNetwork(network, network.activate(0.5)).compute(images())
    torch.testing.assert_close(network(images(), utilisation=0.5), expected)
