"""What each setting of `street` is worth: the AP that is lost at equal time when no path may have it.

    python benchmarks/setting_worth.py

Nothing runs: the tables of qualities beside the weights and the shipped profiles give AP and time of every path, after the
first look that the passes declare and without it, by classes and sizes of objects alike as the decision begins. What is
expected of some paths is the mean AP of the best of them that fits, over budgets of 0.25 to 1.5 times the longest look,
evenly on a log scale, each divided by the median bound over time of a condition of the replay matrix
(results/replay.json); nothing that fits counts as 0. On one thread and on two. Writes results/setting_worth.json.
"""

from __future__ import annotations

import json
from functools import partial

import numpy as np
from parts.harness import ROOT, Run, run_script, show
from parts.replay_contenders import look_quality
from parts.replay_frames import LEAST_BUDGET, MOST_BUDGET

from deadline_perception.core.execution_path import setting_text
from deadline_perception.decision.pass_quality import PassQuality
from deadline_perception.networks.model_reference import load_network
from deadline_perception.networks.passes import FINE, NONE, PassesNetwork
from deadline_perception.runtime.look_twice import with_passes
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile

REPLAY = ROOT / 'benchmarks' / 'results' / 'replay.json'
PROFILES = ROOT / 'models' / 'profiles'
THREADS = (1, 2)
BUDGETS = 120


def main(run: Run) -> None:
    load = partial(load_network, device='cpu', engine='eager')
    network, weights = load('street')
    passes, _ = with_passes(network, weights, load)
    space = network.path_space
    singles = [passes.single(path) for path in space]
    answers = list(singles)
    for label in passes.coarse_paths:
        after = [path.replace(coarse=label) for path in singles]
        answers += [*after, after[0].replace(**{FINE: NONE})]
    looks = look_quality(passes.fine), look_quality(passes.coarse)
    ap = 100.0 * PassQuality(passes, *looks).table(answers)
    fine = [passes.parts(answer)[1] for answer in answers]
    times_ms = [answer_times_ms(passes, answers, threads) for threads in THREADS]

    def expected(is_kept: np.ndarray) -> np.ndarray:
        """On each number of threads, of some of the answers."""
        return np.array(
            [best_ap(one[is_kept], ap[is_kept], one[: len(singles)].max()) for one in times_ms]
        )

    whole = expected(np.ones(len(answers), bool))
    worth = []
    for operator in space.operators:
        for setting in operator.settings if len(operator.settings) > 1 else ():
            has_other = [path is None or path[operator.name] != setting for path in fine]
            lost = whole - expected(np.array(has_other))
            worth.append([operator.name, setting_text(setting), *rounded(lost)])
    cases = [f'threads: {threads}' for threads in THREADS]
    print(f'{len(space)} paths; AP of all: {rounded(whole)}')
    title = 'AP lost at equal time without one setting'
    show(title, ('operator', 'setting', *cases), worth, words=2)
    run.write(
        weights_hash=network.weights_hash,
        cases=cases,
        ap=rounded(whole),
        paths=len(space),
        worth=worth,
    )


def answer_times_ms(passes: PassesNetwork, answers: list, threads: int) -> np.ndarray:
    """Of both looks together, by the shipped profiles."""
    looks = passes.coarse, passes.fine
    profiles = [f'{look.config_name}-reference-t{threads}.json' for look in looks]
    forecasts = [
        PathForecast(LatencyProfile.load(PROFILES / profile), look.path_space)
        for profile, look in zip(profiles, looks)
    ]
    return np.array(
        [
            sum(
                forecast.forecast_ms(path)
                for forecast, path in zip(forecasts, passes.parts(answer))
                if path is not None
            )
            for answer in answers
        ]
    )


def best_ap(times_ms: np.ndarray, ap: np.ndarray, longest_ms: float) -> float:
    """AP of the best answer that fits, in the mean over budgets and conditions."""
    conditions = json.loads(REPLAY.read_text(encoding='utf-8'))['conditions'].values()
    budgets_ms = longest_ms * np.geomspace(LEAST_BUDGET, MOST_BUDGET, BUDGETS)
    left_ms = np.concatenate([budgets_ms / row['ours']['bound_over_time'] for row in conditions])
    order = np.argsort(times_ms, kind='stable')
    best = np.concatenate([[0.0], np.maximum.accumulate(ap[order])])
    return float(best[np.searchsorted(times_ms[order], left_ms, 'right')].mean())


def rounded(values: np.ndarray) -> list[float]:
    """With three decimals; no negative zero."""
    return [round(float(value), 3) + 0.0 for value in values]


if __name__ == '__main__':
    run_script(main)
