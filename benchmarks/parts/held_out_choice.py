"""What path_accuracy.py does with halves of the images: paths are chosen on one half and judged on the other.

Whatever is chosen on the images that judge it looks better than it is. Images are halved in runs of neighbours, the
first time by taking runs in turn, then at random, and both halves choose once. A choice goes by the values as measured
or by those expected (decision/path_quality.py), whose errors come from drawing the runs of the choosing half anew.
"""
from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.decision.frontier import pareto_frontiers
from deadline_perception.decision.path_quality import PathQuality, chance_errors
from deadline_perception.evaluation.resampled_precision import RUN_OF_IMAGES, bootstrap_draws

USEFUL_POINTS = 0.2  # a point of the frontier is useful when it gains so much AP over the useful one before it
SPLITS = 10
HALF_DRAWS = 30  # standard errors of so many are known to 13 %
BUDGETS = 40
MEASURED, EXPECTED = 'measured', 'expected'  # what a choice goes by


def half_draws(images: int) -> np.ndarray:
    """How often each image counts: int64 `[SPLITS, 2, 1 + HALF_DRAWS, images]`; first a half itself, then draws of it.

    Args:
        images: number of images, at least 2, neighbours beside each other.
    """
    run = max(1, min(RUN_OF_IMAGES, images // 4))
    in_turn = np.arange(-(-images // run)) % 2
    counts = np.zeros((SPLITS, 2, 1 + HALF_DRAWS, images), np.int64)
    for split in range(SPLITS):
        second = np.random.default_rng(split).permutation(in_turn) if split else in_turn
        for half in (0, 1):
            members = np.flatnonzero(second[np.arange(images) // run] == half)
            counts[split, half, 0, members] = 1
            counts[split, half, 1:, members] = bootstrap_draws(len(members), HALF_DRAWS, seed=2 * split + half).T
    return counts


def expected_points(known: dict[ExecutionPath, float], resampled: dict[ExecutionPath, np.ndarray]) -> PathQuality:
    """The table of qualities of measured ranking AP, points, with errors from the same on draws of images, `[draws]`
    each."""
    errors = chance_errors(list(known), np.array([resampled[path] for path in known]) / 100)
    return PathQuality({path: value / 100 for path, value in known.items()}, errors=dict(zip(known, errors.tolist())))


def frontier_of(times_ms: dict[ExecutionPath, float], pooled: dict[ExecutionPath, float]) -> list[ExecutionPath]:
    """Paths that no path beats in both time and AP, the cheapest first."""
    paths = list(pooled)
    members, _ = pareto_frontiers(np.zeros(len(paths), int), np.array([times_ms[path] for path in paths]),
                                  np.array([pooled[path] for path in paths]))
    return [paths[at] for at in members]


def useful(frontier: list[ExecutionPath], pooled: dict[ExecutionPath, float]) -> list[ExecutionPath]:
    """Points of the frontier that gain at least `USEFUL_POINTS` over the useful one before."""
    kept: list[ExecutionPath] = []
    for path in frontier:
        if not kept or pooled[path] >= pooled[kept[-1]] + USEFUL_POINTS:
            kept.append(path)
    return kept


def held_out(times_ms: dict[ExecutionPath, float], halves: dict[ExecutionPath, np.ndarray],
             known: Sequence[ExecutionPath], full: ExecutionPath) -> list[dict]:
    """Every choice on a half of the images, and how it does on the other half.

    Args:
        times_ms: time by path.
        halves: ranking AP in points by path, `[splits, 2, 1 + draws]` as `half_draws` draws it.
        known: the paths that count as measured; the others are chosen by their prediction.
        full: the path that does all work, one of them.

    Returns:
        For each split, half and kind of value: size of the frontier, its useful points on either half, AP on the other
        half of the best path within each of `BUDGETS` times, mean, and by how much it had looked better (optimism);
        and what that one of the other paths that looked best has over the full path on the other half.
    """
    paths = list(times_ms)
    taken_ms = np.array([times_ms[path] for path in paths])
    fits = taken_ms <= np.geomspace(taken_ms.min(), taken_ms.max(), BUDGETS)[:, None] * (1 + 1e-9)
    at_full, rows = paths.index(full), []
    for split, chosen_on in np.ndindex(*next(iter(halves.values())).shape[:2]):
        values = {path: np.nan_to_num(half[split, chosen_on, 0]) for path, half in halves.items()}
        judged = {path: np.nan_to_num(half[split, 1 - chosen_on, 0]) for path, half in halves.items()}
        quality = expected_points({path: values[path] for path in known},
                                  {path: halves[path][split, chosen_on, 1:] for path in known})
        for by, table in ((MEASURED, PathQuality(quality.known)), (EXPECTED, quality)):
            looks, does = 100 * table.table(paths), np.array([judged[path] for path in paths])
            best = np.where(fits, looks, -1.0).argmax(1)
            other = int(np.where(np.arange(len(paths)) == at_full, -1.0, looks).argmax())
            by_path = dict(zip(paths, looks))
            frontier = frontier_of(times_ms, by_path)
            rows.append({'split': split, 'chosen_on': chosen_on, 'by': by, 'points': len(frontier),
                         'useful_where_chosen': len(useful(frontier, by_path)),
                         'useful': [str(path) for path in useful(frontier, judged)],
                         'realised': float(does[best].mean()), 'optimism': float((looks - does)[best].mean()),
                         'best_other_over_full': float(does[other] - does[at_full])})
    return rows


def summary(rows: list[dict]) -> dict:
    """Means over all splits and halves for each kind of value, and what choosing by expected values gains, by split."""
    def of(by: str, key: str) -> list[float]:
        return [row[key] for row in rows if row['by'] == by]

    both = {by: {key: statistics.fmean(of(by, key)) for key in ('realised', 'optimism', 'best_other_over_full')}
            for by in (MEASURED, EXPECTED)}
    gains = np.subtract(of(EXPECTED, 'realised'), of(MEASURED, 'realised')).reshape(-1, 2).mean(1)
    return both | {'gain_points': float(gains.mean()), 'gain_points_of_splits': gains.tolist()}
