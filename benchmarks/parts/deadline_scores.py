"""What deadlines.py says about its runs: figures, goals with their verdicts, and the table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.records import GroundTruth
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.evaluation.resampled_precision import bootstrap_draws, resampled_ap
from deadline_perception.runtime.job import JobRecord, Outcome
from deadline_perception.timing.calibration import clopper_pearson_upper
from parts.deadline_plot import GOAL_MISSES, TRACED, long_part
from parts.streaming import known_at, published

NO_RECOURSE = 'frontier, no recourse'
OURS = ('frontier', NO_RECOURSE, 'expected_utility')
WITH_BOUNDS = (*OURS, 'thresholds', 'thresholds full width')
SAID_TO_FAIL = ('oblivious', 'reactive_1', 'reactive_n')  # beside other programs, by both papers
FIXED_BEST, STATIC_TABLE = 'fixed best', 'static p99 table'
CAUSAL = (*WITH_BOUNDS, *SAID_TO_FAIL, STATIC_TABLE, FIXED_BEST, 'fixed full', 'fixed cheapest')
GOAL_LIMIT = 0.015  # of the 95 % limit of misses
GOAL_SHARE_OF_ORACLE = 0.98
LEAST_FRAMES = 50  # with fewer that could be met, nothing is said about the other policies
BUDGET_RANGES = 3
DRAWS = 300


@dataclass(frozen=True, eq=False)
class Run:
    """What one policy made of one frame: its own detections and how many times longer than its path's idle forecast the
    network took, both None when it was aborted; and what was published, those detections or what stood in for them."""

    record: JobRecord
    detections: Detections | None
    slowdown: float | None
    published: Detections | None = None

    @property
    def in_time(self) -> bool:
        """Its own detections met the deadline."""
        return self.record.outcome is Outcome.DETECTED and self.record.deadline_met

    @property
    def is_feasible(self) -> bool:
        """By the policy's own bound: that of the cheapest path it could choose fitted."""
        return self.record.feasible


def round_slowdowns(runs: dict[str, list[Run]]) -> np.ndarray:
    """Median slowdown of each round over the policies that ended it: float64 `[frames]`, NaN where none did."""
    rounds = zip(*(runs[name] for name in CAUSAL))
    found = [[run.slowdown for run in together if run.slowdown is not None] for together in rounds]
    return np.array(
        [statistics.median(slowdowns) if slowdowns else math.nan for slowdowns in found]
    )


def own_slowdowns(runs: Sequence[Run]) -> np.ndarray:
    """Slowdown of each frame of one policy, an aborted one's between those of its neighbours: float64 `[frames]`."""
    ended = [index for index, run in enumerate(runs) if run.slowdown is not None]
    if not ended:
        return np.full(len(runs), math.nan)
    return np.interp(np.arange(len(runs)), ended, [runs[index].slowdown for index in ended])


def could_be_met(runs: Sequence[Run], slowdowns: np.ndarray, cheapest_ms: float) -> np.ndarray:
    """Frames within whose budget, less the wait for the thread, the cheapest path fits, slowed down as it was found
    afterwards; bool `[frames]`. No policy's bound has a say in it."""
    budgets_ms, queue_ms = (
        np.array(times)
        for times in zip(*((run.record.conditions.budget_ms, run.record.queue_ms) for run in runs))
    )
    return queue_ms + cheapest_ms * slowdowns <= budgets_ms


def delivered(runs: Sequence[Run], late_too: bool) -> list[Detections]:
    """The last output in time, or late too, at every frame; nothing before the first."""
    outputs, last = [], Detections.none()
    for run in runs:
        last = run.detections if run.in_time or late_too and run.detections is not None else last
        outputs.append(last)
    return outputs


def streamed(runs: Sequence[Run], stamps_ms: Sequence[float]) -> list[Detections]:
    """At the time of every image, the newest publication so far of one policy; one run per image."""
    return known_at(
        published([(run.record.total_ms, run.published) for run in runs], stamps_ms), stamps_ms
    )


def best_executed(
    runs: dict[str, list[Run]], quality: Callable[[ExecutionPath], float]
) -> list[Detections]:
    """Of every round the output in time whose path has the highest quality; the last one where none was in time."""
    outputs, last = [], Detections.none()
    for together in zip(*runs.values()):
        in_time = [run for run in together if run.in_time]
        if in_time:
            last = max(in_time, key=lambda run: quality(run.record.path)).detections
        outputs.append(last)
    return outputs


def precision(
    outputs: list[Detections],
    ground_truths: Sequence[GroundTruth | None],
    chosen: np.ndarray,
    class_names: tuple[str, ...],
) -> dict[str, float | None]:
    """Average precision on the annotated ones of the chosen frames."""
    kept = [index for index in chosen.tolist() if ground_truths[index] is not None]
    found = average_precision(
        [outputs[index] for index in kept], [ground_truths[index] for index in kept], class_names
    )
    return {'ap': found.ap, 'ap50': found.ap50}


def resampled(
    outputs: list[Detections],
    ground_truths: Sequence[GroundTruth | None],
    class_names: tuple[str, ...],
) -> np.ndarray:
    """AP of the annotated frames drawn anew, with the same draws for every policy: float64 `[DRAWS]`. As if frames were
    independent; neighbours are not, so the true spread is wider."""
    kept = [index for index, ground_truth in enumerate(ground_truths) if ground_truth is not None]
    if not kept:
        return np.full(DRAWS, math.nan)
    return resampled_ap(
        [outputs[index] for index in kept],
        [ground_truths[index] for index in kept],
        class_names,
        bootstrap_draws(len(kept), DRAWS),
    )


def interval(draws: np.ndarray) -> list[float]:
    """The middle 95 % of what was drawn; NaN when nothing was."""
    return (
        [math.nan] * 2 if np.isnan(draws).all() else np.nanquantile(draws, (0.025, 0.975)).tolist()
    )


def count_misses(missed: np.ndarray, chosen: np.ndarray) -> dict:
    """Misses among chosen frames, their ratio (None without frames), and its 95 % limits, each one-sided."""
    misses, frames = int(missed[chosen].sum()), int(chosen.sum())
    return {
        'frames': frames,
        'misses': misses,
        'ratio': misses / frames if frames else None,
        'upper_95': clopper_pearson_upper(misses, frames),
        'lower_95': 1.0 - clopper_pearson_upper(frames - misses, frames),
    }


def timing_figures(runs: Sequence[Run], feasible: np.ndarray, possible: np.ndarray) -> dict:
    """All that is said about the time that one policy took.

    Args:
        runs: one per frame.
        feasible: bool `[frames]`, by the frontier's bound.
        possible: bool `[frames]`, that could be met.
    """
    missed = np.array([not run.in_time for run in runs])
    records = [run.record for run in runs]
    paths = [record.path for record in records]
    tightness = [
        run.record.plan.bound_ms / run.record.plan.forecast_ms / run.slowdown
        for run in runs
        if run.slowdown is not None
    ]
    decisions_us = [
        value
        for record in records
        for value in (record.decision_us, *(decision.decision_us for decision in record.decisions))
    ]
    own_ms = [run.record.total_ms for run in runs if run.detections is not None]
    return {
        'feasible': count_misses(missed, feasible),
        'possible': count_misses(missed, possible),
        'miss_ratio_all': float(missed.mean()),
        'infeasible_ratio': float(np.mean([not run.is_feasible for run in runs])),
        'aborted': len(records) - len(own_ms),
        'p99_latency_ms': float(np.quantile([record.total_ms for record in records], 0.99)),
        'p99_own_latency_ms': float(np.quantile(own_ms, 0.99)) if own_ms else None,
        'median_bound_over_latency': statistics.median(tightness) if tightness else None,
        'path_switches': sum(before != after for before, after in zip(paths, paths[1:])),
        'distinct_paths': len(set(paths)),
        'median_decision_us': statistics.median(decisions_us),
    }


def figures(
    name: str,
    runs: list[Run],
    outputs: list[Detections],
    ground_truths: Sequence[GroundTruth | None],
    class_names: tuple[str, ...],
    draws: np.ndarray,
    stamps_ms: Sequence[float] | None,
) -> dict:
    """What is said about the detections that one policy delivered under one load; without stamps nothing about sAP."""
    budgets_ms = np.array([run.record.conditions.budget_ms for run in runs])
    ranges = np.array_split(np.argsort(budgets_ms, kind='stable'), BUDGET_RANGES)
    return {
        **precision(outputs, ground_truths, np.arange(len(runs)), class_names),
        'ap_interval_95': [None if math.isnan(limit) else limit for limit in interval(draws)],
        'streaming_ap': None
        if stamps_ms is None
        else precision(streamed(runs, stamps_ms), ground_truths, np.arange(len(runs)), class_names)[
            'ap'
        ],
        'by_budget': [
            {
                'to_ms': float(budgets_ms[chosen].max()),
                **precision(outputs, ground_truths, chosen, class_names),
            }
            for chosen in ranges
            if len(chosen)
        ],
        **(
            {
                'trace': [
                    [round(run.record.conditions.budget_ms, 1), round(run.record.total_ms, 2)]
                    for run in runs
                ]
            }
            if name in TRACED
            else {}
        ),
    }


def verdict(is_observed: bool, is_certain: bool) -> str:
    """`met` where chance is excluded too, `not shown` where it is not, `MISSED` where not even the figure is
    reached."""
    return 'MISSED' if not is_observed else 'met' if is_certain else 'not shown'


def few_misses(what: str, found: dict) -> tuple[str, str]:
    """The goal of few misses in words, and its verdict; no frames at all have missed it."""
    words = (
        f'{what}: {found["misses"]} of {found["frames"]} missed, at most {found["upper_95"]:.2%} (95 %), '
        f'goal {GOAL_MISSES:.0%}, limit under {GOAL_LIMIT:.1%}'
    )
    return words, verdict(
        found['ratio'] is not None and found['ratio'] <= GOAL_MISSES, found['upper_95'] < GOAL_LIMIT
    )


def lead(
    own: dict,
    own_draws: np.ndarray,
    other_ap: float | None,
    other_draws: np.ndarray,
    share: float = 1.0,
) -> tuple[float, float, float]:
    """By how much an AP exceeds a share of another, and the interval of that; NaN where an AP is unknown."""
    known = own['ap'] is not None and other_ap is not None
    return (
        own['ap'] - share * other_ap if known else math.nan,
        *interval(own_draws - share * other_draws),
    )


def check_goals(
    found: dict[str, dict],
    draws: dict[str, np.ndarray],
    ideals: dict[str, tuple[float | None, np.ndarray]],
    long: dict,
    is_loaded: bool,
) -> dict[str, str]:
    """The goals of one load, each in words, and its verdict.

    Args:
        found: figures by policy.
        draws: resampled AP by policy.
        ideals: AP, and resampled AP, of what no policy can know.
        long: figures of the long part.
        is_loaded: beside co-runners.
    """
    own, own_draws = found['frontier'], draws['frontier']
    goals = dict(
        (
            few_misses('long part, feasible frames (the firm claim)', long['feasible']),
            few_misses('long part, frames that could be met', long['possible']),
            few_misses('interleaved, feasible frames', own['feasible']),
            few_misses('interleaved, frames that could be met', own['possible']),
        )
    )
    enough = own['possible']['frames'] >= LEAST_FRAMES
    for name, (ap, other) in ideals.items():
        by, low, high = lead(own, own_draws, ap, other, GOAL_SHARE_OF_ORACLE)
        goals[
            f"AP at least {GOAL_SHARE_OF_ORACLE:.0%} of the {name}'s: {100 * by:+.1f} points from it "
            f'({100 * low:+.1f} to {100 * high:+.1f})'
        ] = verdict(by >= 0.0, enough and low >= 0.0)
    by, low, high = lead(own, own_draws, found[NO_RECOURSE]['ap'], draws[NO_RECOURSE])
    words = f'AP above the same without recourse: {100 * by:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})'
    goals[words] = verdict(by > 0.0, enough and low > 0.0)
    rivals = [
        name
        for name in CAUSAL
        if name not in OURS
        and found[name]['possible']['ratio'] is not None
        and found[name]['possible']['ratio'] <= GOAL_MISSES
    ]
    for name in rivals:
        by, low, high = lead(own, own_draws, found[name]['ap'], draws[name])
        goals[
            f'AP above {name}, which misses as little: {100 * by:+.1f} points '
            f'({100 * low:+.1f} to {100 * high:+.1f})'
        ] = verdict(by > 0.0, enough and low > 0.0)
    if not rivals:
        goals['AP above all that miss as little: there is none'] = 'not shown'
    if is_loaded:
        for name in SAID_TO_FAIL:
            row = found[name]['possible']
            goals[
                f'{name} fails: {row["misses"]} of {row["frames"]} that could be met missed, at least '
                f'{row["lower_95"]:.2%} (95 %)'
            ] = verdict(
                row['ratio'] is not None and row['ratio'] > GOAL_MISSES,
                enough and row['lower_95'] > GOAL_MISSES,
            )
    return goals


def show(load: str, result: dict) -> None:
    """Prints the table and the goals of one load."""
    long = result['long_part']['frontier']
    table = Table(
        title=f'{load}: {result["frames"]} frames, median slowdown {result["median_slowdown"]:.2f}, a round '
        f'takes {result["round_ms"]:.0f} ms; long part {long["frames"]} frames of '
        f'{long["period_ms"]:.0f} ms, {long["replaced"]} replaced by newer ones; best executed AP '
        f'{percent(result["best_executed_ap"])}'
    )
    for title in (
        'policy',
        'AP',
        '95 %',
        'AP50',
        'sAP',
        'feasible missed',
        '95 % upper',
        'could be met missed',
        '95 % upper',
        'all missed',
        'infeasible',
        'p99 ms',
        'p99 own',
        'bound / latency',
        'switches',
        'decision us',
    ):
        table.add_column(
            title, justify='left' if title == 'policy' else 'right', no_wrap=title == 'policy'
        )
    for name, row in (
        *result['policies'].items(),
        *((long_part(name), row) for name, row in result['long_part'].items()),
    ):
        low, high = row.get('ap_interval_95', (None, None))
        table.add_row(
            name,
            percent(row.get('ap')),
            f'{percent(low)} to {percent(high)}',
            percent(row.get('ap50')),
            percent(row.get('streaming_ap')),
            *(
                text
                for part in (row['feasible'], row['possible'])
                for text in (f'{part["misses"]} of {part["frames"]}', percent(part['upper_95'], 2))
            ),
            percent(row['miss_ratio_all']),
            percent(row['infeasible_ratio']),
            f'{row["p99_latency_ms"]:.1f}',
            f'{row["p99_own_latency_ms"] or math.nan:.1f}',
            f'{row["median_bound_over_latency"] or math.nan:.2f}',
            str(row['path_switches']),
            f'{row["median_decision_us"]:.1f}',
        )
    Console(width=max(190, Console().width)).print(table)
    for goal, said in result['goals'].items():
        print(f'  goal {said}: {goal}')


def percent(value: float | None, digits: int = 1) -> str:
    """For a person; a dash where it is not known."""
    return '-' if value is None or math.isnan(value) else f'{100 * value:.{digits}f} %'
