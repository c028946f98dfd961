"""How much each neuron of a layer matters over a calibration set: given the more important ones, or by Optimal Brain
Surgeon, and rankings to compare these with.

The importance of output neuron q is `s_q = o_q^2 / (2 [H^-1]_qq)`, the increase in the layer's error when q is removed
and the others make up for it as well as they can (SubFlow, equation 11, after Hassibi and Stork 1993). H is
approximated by the sample covariance of the layer's outputs (SubFlow, section VI); o_q^2 is taken over the calibration
set on average. Since `1 / [H^-1]_qq` is then the variance of o_q that the other neurons do not explain, a neuron that
repeats others counts for nothing, however large it is. Neurons are single values (channel and position) as in the
paper, or channels, whose samples are the values at all positions; which of the two decides the caller by what he takes
for a sample.

Optimal Brain Surgeon judges the removal of one neuron. A sub-network removes many at once, and of two that repeat each
other one must stay. Selection therefore takes neurons one after the other, each time the one whose mean square those
taken before leave least explained: a Cholesky factorisation with pivoting, or a QR factorisation of the samples (Chee
et al. 2022 prune by the latter). Squares are not taken about the mean, for the mean goes with the neuron.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch
from scipy.linalg import lapack, qr
from torch import Tensor

# Shares of its own variance that are added to each neuron's where the covariance is singular: because neurons follow
# from others, which no more than rounding may blur, or because there are too few samples to tell.
_DAMPING, _DAMPING_OF_FEW = 1e-6, 1e-2
_EXPLAINED = 1e-12  # of a neuron's mean square: what rounding leaves where others explain it
_SINGULAR = 1e-7  # of a neuron's variance: what the others leave unexplained, below which rounding decides


class Ranking(Enum):
    """What neurons are ranked by.

    `SELECTION` and `OBS`: see the module. `MAGNITUDE`: sum of the absolute weights that lead to a neuron (Li et al.
    2017). `RANDOM`: a permutation. `GIVEN`: the order that training has left.
    """

    SELECTION = 'selection'
    OBS = 'obs'
    MAGNITUDE = 'magnitude'
    RANDOM = 'random'
    GIVEN = 'given'


@dataclass(frozen=True, eq=False)
class Importance:
    """Of the neurons of one layer.

    Attributes:
        scores: float64 `[m]`, at least 0; a larger one matters more.
        damping: share of its own variance that was added to each neuron's because the covariance is singular; 0 where
            it is regular.

    Raises:
        ValueError: a score is negative or not finite.
    """

    scores: Tensor
    damping: float = 0.0

    def __post_init__(self) -> None:
        if not (torch.isfinite(self.scores).all() and (self.scores >= 0).all()):
            raise ValueError(f'importance is {self.scores}, expected finite numbers of at least 0')

    def order(self) -> Tensor:
        """Numbers of the neurons, most important first: int64 `[m]`; equal ones stay in their order."""
        return torch.argsort(self.scores, descending=True, stable=True)


class OutputSamples:
    """Samples of a layer's outputs: kept as they are while they are few, as sums once they outnumber the neurons.

    Args:
        neurons: m, at least 1.

    Attributes:
        count: n, samples taken in.
    """

    def __init__(self, neurons: int) -> None:
        self.count = 0
        self._neurons = neurons
        self._samples: list[Tensor] = []
        self._sum = torch.zeros(neurons, dtype=torch.float64)
        self._products: Tensor | None = None

    def add(self, outputs: Tensor) -> None:
        """Takes in samples `[n, m]`."""
        self._samples.append(outputs.detach().cpu().double())
        self.count += len(outputs)
        if self.count > self._neurons:
            samples, self._samples = torch.cat(self._samples), []
            self._sum += samples.sum(0)
            products = samples.T @ samples
            self._products = products if self._products is None else self._products.add_(products)

    def importance(self, ranking: Ranking = Ranking.OBS) -> Importance:
        """Of every neuron, by `SELECTION` or `OBS`.

        Raises:
            ValueError: fewer than two samples were taken in, or one that is not finite.
        """
        if self.count < 2:
            raise ValueError(f'importance of {self.count} samples, expected at least 2')
        if ranking is Ranking.SELECTION:
            return self._selected()
        return _of_few(torch.cat(self._samples)) if self._products is None else self._of_many()

    def _selected(self) -> Importance:
        """Mean square of each neuron that those before it leave unexplained; of those that are explained, next to none,
        the larger first."""
        if self._products is None:
            samples = torch.cat(self._samples).numpy() / self.count ** 0.5
            if not np.isfinite(samples).all():
                raise ValueError('outputs hold NaN or infinity, expected finite values')
            factor, order = qr(samples, mode='r', pivoting=True)
            squares, unexplained = np.square(samples).sum(0), np.square(np.diagonal(factor))
        else:
            products = self._products.numpy() / self.count
            if not np.isfinite(products).all():
                raise ValueError('outputs hold NaN or infinity, expected finite values')
            factor, order, rank, _ = lapack.dpstrf(products, lower=1)
            squares, order, unexplained = products.diagonal(), order - 1, np.square(np.diagonal(factor)[:rank])
        scores = squares * _EXPLAINED
        unexplained = np.minimum.accumulate(unexplained)  # rounding
        taken = order[:len(unexplained)]
        scores[taken] = np.maximum(scores[taken], unexplained)
        return Importance(torch.from_numpy(scores))

    def _of_many(self) -> Importance:
        mean = self._sum / self.count
        covariance = (self._products - self.count * torch.outer(mean, mean)) / (self.count - 1)
        variance = covariance.diagonal().clamp(min=0.0)
        deviation = torch.where(variance > 0.0, variance, 1.0).sqrt()
        correlation = covariance / torch.outer(deviation, deviation)
        correlation.diagonal().copy_((variance > 0.0).double())
        unexplained, damping = _unexplained(correlation, 0.0), 0.0
        if unexplained is None or not (unexplained > _SINGULAR).all():
            unexplained, damping = _unexplained(correlation, _DAMPING), _DAMPING
        return Importance(self._products.diagonal() / self.count * variance * unexplained / 2.0, damping)


def _unexplained(correlation: Tensor, damping: float) -> Tensor | None:
    """Of each neuron the share of its variance that the others leave unexplained; None without a Cholesky factor."""
    factor, failed = torch.linalg.cholesky_ex(correlation + damping
                                              * torch.eye(len(correlation), dtype=correlation.dtype))
    return None if failed else 1.0 / torch.cholesky_inverse(factor).diagonal()


def _of_few(samples: Tensor) -> Importance:
    """The same of no more samples than neurons: the inverse's diagonal follows from a matrix of samples by samples."""
    count, damping = len(samples), _DAMPING_OF_FEW
    variance = samples.var(0)
    standardised = (samples - samples.mean(0)) / (torch.where(variance > 0.0, variance, 1.0) * (count - 1)).sqrt()
    # (damping + X'X)^-1 = (1 - X' (damping + X X')^-1 X) / damping
    between = standardised @ standardised.T + damping * torch.eye(count, dtype=torch.float64)
    factor, failed = torch.linalg.cholesky_ex(between)
    if failed:
        raise ValueError('outputs hold NaN or infinity, expected finite values')
    half = torch.linalg.solve_triangular(factor, standardised, upper=False)
    unexplained = damping / (1.0 - half.square().sum(0)).clamp(min=1e-12)
    return Importance(samples.square().mean(0) * variance * unexplained / 2.0, damping)


def obs_importance(outputs: Tensor) -> Importance:
    """Importance of each neuron of a layer, by Optimal Brain Surgeon.

    With no more samples than neurons, or a neuron that others determine, the covariance is singular, hence damped.
    Layers of ten thousands of neurons are no trouble.

    Args:
        outputs: of the layer, `[n, m]`: n samples of m neurons, n at least 2.

    Raises:
        ValueError: another shape, fewer samples, or a value that is not finite.
    """
    if outputs.dim() != 2 or len(outputs) < 2 or outputs.shape[1] < 1:
        raise ValueError(f'outputs have the shape {tuple(outputs.shape)}, expected at least 2 samples of at least 1 '
                         f'neuron')
    if not torch.isfinite(outputs).all():
        raise ValueError('outputs hold NaN or infinity, expected finite values')
    samples = OutputSamples(outputs.shape[1])
    samples.add(outputs)
    return samples.importance()


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
