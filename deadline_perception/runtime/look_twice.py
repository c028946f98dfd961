"""Makes a network of passes of a network whose weights declare them, and says which sequences are worth being ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.decision.pass_quality import PassQuality
from deadline_perception.engines.segment_run import Network
from deadline_perception.networks.passes import (
    FINE,
    NONE,
    SUFFIX,
    PassesError,
    PassesFile,
    PassesNetwork,
)
from deadline_perception.timing.time_model import Forecast

_LEAST_GAIN = 0.01  # of average precision at some size over all shorter sequences, for one to be worth its time


def with_passes(
    network: Network, weights: Path, load: Callable[[str], tuple[Network, Path]]
) -> tuple[PassesNetwork, Path] | None:
    """The passes that the file beside some weights declares, and the weights of the first look; None where there is no
    such file, or the network decides nothing.

    Args:
        network: of the weights.
        weights: their file.
        load: gives the network of a model string and its file, for a first look by another one.

    Raises:
        PassesError: the file is damaged, or the passes cannot be made.
    """
    file = weights.with_suffix(SUFFIX)
    if not network.path_space.operators or not file.is_file():
        return None
    declared = PassesFile.load(file)
    coarse, coarse_weights = network, weights
    if declared.model:
        beside = weights.parent / declared.model
        coarse, coarse_weights = load(str(beside) if beside.is_file() else declared.model)
    try:
        paths = {label: coarse.path_space.parse(path) for label, path in declared.coarse.items()}
        passes = PassesNetwork(network, paths, coarse=coarse, rule=declared.rule)
    except ValueError as error:
        raise PassesError(f'passes {file} cannot be used: {error}') from error
    return passes, coarse_weights


def useful_sequences(
    network: PassesNetwork,
    fine: Sequence[ExecutionPath],
    quality: PassQuality,
    forecast: Forecast,
) -> tuple[list[ExecutionPath], str]:
    """One look on each of some paths, each first look alone, and each followed by those closer looks that are better at
    some size of object than all shorter ones; and what a person should know of it, empty where nothing is.

    Args:
        network: the passes.
        fine: paths of the closer look's network that are kept ready.
        quality: of the sequences.
        forecast: their times.
    """
    singles = [network.single(path) for path in fine]
    kept, firsts = list(singles), []
    for label in network.coarse_paths:
        alone = network.path_space.largest.replace(coarse=label, **{FINE: NONE})
        both = [path.replace(coarse=label) for path in singles]
        order = np.argsort(forecast.table(both), kind='stable')
        best = quality.pooled_by_size([alone])[0]
        for at, reached in zip(order, quality.pooled_by_size(both)[order]):
            if (reached - best).max() > _LEAST_GAIN:
                kept.append(both[at])
                best = np.maximum(best, reached)
        kept.append(alone)
        firsts.append(alone)
    best_single = float(np.max(quality.table(singles)))
    better = max(firsts, key=quality.quality)
    notice = ''
    if quality.quality(better) > best_single:
        notice = (
            f'the first look {better} is better ({quality.quality(better):.3f}) than any closer look alone '
            f'({best_single:.3f}), expected the second network to be the better one'
        )
    return kept, notice
