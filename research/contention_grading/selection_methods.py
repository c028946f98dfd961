"""The methods that model_selection.py compares: each chooses a model for each frame."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from prediction import AdaptiveRegression, LaggedRegression

from deadline_perception.core.execution_path import (
    MODEL,
    ExecutionPath,
    Operator,
    PathSpace,
    Segment,
)
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.policy import Policy
from deadline_perception.timing.calibration import BoundCalibrator

sys.path.append(str(Path(__file__).resolve().parents[1] / 'policies'))
from baselines import Reactive
from expected_utility import ExpectedUtilityPolicy

ALPHA = 0.01  # target miss probability, as in config/detector.yaml
ETA = 0.05  # calibration step
# As runtime/loading.py begins without a profile of whole paths.
_WIDTH = math.log(8.0)
_FIRST = math.log(1.25)


class Method:
    """Chooses a model for each frame: `choose` gives its name."""

    def observe(self, model: str, delay_ms: float) -> None:
        """What the frame took; some learn nothing from it."""


@dataclass(frozen=True)
class Terms:
    """What a method may know.

    Attributes:
        qualities: AP of each model, 0 to 100.
        threshold_ms: longest delay allowed.
        traces_ms: delays to learn from, each model alone.
        late: for oracles alone: whether each model would be late, `[frames, models]`.
        late_at_level: for oracles alone: share of all rounds, at the level of each frame, in which each model is late,
            `[frames, models]`. Of the rounds that happen alone it would know what nobody can: what comes of few throws.
    """

    qualities: dict[str, float]
    idle_ms: dict[str, float]
    threshold_ms: float
    traces_ms: dict[str, np.ndarray]
    seed: int
    late: np.ndarray | None = None
    late_at_level: np.ndarray | None = None


class Fixed(Method):
    """Always one model."""

    def __init__(self, model: str) -> None:
        self._model = model

    def choose(self) -> str:
        return self._model


class Oracle(Method):
    """Knows what no method can, and takes the model with the greatest AP - cost * P(late): what is possible at all.

    Args:
        cost: AP that a late frame costs, 0 to 100.
        clairvoyant: knows how long each model would take on the next frame; else it knows the level of contention, and
            how the delays at that level are distributed.
    """

    def __init__(self, terms: Terms, cost: float, *, clairvoyant: bool) -> None:
        late = terms.late if clairvoyant else terms.late_at_level
        qualities = np.array(list(terms.qualities.values()))
        utilities = qualities - cost * late.astype(np.float64)
        names = list(terms.qualities)
        self._choices = iter([names[at] for at in utilities.argmax(1)])

    def choose(self) -> str:
        return next(self._choices)


class _Ladder:
    """Models as the paths of a network with one operator; forecast and quality as the policies ask for them."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.names = list(terms.idle_ms)
        self.space = PathSpace(
            (Operator('model', MODEL, tuple(range(len(self.names))), 'm'),),
            (Segment('all', 'all', 'model', ('model',)),),
        )

    def name(self, path: ExecutionPath) -> str:
        return self.names[path.settings[0]]

    def forecast_ms(self, path: ExecutionPath, segment: int = 0) -> float:
        return self._terms.idle_ms[self.name(path)]

    def from_each_ms(self, path: ExecutionPath) -> Sequence[float]:
        return [self.forecast_ms(path), 0.0]

    def quality(self, path: ExecutionPath) -> float:
        return self._terms.qualities[self.name(path)] / 100.0

    def table(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """Qualities."""
        return np.array([self.quality(path) for path in paths])


class PolicyMethod(Method):
    """A policy that learns from how frames went, made of the models as paths, their forecast and their quality."""

    def __init__(self, terms: Terms, make: Callable[[PathSpace, _Ladder, _Ladder], Policy]) -> None:
        self._ladder = _Ladder(terms)
        self._threshold_ms = terms.threshold_ms
        self._policy = make(self._ladder.space, self._ladder, self._ladder)
        if isinstance(self._policy, FrontierPolicy):
            self._policy.prepare()

    def choose(self) -> str:
        return self._ladder.name(self._policy.plan(self._threshold_ms, 1.0).path)

    def observe(self, model: str, delay_ms: float) -> None:
        self._policy.observe(delay_ms, self._threshold_ms)


def reactive(terms: Terms, *, to_the_lowest: bool) -> PolicyMethod:
    """The paper's 1-step or N-step reactive selection, by `policies/baselines.py`."""
    rungs = max(2, len(terms.idle_ms))
    return PolicyMethod(terms, partial(Reactive, to_the_lowest=to_the_lowest, rungs=rungs))


class Predicting(Method):
    """The best model whose predicted delay is in time, or, with a calibrator, whose bound is; else the one that is
    fastest on the idle machine, whatever is predicted.

    Attributes:
        misses: frames that took longer than what was predicted, or than the bound.
    """

    def __init__(
        self,
        predictor: AdaptiveRegression | LaggedRegression | WrongPredictor,
        terms: Terms,
        *,
        calibrated: bool,
    ) -> None:
        self._predictor = predictor
        self._terms = terms
        self._calibrator = BoundCalibrator(ALPHA, ETA, _WIDTH, _FIRST) if calibrated else None
        self._ranked = sorted(terms.qualities, key=lambda model: -terms.qualities[model])
        self._fastest = min(terms.idle_ms, key=terms.idle_ms.get)
        self._predicted_ms = 1.0
        self.misses = 0

    def choose(self) -> str:
        factor = 1.0 if self._calibrator is None else self._calibrator.factor
        for model in self._ranked:
            predicted_ms = self._predictor.predict_ms(model)
            if predicted_ms * factor < self._terms.threshold_ms:
                self._predicted_ms = predicted_ms
                return model
        self._predicted_ms = self._predictor.predict_ms(self._fastest)
        return self._fastest

    def observe(self, model: str, delay_ms: float) -> None:
        if self._calibrator is None:
            self.misses += delay_ms > self._predicted_ms
        else:
            self._calibrator.observe(self._predicted_ms, delay_ms)
            self.misses = self._calibrator.misses
        self._predictor.observe(model, delay_ms)


class Ours(Method):
    """The detector's own: a predicted slowdown times the calibration factor, and the best path whose bound fits."""

    def __init__(self, terms: Terms, alpha: float = ALPHA) -> None:
        self._ladder = _Ladder(terms)
        self._terms = terms
        self._policy = FrontierPolicy(self._ladder.space, self._ladder, self._ladder)
        self._policy.prepare()
        self._predictor = AdaptiveRegression(terms.idle_ms)
        self._calibrator = BoundCalibrator(alpha, ETA, _WIDTH, _FIRST)
        self._any = self._ladder.names[0]
        self._slowdown = 1.0
        self._surprise = 1.0

    def choose(self) -> str:
        self._slowdown = max(
            self._predictor.predict_ms(self._any) / self._terms.idle_ms[self._any], self._surprise
        )
        factor = self._slowdown * self._calibrator.factor
        return self._ladder.name(self._policy.plan(self._terms.threshold_ms, factor).path)

    def observe(self, model: str, delay_ms: float) -> None:
        ratio = delay_ms / self._terms.idle_ms[model]
        # As SlowdownEstimator: a frame beyond its bound counts at once.
        self._surprise = (
            ratio if ratio > self._slowdown * max(1.0, self._calibrator.factor) else 1.0
        )
        self._calibrator.observe(self._terms.idle_ms[model] * self._slowdown, delay_ms)
        self._predictor.observe(model, delay_ms)

    @property
    def misses(self) -> int:
        """Frames beyond their bound."""
        return self._calibrator.misses


def by_utility(terms: Terms, cost: float, late_worth: float = 1.0) -> PolicyMethod:
    """The policy expected_utility: a late frame costs some AP, 0 to 100, and has a share of its own: 1 as the paper
    counts, 0 as the detector does."""
    make = partial(ExpectedUtilityPolicy, miss_cost=cost / 100.0, late_worth=late_worth)
    return PolicyMethod(terms, make)


class WrongPredictor:
    """Deliberately wrong: random factors around a third of the idle delay, whatever happens."""

    def __init__(self, idle_ms: Mapping[str, float], seed: int) -> None:
        self._idle_ms = idle_ms
        self._rng = random.Random(seed)

    def observe(self, candidate: str, delay_ms: float) -> None:
        """Learns nothing."""

    def predict_ms(self, candidate: str) -> float:
        """See the class."""
        return self._idle_ms[candidate] * 0.33 * math.exp(self._rng.gauss(0.0, 0.5))


METHODS: dict[str, Callable[[Terms], Method]] = {
    '1-step reactive': partial(reactive, to_the_lowest=False),
    'N-step reactive': partial(reactive, to_the_lowest=True),
    "paper's regression": lambda terms: Predicting(
        LaggedRegression(terms.traces_ms), terms, calibrated=False
    ),
    'ours': Ours,
    'ours, most AP in time': partial(by_utility, cost=0.0, late_worth=0.0),
    'ours, a late frame costs 100 AP': partial(by_utility, cost=100.0),
    'ours, 5 % may miss': partial(Ours, alpha=0.05),
    'ours, 30 % may miss': partial(Ours, alpha=0.3),
    "paper's, bounded": lambda terms: Predicting(
        LaggedRegression(terms.traces_ms), terms, calibrated=True
    ),
    'wrong, bounded': lambda terms: Predicting(
        WrongPredictor(terms.idle_ms, terms.seed), terms, calibrated=True
    ),
    'knows the level': partial(Oracle, cost=100.0, clairvoyant=False),
    'clairvoyant': partial(Oracle, cost=100.0, clairvoyant=True),
}
ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
# Closest where the paper's method has its AP.
COSTS = (
    3.0,
    5.0,
    6.5,
    8.0,
    10.0,
    12.0,
    14.0,
    17.0,
    *np.arange(20.0, 26.0),
    27.0,
    30.0,
    40.0,
    60.0,
    100.0,
)
# What one setting trades for the other: violations against AP.
CURVES: dict[str, dict[float, Callable[[Terms], Method]]] = {
    'ours': {alpha: partial(Ours, alpha=alpha) for alpha in ALPHAS},
    'ours, by utility': {cost: partial(by_utility, cost=cost) for cost in COSTS},
    'knows the level': {cost: partial(Oracle, cost=cost, clairvoyant=False) for cost in COSTS},
    'clairvoyant': {cost: partial(Oracle, cost=cost, clairvoyant=True) for cost in COSTS},
}
OUR_CURVES = ('ours', 'ours, by utility')
PAPERS = "paper's regression"
OURS = 'ours'
BOUNDED = ('ours', "paper's, bounded", 'wrong, bounded')
