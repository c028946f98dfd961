"""Rankings of neurons to compare selection with: Optimal Brain Surgeon, magnitude, random, and the order that training
left.

The importance of output neuron q is `s_q = o_q^2 / (2 [H^-1]_qq)`, the increase in the layer's error when q is removed
and the others make up for it as well as they can (SubFlow, equation 11, after Hassibi and Stork 1993). H is
approximated by the sample covariance of the layer's outputs (SubFlow, section VI); o_q^2 is taken over the calibration
set on average. Since `1 / [H^-1]_qq` is then the variance of o_q that the other neurons do not explain, a neuron that
repeats others counts for nothing, however large it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum

import torch
from torch import Tensor, nn

from deadline_perception.engines import sliced_layers as sliced
from deadline_perception.extras.elastic.elastic import (
    SETTINGS,
    ElasticModule,
    check_calibration,
    output_samples,
    rank,
    settle_norms,
    structure,
    unit_scores,
)
from deadline_perception.extras.elastic.importance import OutputSamples, of_units

# Shares of its own variance that are added to each neuron's where the covariance is singular: because neurons follow
# from others, which no more than rounding may blur, or because there are too few samples to tell.
_DAMPING = 1e-6
_DAMPING_OF_FEW = 1e-2
# of a neuron's variance: what the others leave unexplained, below which rounding decides
_SINGULAR = 1e-7


class Ranking(Enum):
    """What neurons are ranked by."""

    SELECTION = 'selection'  # see extras/elastic/importance.py
    OBS = 'obs'  # see the module
    MAGNITUDE = 'magnitude'  # sum of the absolute weights that lead to a neuron (Li et al. 2017)
    RANDOM = 'random'
    GIVEN = 'given'  # the order that training has left


def by_obs(samples: OutputSamples) -> Tensor:
    """Importance of every neuron, float64 `[m]`, from two samples or more."""
    if samples.products is None:
        return _of_few(torch.cat(samples.few))
    count = samples.count
    products = samples.products
    mean = samples.sums / count
    centre = count * torch.outer(mean, mean)
    covariance = (products - centre) / (count - 1)
    variance = covariance.diagonal().clamp(min=0.0)
    deviation = torch.where(variance > 0.0, variance, 1.0).sqrt()
    correlation = covariance / torch.outer(deviation, deviation)
    correlation.diagonal().copy_((variance > 0.0).double())
    unexplained = _unexplained(correlation, 0.0)
    if unexplained is None or not (unexplained > _SINGULAR).all():
        unexplained = _unexplained(correlation, _DAMPING)
    return products.diagonal() / count * variance * unexplained / 2.0


def _unexplained(correlation: Tensor, damping: float) -> Tensor | None:
    """Of each neuron the share of its variance that the others leave unexplained; None without a Cholesky factor."""
    factor, failed = torch.linalg.cholesky_ex(
        correlation + damping * torch.eye(len(correlation), dtype=correlation.dtype)
    )
    return None if failed else 1.0 / torch.cholesky_inverse(factor).diagonal()


def _of_few(samples: Tensor) -> Tensor:
    """The same of no more samples than neurons: the inverse's diagonal follows from a matrix of samples by samples."""
    count = len(samples)
    damping = _DAMPING_OF_FEW
    variance = samples.var(0)
    standardised = (samples - samples.mean(0)) / (
        torch.where(variance > 0.0, variance, 1.0) * (count - 1)
    ).sqrt()
    # (damping + X'X)^-1 = (1 - X' (damping + X X')^-1 X) / damping
    between = standardised @ standardised.T + damping * torch.eye(count, dtype=torch.float64)
    factor = torch.linalg.cholesky(between)
    half = torch.linalg.solve_triangular(factor, standardised, upper=False)
    explained = half.square().sum(0)
    unexplained = damping / (1.0 - explained).clamp(min=1e-12)
    return samples.square().mean(0) * variance * unexplained / 2.0


def obs_importance(outputs: Tensor) -> Tensor:
    """Importance of each neuron of a layer, by Optimal Brain Surgeon.

    With no more samples than neurons, or a neuron that others determine, the covariance is singular, hence damped.
    Layers of ten thousands of neurons are no trouble.

    Args:
        outputs: of the layer, `[n, m]`: n samples of m neurons, n at least 2.
    """
    samples = OutputSamples(outputs.shape[1])
    samples.add(outputs)
    return by_obs(samples)


def elastic(
    module: nn.Module,
    example_inputs: Sequence[Tensor],
    calibration: Tensor | Iterable[Tensor],
    *,
    settings: tuple[float, ...] = SETTINGS,
    ranking: Ranking = Ranking.SELECTION,
    seed: int = 0,
) -> ElasticModule:
    """As `elastic` of the package, by another ranking; the seed is that of a random one too."""
    batches = check_calibration(calibration, example_inputs)
    network = structure(module, example_inputs, settings)
    rank_by(network, batches, ranking, seed)
    settle_norms(network, batches)
    return network


def rank_by(
    network: ElasticModule, batches: Sequence[Tensor], ranking: Ranking, seed: int = 0
) -> None:
    """Ranks the neurons of a network and puts them in that order; only `Ranking.SELECTION` and `OBS` read the batches.

    Raises:
        CalibrationError: there are fewer than two samples of a layer's outputs.
    """
    if ranking in (Ranking.SELECTION, Ranking.OBS):
        scores = {
            key: samples.selection() if ranking is Ranking.SELECTION else by_obs(samples)
            for key, samples in output_samples(network, batches, seed).items()
        }
        rank(network, unit_scores(network, scores))
    elif ranking is Ranking.MAGNITUDE:
        rank(network, magnitude_scores(network))
    elif ranking is Ranking.RANDOM:
        generator = torch.Generator().manual_seed(seed)
        scores = [torch.rand(group.units, generator=generator) for group in network.groups]
        rank(network, scores)
    else:
        scores = [torch.arange(group.units, 0, -1).float() for group in network.groups]
        rank(network, scores)


def magnitude_scores(network: ElasticModule) -> list[Tensor]:
    """Sum of the absolute weights that lead to each unit, over all layers of its group, float64 `[units]` each."""
    found = defaultdict(list)
    for layer in network.elastic_layers():
        spans = layer.axes.get('weight', {}).get(0)
        if spans is not None and isinstance(layer, (sliced.Convolution, sliced.Linear)):
            sums = layer.weight.detach().abs().flatten(1).sum(1)
            for span, part in zip(spans, sums.split([span.size for span in spans])):
                found[span.group].append(part.cpu())
    return [of_units(found[number], group.units) for number, group in enumerate(network.groups)]
