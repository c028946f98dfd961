"""What model_selection.py replays on recorded delays, and what comes of it."""

from __future__ import annotations

import itertools
import json
import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from selection_methods import Method, Terms

from deadline_perception.core.stopwatch import now_ms

BLOCK_FRAMES = (20, 120)  # a contention level lasts so many frames
ROUNDS_A_VISIT = 4  # recorded behind each other, before the next level
RESAMPLED = 1000


@dataclass(frozen=True)
class Recording:
    """Delays of all models at all contention levels.

    Attributes:
        models: names, ascending in idle delay.
        qualities: AP of each, 0 to 100.
        levels: copies of each contender, the first with none.
        delays_ms: `[levels, rounds, models]`; those of one round lie beside each other in time.
        facts: machine, date, engine.
    """

    models: tuple[str, ...]
    qualities: tuple[float, ...]
    levels: tuple[dict[str, int], ...]
    delays_ms: np.ndarray
    facts: dict[str, str]

    @classmethod
    def load(cls, file: Path) -> Recording:
        """Reads what `save` wrote."""
        content = json.loads(file.read_text())
        return cls(
            tuple(content['models']),
            tuple(content['qualities']),
            tuple(content['levels']),
            np.array(content['delays_ms']),
            content['facts'],
        )

    def only(self, models: Sequence[str]) -> Recording:
        """The same of some models."""
        places = [self.models.index(model) for model in models]
        return Recording(
            tuple(models),
            tuple(self.qualities[at] for at in places),
            self.levels,
            self.delays_ms[:, :, places],
            self.facts,
        )

    @property
    def idle_ms(self) -> dict[str, float]:
        """Median delay without contenders."""
        medians_ms = np.median(self.delays_ms[0], axis=0)
        return dict(zip(self.models, medians_ms.tolist()))

    def by_level(self, quantile: float) -> dict[str, list[float]]:
        """Quantile of each model's delays at each level, ms."""
        return {
            model: np.quantile(self.delays_ms[:, :, at], quantile, axis=1).tolist()
            for at, model in enumerate(self.models)
        }


def halves(rounds: int, seed: int) -> tuple[list[int], list[int]]:
    """Rounds to learn from, and rounds that happen: half of the visits to a level each, at least two, drawn at random.

    Delays of one visit resemble each other, so no visit is in both. Each odd seed exchanges the halves of the even one
    before it, so that as much is said about either.
    """
    visits = [
        range(begin, min(begin + ROUNDS_A_VISIT, rounds))
        for begin in range(0, rounds, ROUNDS_A_VISIT)
    ]
    random.Random(seed // 2).shuffle(visits)
    first, second = (
        sorted(place for visit in half for place in visit)
        for half in (visits[: len(visits) // 2], visits[len(visits) // 2 :])
    )
    return (second, first) if seed % 2 else (first, second)


def drawn_places(
    recording: Recording, frames: int, seed: int, *, rounds: Sequence[int], without: str = ''
) -> tuple[np.ndarray, np.ndarray]:
    """Level and round of each frame, int `[frames]` each: levels change at random, and consecutive frames of one are
    consecutive rounds of those that may be used; one contender may take no part."""
    rng = random.Random(seed)
    allowed = [at for at, level in enumerate(recording.levels) if not level.get(without, 0)]
    places: list[tuple[int, int]] = []
    while len(places) < frames:
        level = rng.choice(allowed)
        begin = rng.randrange(len(rounds))
        for step in range(rng.randint(*BLOCK_FRAMES)):
            places.append((level, rounds[(begin + step) % len(rounds)]))
    levels, at = np.array(places[:frames]).T
    return levels, at


@dataclass(frozen=True)
class Outcome:
    """What a method came to on a trace.

    Attributes:
        ap: mean AP of the models that ran, 0 to 100 (as the paper averages accuracy; of a mixture of models the AP
            differs).
        violations: share of frames longer than allowed, percent.
        unavoidable: share of frames in which not even the fastest model was in time, percent.
        bound_misses: share of frames beyond prediction or bound, percent; NaN without one.
        ap_in_time: the same mean, with 0 for frames longer than allowed.
        decision_us: mean time of predicting, choosing and learning.
        most_late: longest run of frames in a row that were longer than allowed.
    """

    ap: float
    violations: float
    unavoidable: float
    bound_misses: float
    ap_in_time: float
    decision_us: float
    most_late: int


def replay(method: Method, names: Sequence[str], trace: np.ndarray, terms: Terms) -> Outcome:
    """Runs a method over a trace `[frames, models]`, ms."""
    places = {name: at for at, name in enumerate(names)}
    chosen = []
    spent_ms = 0.0
    for row in trace:
        begun_ms = now_ms()
        model = method.choose()
        chosen_ms = now_ms()
        chosen.append(places[model])
        delay_ms = float(row[chosen[-1]])
        learns_ms = now_ms()
        method.observe(model, delay_ms)
        spent_ms += chosen_ms - begun_ms
        spent_ms += now_ms() - learns_ms
    late = trace[np.arange(len(trace)), chosen] >= terms.threshold_ms
    qualities = np.array([terms.qualities[name] for name in names])[chosen]
    stretches = itertools.groupby(late.tolist())
    runs = [len(list(run)) for is_late, run in stretches if is_late]
    return Outcome(
        ap=float(qualities.mean()),
        violations=100.0 * float(late.mean()),
        unavoidable=100.0 * float((trace.min(1) >= terms.threshold_ms).mean()),
        bound_misses=100.0 * getattr(method, 'misses', math.nan) / len(trace),
        ap_in_time=float((qualities * ~late).mean()),
        decision_us=1000.0 * spent_ms / len(trace),
        most_late=max(runs, default=0),
    )


def mean_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """The mean over seeds; of the longest run of late frames, the longest."""
    fields = {
        name: statistics.fmean(getattr(outcome, name) for outcome in outcomes)
        for name in asdict(outcomes[0])
    }
    return Outcome(**{**fields, 'most_late': max(outcome.most_late for outcome in outcomes)})


def cases(
    recording: Recording, *, threshold_ms: float, seeds: int, frames: int
) -> Iterator[tuple[Terms, np.ndarray]]:
    """What may be known, and delays `[frames, models]` in ms, of each seed; in each, one contender is unknown to what
    is learnt beforehand.

    Half of the rounds are learnt from, the other half is what happens: `halves`.
    """
    contenders = sorted(
        {kind for level in recording.levels for kind, count in level.items() if count}
    )
    rounds = recording.delays_ms.shape[1]
    late_at_level = (recording.delays_ms >= threshold_ms).mean(1)
    for seed in range(seeds):
        without = contenders[seed % len(contenders)] if contenders else ''
        learns, happens = halves(rounds, seed)
        learnt = recording.delays_ms[
            drawn_places(recording, frames, 1000 + seed, rounds=learns, without=without)
        ]
        levels, at = drawn_places(recording, frames, seed, rounds=happens)
        trace = recording.delays_ms[levels, at]
        yield (
            Terms(
                dict(zip(recording.models, recording.qualities)),
                recording.idle_ms,
                threshold_ms,
                dict(zip(recording.models, learnt.T)),
                seed,
                late=trace >= threshold_ms,
                late_at_level=late_at_level[levels],
            ),
            trace,
        )


def compare(
    recording: Recording,
    methods: Mapping[str, Callable[[Terms], Method]],
    *,
    threshold_ms: float,
    seeds: int,
    frames: int,
) -> dict[str, list[Outcome]]:
    """All methods on the same traces, one outcome per seed; see `cases`."""
    outcomes = {name: [] for name in methods}
    for terms, trace in cases(recording, threshold_ms=threshold_ms, seeds=seeds, frames=frames):
        for name, make in methods.items():
            outcomes[name].append(replay(make(terms), recording.models, trace, terms))
    return outcomes


def violations_at(aps: np.ndarray, violations: np.ndarray, ap: float) -> float:
    """Violations of a curve at an AP, percent: of the mixture of two settings that has this AP and is late the least
    often.

    Below the lowest AP of the curve, its violations are those of the setting that is late the least often; above the
    highest NaN.
    """
    low = aps[:, None]
    high = aps[None, :]
    with np.errstate(divide='ignore', invalid='ignore'):
        mixed = violations[:, None] + (ap - low) / (high - low) * (
            violations[None, :] - violations[:, None]
        )
    between = mixed[(low < ap) & (ap < high)]
    found = np.concatenate([violations[aps >= ap], between])
    return float(found.min()) if len(found) else math.nan


def violations_ratio(
    curve: Sequence[Sequence[Outcome]], others: Sequence[Outcome]
) -> tuple[float, float, float]:
    """Violations of one method over those of another one at the other one's AP, and a 95 % interval.

    The interval is of seeds drawn anew with replacement, the same for both methods (percentile bootstrap); the mixture
    of settings is chosen anew each time. Seeds differ in the rounds that happen, in the order of levels and in the
    contender that is not learnt from; that the recording is one of many is in it by the rounds alone.

    Args:
        curve: outcomes of each setting of the one, one per seed.
        others: outcomes of the other one, one per seed.

    Returns:
        Ratio, and lower and upper limit; NaN where no setting reaches the AP.
    """
    aps, violations = (
        np.array(
            [[getattr(outcome, name) for outcome in outcomes] for outcomes in (*curve, others)]
        )
        for name in ('ap', 'violations')
    )  # [settings and the other one, seeds]

    def ratio(seeds: np.ndarray) -> float:
        ap = aps[:, seeds].mean(1)
        late = violations[:, seeds].mean(1)
        if late[-1] <= 0.0:
            return math.nan
        own = violations_at(ap[:-1], late[:-1], ap[-1])
        return own / float(late[-1])

    rng = np.random.default_rng(0)
    count = len(others)
    drawn = np.array([ratio(rng.integers(0, count, count)) for _ in range(RESAMPLED)])
    known = drawn[np.isfinite(drawn)]
    low = high = math.nan
    if len(known):
        low, high = np.quantile(known, (0.025, 0.975)).tolist()
    return ratio(np.arange(count)), low, high
