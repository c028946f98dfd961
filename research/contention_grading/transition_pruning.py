"""The contention paper's second pruning, by the slopes between neighbours, which no command uses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from deadline_perception.extras.external_models.model_set.pruning import (
    Candidate,
    contention_prune,
    pareto_prune,
)


def transition_prune(
    candidates: Sequence[Candidate], *, least_slope: float = 0.0, greatest_slope: float = math.inf
) -> tuple[Candidate, ...]:
    """Leaves out, of two neighbours, the better one where it gains too little, and the faster one where it saves too
    little.

    The slope of a transition is the gain in quality over the rise in delay, per ms. From the fastest on, the first
    slope below `least_slope` loses its better end and the first above `greatest_slope` its faster end; then all slopes
    are calculated anew. Source: contention paper, section 3.4, second stage; its limits were 0.25 and 1.5 (section
    5.2.2), which depend on the units and on what is asked for.

    Args:
        candidates: any number; those that `pareto_prune` would leave out are left out first.
        least_slope: in quality per ms, >= 0.
        greatest_slope: in quality per ms, above `least_slope`.
    """
    kept = list(pareto_prune(candidates))
    at = 0
    while at + 1 < len(kept):
        faster = kept[at]
        better = kept[at + 1]
        slope = (better.quality - faster.quality) / (better.delay_ms - faster.delay_ms)
        if least_slope <= slope <= greatest_slope:
            at += 1
            continue
        del kept[at + 1 if slope < least_slope else at]
        at = 0
    return tuple(kept)


def pruned_in_stages(
    candidates: Sequence[Candidate],
    slopes: tuple[float, float],
    delays_ms: Mapping[str, Sequence[float]],
    threshold_ms: float,
) -> dict[str, list[str]]:
    """Names of the candidates that are left after each pruning of the paper's section 3.4, one after the other;
    `slopes` are the limits of `transition_prune`, `delays_ms` those of each at every level of contention."""
    pareto = pareto_prune(candidates)
    transition = transition_prune(pareto, least_slope=slopes[0], greatest_slope=slopes[1])
    final = contention_prune(transition, delays_ms, threshold_ms)
    stages = {'all': candidates, 'Pareto': pareto, 'transition': transition, 'contention': final}
    return {stage: [candidate.name for candidate in kept] for stage, kept in stages.items()}
