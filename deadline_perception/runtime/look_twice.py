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

_LEAST_GAIN = 0.002  # of average precision at some size, for a second look to be worth a path


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
    network: PassesNetwork, fine: Sequence[ExecutionPath], quality: PassQuality
) -> tuple[list[ExecutionPath], str]:
    """One look on each of some paths, each first look alone, and each followed by those closer looks that add something
    at some size of object; and what a person should know of it, empty where nothing is.

    Args:
        network: the passes.
        fine: paths of the closer look's network that are kept ready.
        quality: of the sequences.
    """
    singles = [network.single(path) for path in fine]
    kept, firsts = list(singles), []
    for label in network.coarse_paths:
        alone = network.path_space.largest.replace(coarse=label, **{FINE: NONE})
        both = [path.replace(coarse=label) for path in singles]
        gains = (quality.by_size(both) - quality.by_size([alone])).max(axis=1)
        kept += [alone, *(path for path, gain in zip(both, gains) if gain > _LEAST_GAIN)]
        firsts.append(alone)
    best = float(np.max(quality.table(singles)))
    worse = [path for path in firsts if quality.quality(path) > best]
    notice = ''
    if worse:
        notice = (
            f'the first look {worse[0]} is better ({quality.quality(worse[0]):.3f}) than any closer look alone '
            f'({best:.3f}), expected the second network to be the better one'
        )
    return kept, notice
