"""Small networks of every kind of block that can be made elastic, and elastic ones made of them."""

import torch
from torch import Tensor, nn

from deadline_perception.extras.elastic.elastic import ElasticModule, elastic

BLOCKS = (
    'plain',
    'batch',
    'group',
    'layer',
    'dilated',
    'grouped',
    'depthwise',
    'residual',
    'excited',
    'concatenated',
    'pooled',
)


class LayerNorm2d(nn.LayerNorm):
    """Normalises axis 1, as torchvision's does."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """One kind of block over 8 channels, or 16 behind a concatenation."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        groups = {'grouped': 4, 'depthwise': 8}.get(kind, 1)
        dilation = 2 if kind == 'dilated' else 1
        self.first = nn.Conv2d(
            8, 8, 3, padding=dilation, dilation=dilation, groups=groups, bias=kind != 'batch'
        )
        self.norm = {
            'batch': nn.BatchNorm2d(8),
            'group': nn.GroupNorm(4, 8),
            'layer': LayerNorm2d(8),
            'depthwise': nn.BatchNorm2d(8),
        }.get(kind, nn.Identity())
        self.second = nn.Conv2d(8, 8, 1)
        self.squeeze, self.excite = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.gain = nn.Parameter(torch.rand(8, 1, 1))
        self.last = nn.Conv2d(16, 8, 1) if kind == 'concatenated' else nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm(self.first(x)))
        if self.kind == 'residual':
            y = torch.relu(x + self.gain * self.second(y))
        if self.kind == 'excited':
            means = torch.relu(self.squeeze(y.mean((2, 3), keepdim=True)))
            y = y * torch.sigmoid(self.excite(means))
        if self.kind == 'concatenated':
            y = torch.cat((y, torch.relu(self.second(x))), 1)
        if self.kind == 'pooled':
            y = nn.functional.max_pool2d(y, 3, 1, 1)
        return torch.relu(self.last(y))


class MadeUpNetwork(nn.Module):
    """A convolution, some blocks, and two fully connected layers behind a flattening or a mean."""

    def __init__(self, kinds: tuple[str, ...], flattens: bool = True) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.widen = nn.Conv2d(8, 8, 1)
        self.blocks = nn.Sequential(*map(Block, kinds))
        self.flattens = flattens
        self.hidden = nn.Linear(8 * 16 if flattens else 8, 12)
        self.classes = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(torch.relu(self.widen(torch.relu(self.stem(x)))))
        x = x.reshape(x.size(0), -1) if self.flattens else x.mean((2, 3))
        return self.classes(torch.relu(self.hidden(x)))


def made_up(kinds: tuple[str, ...], flattens: bool = True, seed: int = 0) -> MadeUpNetwork:
    """A network with random weights, and norms that have seen something."""
    torch.manual_seed(seed)
    network = MadeUpNetwork(kinds, flattens).eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0.0, 0.2)
            module.running_var.uniform_(0.5, 2.0)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0.0, 0.2)
    return network


def images(count: int = 8, seed: int = 1) -> Tensor:
    """Noise `[count, 3, 8, 8]`."""
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def noise(rows: int, neurons: int, seed: int = 0) -> Tensor:
    """Outputs `[rows, neurons]` in double precision."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, neurons, generator=generator, dtype=torch.float64)


def made_elastic(
    kinds: tuple[str, ...] = ('residual', 'batch'),
    flattens: bool = True,
    seed: int = 0,
    settings: tuple[float, ...] = (0.25, 0.5, 1.0),
) -> ElasticModule:
    """The same, elastic."""
    return elastic(made_up(kinds, flattens, seed), (images(1),), images(), settings=settings)


def two_classes() -> MadeUpNetwork:
    """For images of 8 x 8 px, fit to be trained, and without norms: nothing changes but by training."""
    network = made_up(('plain', 'residual'))
    network.classes = nn.Linear(12, 2)
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity='relu')
            nn.init.zeros_(module.bias)
    return network
