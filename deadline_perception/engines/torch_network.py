"""What the networks that PyTorch computes segment by segment have in common, whatever they decide and find."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from deadline_perception.engines.cuda_graphs import CudaGraphs, CudaRecorder
from deadline_perception.engines.eager import Eager
from deadline_perception.engines.segment_run import Network

# Mean and standard deviation of pixel values, BGR (those of ImageNet in that order, so that its weights can be a
# start).
PIXEL_MEAN = (103.53, 116.28, 123.675)
PIXEL_DEVIATION = (57.375, 57.12, 58.395)


class TorchNetwork(Network):
    """The part of `Network` that follows from a network's shape and weights."""

    @property
    @abstractmethod
    def shape(self) -> object:
        """All that decides execution times, as JSON can hold it."""

    @abstractmethod
    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """All weights as accuracy depends on them, always in the same order."""

    @property
    def variant(self) -> list[str]:
        """What execution times depend on beside the shape, and accuracy hardly, such as the precision."""
        return []

    @property
    def network_hash(self) -> str:  # type: ignore[override]  # as `Network` allows
        """Identifies the shape, on which execution times depend; weights of the same shape share it."""
        return _digest([self.shape, self.variant] if self.variant else self.shape)

    @property
    def weights_hash(self) -> str:  # type: ignore[override]  # as above
        """Identifies shape and weights, on which accuracy depends."""
        digest = hashlib.sha256(_digest(self.shape).encode())
        for name, tensor in self.named_weights():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def use_graphs(self) -> None:
        """See `Network`; each is captured as its segment first runs, see `CudaGraphs`."""
        self.engine = CudaGraphs(self.device, CudaRecorder(self.device))


class TorchModule(TorchNetwork, nn.Module):
    """A network that is a module itself: its engine forgets what it prepared as soon as weights or their place change.

    Args:
        config_name: name of its shape.
        class_names: what labels mean, at least one.

    Raises:
        ValueError: there is no class.
    """

    pixel_mean: Tensor
    pixel_scale: Tensor

    def __init__(self, config_name: str, class_names: Sequence[str]) -> None:
        super().__init__()
        if not class_names:
            raise ValueError('class_names is empty, expected at least one class')
        self.config_name, self.class_names = config_name, tuple(class_names)
        self.engine = Eager()
        # torch has no types for it, nor for `_apply`.
        self.register_load_state_dict_post_hook(lambda module, keys: module.engine.clear())  # type: ignore[no-untyped-call]
        self.register_buffer(
            'pixel_mean', torch.tensor(PIXEL_MEAN).view(1, 3, 1, 1), persistent=False
        )
        self.register_buffer(
            'pixel_scale',
            torch.tensor([1 / each for each in PIXEL_DEVIATION]).view(1, 3, 1, 1),
            persistent=False,
        )  # not of a tensor: on `meta`, that loads PyTorch's compiler

    @property
    def device(self) -> str:  # type: ignore[override]  # as above
        """The processor that holds the weights, such as `cpu` or `cuda:0`."""
        return str(self.pixel_mean.device)

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """At the precision that weights files keep, float16."""
        return ((name, tensor.half()) for name, tensor in self.state_dict().items())

    def train(self, mode: bool = True) -> TorchModule:
        """Sets training or evaluation mode; the engine forgets what it prepared."""
        self.engine.clear()
        return super().train(mode)

    def _apply(self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> TorchModule:
        self.engine.clear()
        return super()._apply(function, recurse)  # type: ignore[no-untyped-call]

    def normalise(self, pixels: Tensor) -> Tensor:
        """Pixel values 0 to 255 `[N, 3, h, w]`, BGR -> zero mean and unit standard deviation."""
        return (pixels - self.pixel_mean) * self.pixel_scale


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
