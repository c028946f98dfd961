"""How much each neuron of a layer matters over a calibration set, given the more important ones.

Neurons are single values (channel and position), or channels, whose samples are the values at all positions; which of
the two decides the caller by what he takes for a sample. A sub-network removes many at once, and of two that repeat
each other one must stay. Selection therefore takes neurons one after the other, each time the one whose mean square
those taken before leave least explained: a Cholesky factorisation with pivoting, or a QR factorisation of the samples
(Chee et al. 2022 prune by the latter). Squares are not taken about the mean, for the mean goes with the neuron. Optimal
Brain Surgeon, which judges the removal of one neuron (SubFlow, equation 11), and others are compared with it in
`research/subflow/rankings.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.linalg import lapack, qr
from torch import Tensor

_EXPLAINED = 1e-12  # of a neuron's mean square: what rounding leaves where others explain it


class OutputSamples:
    """Samples of a layer's outputs: kept as they are while they are few, as sums once they outnumber the neurons.

    Args:
        neurons: m, at least 1.

    Attributes:
        count: n, samples taken in.
        few: float64 `[n, m]` each, the samples that are not in the sums.
        sums: float64 `[m]`, of the samples.
        products: float64 `[m, m]`, sums of the products of two neurons; None while the samples are few.
    """

    def __init__(self, neurons: int) -> None:
        self.count = 0
        self.few: list[Tensor] = []
        self.sums = torch.zeros(neurons, dtype=torch.float64)
        self.products: Tensor | None = None

    def add(self, outputs: Tensor) -> None:
        """Takes in samples `[n, m]`."""
        self.few.append(outputs.detach().cpu().double())
        self.count += len(outputs)
        if self.count > len(self.sums):
            samples, self.few = torch.cat(self.few), []
            self.sums += samples.sum(0)
            products = samples.T @ samples
            self.products = products if self.products is None else self.products.add_(products)

    def selection(self) -> Tensor:
        """Mean square of each neuron that those before it leave unexplained; of those that are explained, next to none,
        the larger first: float64 `[m]`.

        Raises:
            ValueError: a sample is not finite.
        """
        if self.products is None:
            samples = torch.cat(self.few).numpy() / self.count**0.5
            _check_finite(samples)
            factor, order = qr(samples, mode='r', pivoting=True)
            squares, unexplained = np.square(samples).sum(0), np.square(np.diagonal(factor))
        else:
            products = self.products.numpy() / self.count
            _check_finite(products)
            factor, order, rank, _ = lapack.dpstrf(products, lower=1)
            squares, order, unexplained = (
                products.diagonal(),
                order - 1,
                np.square(np.diagonal(factor)[:rank]),
            )
        scores = squares * _EXPLAINED
        unexplained = np.minimum.accumulate(unexplained)  # rounding
        taken = order[: len(unexplained)]
        scores[taken] = np.maximum(scores[taken], unexplained)
        return torch.from_numpy(scores)


def _check_finite(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise ValueError('outputs hold NaN or infinity, expected finite values')


def of_units(scores: Sequence[Tensor], units: int) -> Tensor:
    """One score per unit from those of the tensors that hold it: float64 `[units]`.

    Each tensor counts the same, whatever its scale; within one, a unit's neurons add up.

    Args:
        scores: of each tensor `[units * k]` for any k, a unit's neurons side by side.
        units: number of units.
    """
    total = torch.zeros(units, dtype=torch.float64)
    for of_tensor in scores:
        by_unit = of_tensor.double().reshape(units, -1).sum(1)
        total += by_unit / by_unit.mean().clamp(min=torch.finfo(torch.float64).tiny)
    return total
