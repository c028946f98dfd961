"""What each setting of `street` is worth: the AP that is lost at equal time when no path may have it.

    python benchmarks/setting_worth.py

Nothing runs: the table of qualities beside the weights and the shipped profiles give AP and time of every path. What is
expected of some paths is the mean AP of the best of them that fits, over budgets of 0.25 to 1.5 times the longest look,
evenly on a log scale, each divided by the median bound over time of a condition of the replay matrix
(results/replay.json); nothing that fits counts as 0. Four times: on one thread and two, `street` alone, by the table's
AP, and with the first look that its passes declare, by classes and sizes of objects alike as the decision begins.

Writes results/setting_worth.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from parts.harness import ROOT, Run, run_script, show
from parts.replay_contenders import look_quality
from parts.replay_frames import LEAST_BUDGET, MOST_BUDGET

from deadline_perception.core.execution_path import PathSpace, setting_text
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


@dataclass(frozen=True, eq=False)
class World:
    """What can be answered in one case.

    Attributes:
        times_ms, ap: of each answer, AP in percent.
        path: number of the path of `street` in it, -1 without one.
        left_ms: times that a frame may have.
    """

    name: str
    times_ms: np.ndarray
    ap: np.ndarray
    path: np.ndarray
    left_ms: np.ndarray

    def expected(self, is_kept: np.ndarray) -> float:
        """AP of the best answer that fits, in the mean over times; `is_kept` by number of the path."""
        known = np.flatnonzero((self.path < 0) | is_kept[self.path])
        order = known[np.argsort(self.times_ms[known], kind='stable')]
        best = np.concatenate([[0.0], np.maximum.accumulate(self.ap[order])])
        return float(best[np.searchsorted(self.times_ms[order], self.left_ms, 'right')].mean())


def main(run: Run) -> None:
    network, weights = load_network('street', 'cpu', engine='eager')
    passes, _ = with_passes(
        network, weights, lambda model: load_network(model, 'cpu', engine='eager')
    )
    space = network.path_space
    cases = [one for threads in THREADS for one in worlds(passes, threads)]
    names = [world.name for world in cases]
    ap = expected(cases, np.ones(len(space), bool))
    found = losses(space, cases, ap)
    print(f'{len(space)} paths; AP of all: ' + ', '.join(map('{}: {:.2f}'.format, names, ap)))
    rows = [(*setting, *costs.tolist()) for setting, costs in found.items()]
    show(
        'AP lost at equal time without one setting', ('operator', 'setting', *names), rows, words=2
    )
    run.write(
        weights_hash=network.weights_hash,
        cases=names,
        ap=rounded(ap),
        paths=len(space),
        worth=[[*setting, *rounded(costs)] for setting, costs in found.items()],
    )


def expected(cases: list[World], is_kept: np.ndarray) -> np.ndarray:
    """AP of each case with some of the paths."""
    return np.array([world.expected(is_kept) for world in cases])


def losses(space: PathSpace, cases: list[World], ap: np.ndarray) -> dict[tuple, np.ndarray]:
    """What each setting costs in each case that an operator has beside others, by operator and setting."""
    found = {}
    for operator in space.operators:
        for setting in operator.settings if len(operator.settings) > 1 else ():
            is_kept = np.array([path[operator.name] != setting for path in space])
            words = operator.name, setting_text(setting)
            found[words] = ap - expected(cases, is_kept)
    return found


def worlds(passes: PassesNetwork, threads: int) -> list[World]:
    """The two cases of a number of threads."""
    fine = passes.fine
    coarse = passes.coarse
    looks = look_quality(fine), look_quality(coarse)
    quality = PassQuality(passes, *looks)
    paths = list(fine.path_space)
    times_ms = forecast(fine, threads).table(paths)
    first_ms = [forecast(coarse, threads).forecast_ms(one) for one in passes.coarse_paths.values()]
    left_ms = times_left_ms(float(times_ms.max()))
    numbers = np.arange(len(paths))
    words = f'{threads} thread' + 's' * (threads > 1)
    singles = [passes.single(path) for path in paths]
    parts = [(singles, times_ms, numbers)]
    for label, ms in zip(passes.coarse_paths, first_ms):
        both = [path.replace(coarse=label) for path in singles]
        parts.append((both, times_ms + ms, numbers))
        parts.append(([both[0].replace(**{FINE: NONE})], np.array([ms]), np.array([-1])))
    return [
        World(words, times_ms, 100.0 * looks[0].overall.table(paths), numbers, left_ms),
        World(
            f'{words}, after a first look',
            np.concatenate([times for _, times, _ in parts]),
            100.0 * np.concatenate([quality.table(answers) for answers, _, _ in parts]),
            np.concatenate([path for _, _, path in parts]),
            left_ms,
        ),
    ]


def forecast(network, threads: int) -> PathForecast:
    """Of the shipped profile."""
    file = PROFILES / f'{network.config_name}-reference-t{threads}.json'
    return PathForecast(LatencyProfile.load(file), network.path_space)


def times_left_ms(longest_ms: float) -> np.ndarray:
    """What budgets leave for forecasts under each condition."""
    conditions = json.loads(REPLAY.read_text(encoding='utf-8'))['conditions'].values()
    budgets_ms = longest_ms * np.geomspace(LEAST_BUDGET, MOST_BUDGET, BUDGETS)
    return np.concatenate([budgets_ms / row['ours']['bound_over_time'] for row in conditions])


def rounded(values: np.ndarray) -> list[float]:
    """With three decimals; no negative zero."""
    return [round(float(value), 3) + 0.0 for value in values]


if __name__ == '__main__':
    run_script(main)
