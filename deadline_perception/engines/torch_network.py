"""What the networks that PyTorch computes segment by segment have in common, whatever they decide and find."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from deadline_perception.engines.cuda_graphs import CudaGraphs, CudaRecorder
from deadline_perception.engines.eager import Eager
from deadline_perception.engines.segment_run import ShapedNetwork

# Mean and standard deviation of pixel values, BGR (those of ImageNet in that order, so that its weights can be a
# start).
PIXEL_MEAN = (103.53, 116.28, 123.675)
PIXEL_DEVIATION = (57.375, 57.12, 58.395)


class TorchNetwork(ShapedNetwork):
    """The part of `Network` that follows from a network's shape and weights."""

    @abstractmethod
    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """All weights as accuracy depends on them, always in the same order."""

    @property
    def weights_hash(self) -> str:  # type: ignore[override]  # as above
        """Identifies shape and weights, on which accuracy depends."""
        named = self.named_weights()
        return self.hash_with(
            (name, tensor.detach().cpu().contiguous().numpy()) for name, tensor in named
        )

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
        self.config_name = config_name
        self.class_names = tuple(class_names)
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

    inference = staticmethod(torch.inference_mode)

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
