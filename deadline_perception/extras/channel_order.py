"""Puts the channels of layers into another order, so that the first ones are those worth most."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from deadline_perception.engines.sliced_layers import SlicedLayer


def reorder(layer: SlicedLayer, orders: Sequence[Tensor | None]) -> None:
    """Puts units of every group into another order, along all axes.

    Args:
        layer: whose channels are sorted.
        orders: by group, int64 `[units]`: the old number of the unit at each place; None for a group that stays.
    """
    with torch.no_grad():
        for name, of_weight in layer.axes.items():
            weight = getattr(layer, name, None)
            if weight is None:
                continue
            for axis, spans in of_weight.items():
                places, offset = [], 0
                for span in spans:
                    order = orders[span.group]
                    units = torch.arange(span.units) if order is None else order
                    units = units.to(weight.device)[:, None] * span.per_unit
                    places.append(
                        (units + torch.arange(span.per_unit, device=weight.device)).flatten()
                        + offset
                    )
                    offset += span.size
                weight.copy_(weight.index_select(axis, torch.cat(places)))
    layer.forget_copies()
