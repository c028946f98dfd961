"""How much memory the weights of a network take."""

from __future__ import annotations

from itertools import chain

from torch import Tensor, nn

from deadline_perception.engines.sliced_layers import SlicedLayer


def weight_bytes(module: nn.Module) -> int:
    """Memory of a module's weights, with the copies that the cuts used so far have left."""
    own = {
        tensor.untyped_storage().data_ptr()
        for tensor in chain(module.parameters(), module.buffers())
    }
    copies = (
        part
        for layer in module.modules()
        if isinstance(layer, SlicedLayer)
        for parts in layer._laid_out.values()
        for part in parts
        if isinstance(part, Tensor)
    )
    return sum(parameter.nbytes for parameter in module.parameters()) + sum(
        copy.nbytes for copy in copies if copy.untyped_storage().data_ptr() not in own
    )
