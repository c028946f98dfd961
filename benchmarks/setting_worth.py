"""What each setting of `street` is worth: the AP that is lost at equal time when no path may have it.

    python benchmarks/setting_worth.py [--model street] [--least 0.3]

Nothing runs: the table of qualities beside the weights and the shipped profiles give AP and time of every path. What is
expected of some paths is the mean AP of the best of them that fits, over budgets of 0.25 to 1.5 times the longest look,
evenly on a log scale, each divided by the median bound over time of a condition of the replay matrix
(results/replay.json); nothing that fits counts as 0. Four times: on one thread and two, `street` alone, by the table's
AP, and with the first look that its passes declare, by classes and sizes of objects alike as the decision begins.

Then settings are removed, one after another, always the one that costs least, until each that could go would cost more
than `--least` in one of the four. Where costs are equal to a hundredth, the larger setting goes, so that short paths
stay. The whole network stays, and so do two settings of every operator, of skips of one of them. Writes
results/setting_worth.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from parts.harness import ROOT, Run, option, run_script, show
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
EQUAL_DIGITS = 2  # of AP in percent

Choice = tuple[int, int]  # place of an operator, index of its setting


@dataclass(frozen=True, eq=False)
class World:
    """What can be answered in one case.

    Attributes:
        name: of the case.
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


class Worth:
    """Worlds, and the settings that paths may have in them.

    Args:
        space: paths of `street`.
        worlds: all cases.
    """

    def __init__(self, space: PathSpace, worlds: list[World]) -> None:
        self.space, self.worlds = space, worlds
        self._settings = np.array([path.settings for path in space])

    def expected(self, removed: set[Choice] = frozenset()) -> np.ndarray:
        """AP in percent of each world without some settings: float64 `[worlds]`."""
        is_kept = self.paths(removed)
        return np.array([world.expected(is_kept) for world in self.worlds])

    def paths(self, removed: set[Choice]) -> np.ndarray:
        """Which paths have none of some settings."""
        is_kept = np.ones(len(self._settings), bool)
        for place, index in removed:
            is_kept &= self._settings[:, place] != index
        return is_kept

    def left(self, place: int, removed: set[Choice]) -> list[int]:
        """Settings that an operator still has."""
        return [at for at in range(self.space.sizes[place]) if (place, at) not in removed]

    def removable(self, removed: set[Choice]) -> Iterator[Choice]:
        """Settings that may go: none of the whole network, and of every kind of operators one can still be set."""
        operators = self.space.operators
        free = [at for at in range(len(operators)) if len(self.left(at, removed)) > 1]
        for place in free:
            settings, kind = self.left(place, removed), operators[place].kind
            is_last = sum(operators[at].kind == kind for at in free) == 1
            if len(settings) > 2 or not is_last:
                yield from ((place, at) for at in settings[:-1])

    def words(self, choice: Choice) -> tuple[str, str]:
        """Operator and setting."""
        operator = self.space.operators[choice[0]]
        return operator.name, setting_text(operator.settings[choice[1]])


def main(run: Run) -> None:
    network, weights = load_network(run.args.model, 'cpu', engine='eager')
    passes = with_passes(network, weights, lambda model: load_network(model, 'cpu', engine='eager'))
    if passes is None:
        raise ValueError(f'{weights} declares no passes, expected a first look')
    space = network.path_space
    worth = Worth(space, [one for threads in THREADS for one in worlds(passes[0], threads)])
    names = [world.name for world in worth.worlds]
    whole = worth.expected()
    alone = losses(worth, set())
    print(f'{len(space)} paths; AP of all: ' + ', '.join(map('{}: {:.2f}'.format, names, whole)))
    tell('lost at equal time without one setting, AP', worth, names, alone)
    removed, steps, kept = remove(worth, run.args.least)
    tell('lost where it is removed after those before it', worth, names, steps)
    rest = losses(worth, removed)
    tell('lost without one setting of what is left', worth, names, rest)
    is_kept = worth.paths(removed)
    print(f'{is_kept.sum()} paths are left; they lose ' + ', '.join(f'{one:.2f}' for one in kept))
    run.write(
        weights_hash=network.weights_hash,
        cases=names,
        ap=rounded(whole),
        paths=len(space),
        worth=rows(worth, alone),
        removed=rows(worth, steps),
        paths_left=int(is_kept.sum()),
        lost=rounded(kept),
        worth_of_what_is_left=rows(worth, rest),
    )


def remove(worth: Worth, least: float) -> tuple[set[Choice], dict[Choice, np.ndarray], np.ndarray]:
    """The settings to do without, what each costs after those before it, and what all cost together."""
    removed: set[Choice] = set()
    steps: dict[Choice, np.ndarray] = {}
    whole = now = worth.expected()
    while True:
        costs = {one: now - worth.expected(removed | {one}) for one in worth.removable(removed)}
        if not costs:
            break
        cheapest = min(costs, key=lambda one: (round(costs[one].max(), EQUAL_DIGITS), -one[1]))
        if costs[cheapest].max() > least:
            break
        steps[cheapest] = costs[cheapest]
        removed.add(cheapest)
        now = worth.expected(removed)
    return removed, steps, whole - now


def losses(worth: Worth, removed: set[Choice]) -> dict[Choice, np.ndarray]:
    """What each setting costs that an operator has beside others."""
    now = worth.expected(removed)
    return {
        (place, at): now - worth.expected(removed | {(place, at)})
        for place in range(len(worth.space.operators))
        for settings in [worth.left(place, removed)]
        for at in settings
        if len(settings) > 1
    }


def worlds(passes: PassesNetwork, threads: int) -> list[World]:
    """The two cases of a number of threads."""
    fine, coarse = passes.fine, passes.coarse
    looks = look_quality(fine), look_quality(coarse)
    quality, paths = PassQuality(passes, *looks), list(fine.path_space)
    times_ms = forecast(fine, threads).table(paths)
    first_ms = [forecast(coarse, threads).forecast_ms(one) for one in passes.coarse_paths.values()]
    left_ms = times_left_ms(float(times_ms.max()))
    numbers, words = np.arange(len(paths)), f'{threads} thread' + 's' * (threads > 1)
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


def tell(title: str, worth: Worth, names: list[str], found: dict[Choice, np.ndarray]) -> None:
    """Prints a table."""
    show(
        title,
        ('operator', 'setting', *names),
        [(*worth.words(choice), *costs.tolist()) for choice, costs in found.items()],
        words=2,
    )


def rows(worth: Worth, found: dict[Choice, np.ndarray]) -> list[list]:
    """The same for the file: operator, setting, and a loss for each case."""
    return [[*worth.words(choice), *rounded(costs)] for choice, costs in found.items()]


def rounded(values: np.ndarray) -> list[float]:
    """With three decimals; no negative zero."""
    return [round(float(value), 3) + 0.0 for value in values]


if __name__ == '__main__':
    run_script(
        main,
        {
            '--model': option('street', 'shipped network with passes'),
            '--least': option(0.3, 'AP in percent that a setting has to be worth', above=0.0),
        },
    )
