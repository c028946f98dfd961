"""What deadlines.py says about its runs: figures, goals and the table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.records import GroundTruth
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.evaluation.resampled_precision import bootstrap_draws, resampled_ap
from deadline_perception.runtime.job import JobRecord, Outcome
from deadline_perception.timing.calibration import clopper_pearson_upper
from parts.harness import Run as BenchmarkRun
from parts.harness import show

NO_RECOURSE, ORACLE = 'frontier, no recourse', 'median clairvoyant'
WITH_BOUNDS = (
    'frontier',
    NO_RECOURSE,
    'expected_utility',
    'thresholds',
    'thresholds full width',
)
FIXED_BEST, STATIC_TABLE = 'fixed best', 'static p99 table'
CAUSAL = (
    *WITH_BOUNDS,
    'oblivious',
    'reactive_1',
    'reactive_n',
    STATIC_TABLE,
    FIXED_BEST,
    'fixed full',
    'fixed cheapest',
)
GOAL_MISSES, GOAL_LIMIT = 0.01, 0.015  # of feasible frames, and of the 95 % limit of their share
GOAL_SHARE_OF_ORACLE = 0.98
DRAWS = 300


@dataclass(frozen=True, eq=False)
class Run:
    """What one policy made of one frame: its own detections and how many times longer than its path's idle forecast the
    network took, both None when it was aborted."""

    record: JobRecord
    detections: Detections | None
    slowdown: float | None

    @property
    def in_time(self) -> bool:
        """Its own detections met the deadline."""
        return self.record.outcome is Outcome.DETECTED and self.record.deadline_met

    @property
    def is_feasible(self) -> bool:
        """By the policy's own bound: that of the cheapest path it could choose fitted."""
        return self.record.feasible


def delivered(runs: Sequence[Run], late_too: bool) -> list[Detections]:
    """The last output in time, or late too, at every frame; nothing before the first."""
    outputs, last = [], Detections.none()
    for run in runs:
        last = run.detections if run.in_time or late_too and run.detections is not None else last
        outputs.append(last)
    return outputs


def accuracy(
    outputs: list[Detections],
    ground_truths: Sequence[GroundTruth | None],
    class_names: tuple[str, ...],
) -> dict[str, object]:
    """AP of the annotated frames and its 95 % interval, for which the same frames are drawn for every policy."""
    kept = [index for index, ground_truth in enumerate(ground_truths) if ground_truth is not None]
    if not kept:
        return {'ap': None, 'ap50': None, 'ap_interval_95': [None, None]}
    chosen = [outputs[index] for index in kept]
    known = [ground_truths[index] for index in kept]
    found = average_precision(chosen, known, class_names)
    draws = resampled_ap(chosen, known, class_names, bootstrap_draws(len(kept), DRAWS))
    limits = [None, None]
    if not np.isnan(draws).all():
        limits = np.nanquantile(draws, (0.025, 0.975)).tolist()
    return {'ap': found.ap, 'ap50': found.ap50, 'ap_interval_95': limits}


def count_misses(missed: np.ndarray, chosen: np.ndarray) -> dict:
    """Misses among chosen frames, their ratio (None without frames), and its upper 95 % limit."""
    misses, frames = int(missed[chosen].sum()), int(chosen.sum())
    return {
        'frames': frames,
        'misses': misses,
        'ratio': misses / frames if frames else None,
        'upper_95': clopper_pearson_upper(misses, frames),
    }


def timing_figures(runs: Sequence[Run], feasible: np.ndarray) -> dict:
    """All that is said about the time that one policy took.

    Args:
        runs: one per frame.
        feasible: bool `[frames]`, by the frontier's bound.
    """
    missed = np.array([not run.in_time for run in runs])
    records = [run.record for run in runs]
    tightness = [
        run.record.plan.bound_ms / run.record.plan.forecast_ms / run.slowdown
        for run in runs
        if run.slowdown is not None
    ]
    own_ms = [run.record.total_ms for run in runs if run.detections is not None]
    return {
        'frames': len(runs),
        'feasible': count_misses(missed, feasible),
        'miss_ratio_all': float(missed.mean()),
        'infeasible_ratio': float(np.mean([not run.is_feasible for run in runs])),
        'aborted': len(records) - len(own_ms),
        'p99_latency_ms': float(np.quantile([record.total_ms for record in records], 0.99)),
        'p99_own_latency_ms': float(np.quantile(own_ms, 0.99)) if own_ms else None,
        'median_bound_over_latency': statistics.median(tightness) if tightness else None,
        'distinct_paths': len({record.path for record in records}),
    }


def judge(run: BenchmarkRun, load: str, result: dict) -> None:
    """The goals of one load."""
    feasible, policies = result['long_part']['frontier']['feasible'], result['policies']
    run.goal(f'{load}, long part: feasible frames missed', feasible['ratio'], most=GOAL_MISSES)
    run.goal(f'{load}, long part: 95 % limit of it', feasible['upper_95'], most=GOAL_LIMIT)
    ours = policies['frontier']['ap']
    for name, share in ((ORACLE, GOAL_SHARE_OF_ORACLE), (NO_RECOURSE, 1.0), (STATIC_TABLE, 1.0)):
        theirs = policies[name]['ap']
        over = ours / theirs if ours is not None and theirs else None
        run.goal(f'{load}: AP over that of {name}', over, least=share)


def show_load(load: str, result: dict) -> None:
    """Prints the table of one load."""
    long = result['long_part']
    replaced = long['frontier']['replaced']
    rows = {**result['policies'], **{f'{name}, long part': row for name, row in long.items()}}
    show(
        f'{load}: {result["frames"]} frames, a round takes {result["round_ms"]:.0f} ms; long part '
        f'{long["frontier"]["frames"]} frames, {replaced} replaced by newer ones',
        (
            'policy',
            'AP',
            '95 %',
            'feasible missed',
            '95 % upper',
            'all missed',
            'infeasible',
            'p99 ms',
            'bound / latency',
        ),
        [
            (
                name,
                percent(row.get('ap')),
                ' to '.join(percent(limit) for limit in row.get('ap_interval_95', ())),
                f'{row["feasible"]["misses"]} of {row["feasible"]["frames"]}',
                percent(row['feasible']['upper_95']),
                percent(row['miss_ratio_all']),
                percent(row['infeasible_ratio']),
                row['p99_latency_ms'],
                row['median_bound_over_latency'],
            )
            for name, row in rows.items()
        ],
    )


def percent(value: float | None) -> str:
    """For a person; a dash where it is not known."""
    return '-' if value is None or math.isnan(value) else f'{100 * value:.2f} %'
