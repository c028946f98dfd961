"""What model_selection.py runs live: methods take turns on the real network beside real contenders, the whole detector
among them, which no replay of whole frames can show: it decides again while a frame runs."""

from __future__ import annotations

import math
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from contender_programs import Contenders
from prediction import AdaptiveRegression
from selection_methods import METHODS, OURS, PAPERS, OursByUtility, Terms
from selection_replay import Outcome, Recording, violations_ratio

from deadline_perception.core.share_folder import share_folder
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.external_models.model_set.model_set import ModelSet
from deadline_perception.runtime.job import Job, StampReading
from deadline_perception.runtime.loading import NetworkOptions, load_task
from deadline_perception.runtime.timed_inference import TimedInference
from deadline_perception.timing.profile import time_frame
from deadline_perception.timing.time_model import FrameTimes, limited_factor

sys.path.append(str(Path(__file__).resolve().parents[1] / 'policies'))
from expected_utility import ExpectedUtilityPolicy

LIVE_METHODS = (PAPERS, OURS)
LIVE_COSTS, DETECTOR_COSTS = (
    (26.0, 30.0, 35.0, 42.0),
    (30.0, 42.0, 60.0),
)  # AP that a late frame costs
LIVE_BLOCK, LEARN_SHARE = (
    30,
    0.15,
)  # frames of each method at a level; of the time, for the paper's method to learn
DETECTOR = 'ours, all paths, decided again at every operator'
BY_UTILITY, DETECTOR_BY_UTILITY = 'ours, by utility', 'ours, all paths, by utility'


class Runner:
    """Runs any model on images in turn; of individual ones the same path of the shipped network, whose layers are as
    large."""

    def __init__(
        self, models: ModelSet, individual: Mapping[str, str], images: Sequence[np.ndarray]
    ) -> None:
        self._shipped, self._individual = models.models['shipped'], dict(individual)
        self._images, self._number = images, 0

    def next_image(self) -> np.ndarray:
        """Images in turn."""
        self._number += 1
        return self._images[self._number % len(self._images)]

    def run(self, model: str) -> float:
        """Time of one frame, ms."""
        image = self.next_image()
        path = self._shipped.path_space.parse(self._individual.get(model, model))
        return time_frame(self._shipped, image, path)[0]


class LiveDetector:
    """The detector as the node runs it: all paths of the network, decided again at every operator.

    Args:
        weights: file of the network; its profile and qualities lie where the node looks for them.
        threshold_ms: longest delay allowed.
        costs: AP that a late frame costs, of one policy expected_utility each.

    Attributes:
        policies: by the name of the method.

    Raises:
        DeadlinePerceptionError: there is no profile of this device.
    """

    def __init__(self, weights: Path, threshold_ms: float, costs: Sequence[float]) -> None:
        task = load_task(NetworkOptions(str(weights)), share_folder() / 'models').task
        self._task, self._space, self._threshold_ms = task, task.network.path_space, threshold_ms
        self._quality = PathQuality.load(weights.with_suffix('.quality.json'), self._space)
        self._predictor = AdaptiveRegression({'idle': 1.0})
        forecast = task.times.forecast
        self.policies = {
            DETECTOR: task.policy,
            **{
                f'{DETECTOR_BY_UTILITY} {cost}': ExpectedUtilityPolicy(
                    self._space, forecast, self._quality, miss_cost=cost / 100.0, late_worth=1.0
                )
                for cost in costs
            },
        }
        for policy in self.policies.values():
            policy.prepare()
        self._inferences = {
            name: TimedInference(task.network, self._space, policy)
            for name, policy in self.policies.items()
        }

    def run(self, image: np.ndarray, name: str) -> tuple[float, float]:
        """Runs one frame under a policy; its AP, 0 to 100, and its time in ms."""
        forecast, calibrator = self._task.times.forecast, self._task.times.calibrator
        slowdown = max(1.0, self._predictor.predict_ms('idle'))
        begun_ms = now_ms()
        frame = Job(None, begun_ms, StampReading(0.0, '', 0))
        frame.times = FrameTimes(forecast, slowdown, limited_factor(slowdown, calibrator.factor))
        self._inferences[name].run(image, frame, due_ms=begun_ms + self._threshold_ms)
        took_ms = now_ms() - begun_ms
        if name == DETECTOR:  # the others decide by what they have seen themselves
            idle_ms = forecast.forecast_ms(frame.path)
            calibrator.observe(idle_ms * slowdown, took_ms)
            self._predictor.observe('idle', took_ms / idle_ms)
        return 100.0 * self._quality.quality(frame.path), took_ms


def recorded_in_turn(
    runner: Runner, recording: Recording, contenders: Contenders, seconds: float, rng: random.Random
) -> dict[str, np.ndarray]:
    """Delays of each model, ms, as one that runs frame after frame meets them: what the paper's method is to learn
    from."""
    found: dict[str, list[float]] = {model: [] for model in recording.models}
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        contenders.set(rng.choice(recording.levels))
        for model in rng.sample(recording.models, len(recording.models)):
            found[model] += [runner.run(model) for _ in range(LIVE_BLOCK)]
    return {model: np.array(delays) for model, delays in found.items()}


def live(
    runner: Runner,
    recording: Recording,
    most: Mapping[str, int],
    threshold_ms: float,
    seconds: float,
    detector: LiveDetector | None,
) -> dict[str, dict]:
    """Methods take turns on the real network beside contenders, each for a block of frames that follow each other; then
    the contenders change for all.

    Args:
        runner: runs the models.
        recording: of the models to choose from; its levels are drawn from.
        most: copies of each contender, as for `Contenders`.
        threshold_ms: longest delay allowed.
        seconds: of all.
        detector: takes its turns too, if there is one.

    Returns:
        Frames, AP, AP in time and violations of each, and of each method with several settings its violations over
        those of the paper's at the paper's AP, with an interval over the changes of level.
    """
    rng = random.Random(3)
    with Contenders(most) as contenders:
        traces = recorded_in_turn(runner, recording, contenders, LEARN_SHARE * seconds, rng)
        terms = Terms(
            dict(zip(recording.models, recording.qualities)),
            recording.idle_ms,
            threshold_ms,
            traces,
            0,
        )
        methods = {name: METHODS[name](terms) for name in LIVE_METHODS}
        methods |= {f'{BY_UTILITY} {cost}': OursByUtility(terms, cost) for cost in LIVE_COSTS}
        frames: dict[str, list[tuple[float, bool]]] = {
            name: [] for name in (*methods, *(detector.policies if detector else ()))
        }
        until_s, blocks = time.monotonic() + (1.0 - LEARN_SHARE) * seconds, 0
        while time.monotonic() < until_s or not blocks:
            contenders.set(rng.choice(recording.levels))
            for name in rng.sample(list(frames), len(frames)):
                for _ in range(LIVE_BLOCK):
                    if name in methods:
                        model = methods[name].choose()
                        took_ms, quality = runner.run(model), terms.qualities[model]
                        methods[name].observe(model, took_ms)
                    else:
                        quality, took_ms = detector.run(runner.next_image(), name)
                    frames[name].append((quality, took_ms >= threshold_ms))
            blocks += 1
    found = {
        name: {
            'frames': len(rows),
            'ap': statistics.fmean(ap for ap, _ in rows),
            'ap_in_time': statistics.fmean(0.0 if late else ap for ap, late in rows),
            'violations': 100.0 * statistics.fmean(late for _, late in rows),
        }
        for name, rows in frames.items()
    }
    by_level = {
        name: [level_outcome(rows[at : at + LIVE_BLOCK]) for at in range(0, len(rows), LIVE_BLOCK)]
        for name, rows in frames.items()
    }
    for kind, costs in (
        (BY_UTILITY, LIVE_COSTS),
        *(((DETECTOR_BY_UTILITY, DETECTOR_COSTS),) if detector else ()),
    ):
        curve = [by_level[f'{kind} {cost}'] for cost in costs]
        found[kind] = dict(zip(('ratio', 'low', 'high'), violations_ratio(curve, by_level[PAPERS])))
    return found


def level_outcome(rows: Sequence[tuple[float, bool]]) -> Outcome:
    """AP and violations of the frames at one level; nothing else is known of them."""
    ap, late = (
        statistics.fmean(ap for ap, _ in rows),
        100.0 * statistics.fmean(late for _, late in rows),
    )
    return Outcome(ap, late, *[math.nan] * 5, 0)
