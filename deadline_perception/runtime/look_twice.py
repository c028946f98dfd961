"""Makes a network of passes of a network whose weights declare them, and says which sequences are worth being ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.decision.pass_quality import PassQuality
from deadline_perception.decision.useful_paths import fewer_segments
from deadline_perception.engines.segment_run import Network
from deadline_perception.networks.passes import (
    COARSE,
    FINE,
    NONE,
    SUFFIX,
    PassesError,
    PassesFile,
    PassesNetwork,
)
from deadline_perception.timing.interference import WcetTable
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.time_model import Forecast

# Of average precision at some size over all shorter sequences, for one to be kept. With 0.01 the lighter head was kept and
# the better one, which takes 2 % longer, was not.
_LEAST_GAIN = 0.003
_FAR = 2  # sizes of objects, from the smallest on, that closer looks are for
_MOST_LOSS = 0.0015  # of what sequences find of these, in the mean over times


def with_passes(
    network: Network, weights: Path, load: Callable[[str], tuple[Network, Path]]
) -> tuple[PassesNetwork, Path] | None:
    """The passes that the file beside some weights declares, and the weights of the first look; None where there is no
    such file, or the network decides nothing.

    Args:
        network: of the weights.
        weights: their file.
        load: gives the network of a model string and its file, for the first look.

    Raises:
        PassesError: the file is damaged, or the passes cannot be made.
    """
    file = weights.with_suffix(SUFFIX)
    if not network.path_space.operators or not file.is_file():
        return None
    declared = PassesFile.load(file)
    coarse, coarse_weights = load(first_look_model(weights))
    try:
        paths = {label: coarse.path_space.parse(path) for label, path in declared.coarse.items()}
        passes = PassesNetwork(network, coarse, paths, declared.fusion)
    except ValueError as error:
        raise PassesError(f'passes {file} cannot be used: {error}') from error
    return passes, coarse_weights


def first_look_model(weights: Path) -> str:
    """Model string or file of the network that takes the first look before some weights; empty: none does.

    Raises:
        PassesError: the file beside the weights is damaged.
    """
    file = weights.with_suffix(SUFFIX)
    if not file.is_file():
        return ''
    model = PassesFile.load(file).model
    beside = weights.parent / model
    return str(beside) if beside.is_file() else model


def joined_profile(
    passes: PassesNetwork, fine: LatencyProfile, coarse: LatencyProfile
) -> LatencyProfile:
    """Times of two networks that look one after the other, from the times of each.

    Args:
        passes: of both networks.
        fine: of that of the closer look.
        coarse: of that of the first look.
    """
    prefix = f'{COARSE}.'
    alone = passes.path_space.largest.replace(**{FINE: NONE})
    paths = {
        str(alone.replace(coarse=label)): coarse.paths[str(path)]
        for label, path in passes.coarse_paths.items()
        if str(path) in coarse.paths
    }
    wcet = None
    if fine.wcet is not None and coarse.wcet is not None:
        of_coarse_ms = {f'{prefix}{key}': ms for key, ms in coarse.wcet.segments_ms.items()}
        wcet = WcetTable({**fine.wcet.segments_ms, **of_coarse_ms}, fine.wcet.interference)
    return replace(
        fine,
        segments={
            **fine.segments,
            **{f'{prefix}{key}': times for key, times in coarse.segments.items()},
        },
        paths={**fine.paths, **paths},
        wcet=wcet,
        scaled_from=fine.scaled_from or coarse.scaled_from,
    )


def useful_sequences(
    network: PassesNetwork,
    fine: Sequence[ExecutionPath],
    quality: PassQuality,
    forecast: Forecast,
) -> tuple[list[ExecutionPath], str]:
    """All first looks alone; and after the best of them the closer looks that are better at some size of object than all
    shorter ones. Closer looks alone, and after cheaper first looks, gain nothing where images are of several kinds
    (`replay.py`): where the best first look does not fit, no closer one does.

    Args:
        network: the passes.
        fine: paths of the closer look's network that can be kept ready.
        quality: of the sequences.
        forecast: their times.
    """
    space = network.path_space
    firsts = [space.largest.replace(coarse=label, **{FINE: NONE}) for label in network.coarse_paths]
    best_first = max(firsts, key=quality.quality)

    def followed_by(path: ExecutionPath) -> ExecutionPath:
        return network.single(path).replace(coarse=best_first[COARSE])

    at_hand = [*firsts, *map(followed_by, fine)]
    # Every operator keeps two settings.
    of_fine = network.fine.path_space
    ends = {followed_by(path) for path in (of_fine.smallest, of_fine.largest)} & set(at_hand)
    of_far = quality.pooled_by_size(at_hand)[:, :_FAR].mean(axis=1)
    useful = set(fewer_segments(at_hand, forecast, of_far, {*firsts, *ends}, _MOST_LOSS))
    kept = list(firsts)
    reached = quality.pooled_by_size([best_first])[0]
    for path in sorted(useful.difference(firsts), key=forecast.forecast_ms):
        of_path = quality.pooled_by_size([path])[0]
        if path in ends or (of_path - reached).max() > _LEAST_GAIN:
            kept.append(path)
            reached = np.maximum(reached, of_path)
    of_best_first = quality.quality(best_first)
    notice = ''
    if max(map(quality.quality, kept)) - of_best_first < _LEAST_GAIN:
        notice = (
            f'the best first look alone has a quality of {of_best_first:.3f}, and no closer look adds {_LEAST_GAIN:g} '
            f'to it, expected the second network to be the better one'
        )
    return kept, notice
