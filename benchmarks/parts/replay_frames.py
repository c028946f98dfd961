"""Frames of one policy on a recorded trace: the real decision loop on a clock that the trace moves.

What the pipeline does around the loop is done as it does it, without threads: where time is up the newest result is the
answer, the network goes on until the next image, and time model and slowdown learn from what happened.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.policy import Policy
from deadline_perception.decision.scene import Scene
from deadline_perception.runtime.job import Job, StampReading
from deadline_perception.runtime.timed_inference import TimedInference
from deadline_perception.timing.contention.slowdown import SlowdownEstimator
from deadline_perception.timing.time_model import TimeModel
from parts.replay_traces import Trace

PERIOD = 2.5  # from image to image, over the longest look's time
BUDGETS = ('wander', 'speed', 'steps', 'drawn', 'tight')
LEAST_BUDGET, MOST_BUDGET = 0.25, 1.5  # of what the longest look takes
TIGHT_BUDGET = 0.6
_WANDERS = 0.15  # deviation of the logarithm from frame to frame
_SPEED_FRAMES, _STEP_FRAMES = 300, (30, 150)

Answer = Hashable  # what an answer holds; None: nothing of the image


def budgets_ms(kind: str, frames: int, full_ms: float, seed: int) -> np.ndarray:
    """Budgets of one trace of them, float64 `[frames]`.

    Args:
        kind: one of `BUDGETS`: a random walk; one that follows a speed that rises and falls; two that change at
            random; drawn anew for every frame; a random walk where time is short.
        full_ms: what the longest look takes.
    """
    rng, low, high = random.Random(seed), math.log(LEAST_BUDGET), math.log(MOST_BUDGET)
    if kind == 'speed':
        logs = low + (high - low) * 0.5 * (
            1.0 + np.sin(np.arange(frames) * 2 * math.pi / _SPEED_FRAMES)
        )
    elif kind == 'drawn':
        logs = np.array([rng.uniform(low, high) for _ in range(frames)])
    elif kind == 'steps':
        parts: list[float] = []
        while len(parts) < frames:
            parts += [rng.uniform(low, high)] * rng.randint(*_STEP_FRAMES)
        logs = np.array(parts[:frames])
    else:
        logs, log = np.empty(frames), (low + high) / 2.0
        most = math.log(TIGHT_BUDGET) if kind == 'tight' else high
        for number in range(frames):
            log = min(max(log + rng.gauss(0.0, _WANDERS), low), most)
            logs[number] = log
    return full_ms * np.exp(logs)


@dataclass(frozen=True, eq=False)
class Course:
    """Frames to be replayed.

    Attributes:
        images: number of the image of each frame, `[frames]`.
        trace_frames: number of the recorded frame whose time each has, `[frames]`.
        budgets_ms: of each, `[frames]`.
        period_ms: from image to image.
    """

    images: np.ndarray
    trace_frames: np.ndarray
    budgets_ms: np.ndarray
    period_ms: float

    @classmethod
    def of(
        cls, budget: str, frames: int, images: int, trace_frames: int, full_ms: float, seed: int
    ) -> Course:
        """Goes through images and recorded frames in their order, over and over, from a random one on each."""
        rng, numbers = random.Random(seed), np.arange(frames)
        return cls(
            (rng.randrange(images) + numbers) % images,
            (rng.randrange(trace_frames) + numbers) % trace_frames,
            budgets_ms(budget, frames, full_ms, seed),
            PERIOD * full_ms,
        )


@dataclass
class Outcomes:
    """What became of the frames, one item each.

    Attributes:
        answers: own answers in time; None without.
        promised: a bound was to fit.
        in_time: an own answer was in time.
        bound_over_time: of frames whose network ended.
    """

    answers: list[Answer] = field(default_factory=list)
    promised: list[bool] = field(default_factory=list)
    in_time: list[bool] = field(default_factory=list)
    bound_over_time: list[float] = field(default_factory=list)


class ReplayedNetwork:
    """Lets a clock advance as a recorded frame went.

    Args:
        costs_ms: work of every key of the paths that are run.
        answer_of: what a path has found once it has ended, or with True after its first result.
    """

    def __init__(
        self,
        space: PathSpace,
        costs_ms: Mapping[str, float],
        trace: Trace,
        answer_of: Callable[[ExecutionPath, bool], Answer],
    ) -> None:
        self.path_space, self.costs_ms, self.trace = space, costs_ms, trace
        self.answer_of = answer_of
        self.now_ms, self.frame = 0.0, 0
        self.job: Job | None = None
        self.due_ms = math.inf

    def follow(self, frame: int, job: Job, due_ms: float) -> None:
        """From now on goes as one recorded frame; at `due_ms` the watchdog answers, earlier where it has a result."""
        self.frame, self.job, self.due_ms = frame, job, due_ms

    def start(self, image: object, path: ExecutionPath) -> ReplayedRun:
        """Begins a frame."""
        return ReplayedRun(self, path)


class ReplayedRun:
    """A frame of it."""

    def __init__(self, network: ReplayedNetwork, path: ExecutionPath) -> None:
        self._network, self._begun_ms, self._work_ms = network, network.now_ms, 0.0
        self.segment = 0
        self.redirect(path)

    @property
    def finished(self) -> bool:
        """All segments have run."""
        return self.segment == len(self._keys)

    def redirect(self, path: ExecutionPath) -> None:
        """Goes on along another path."""
        self.path, self._keys = path, path.keys_by_segment

    def run_segment(self, begun_ms: float | None = None) -> float:
        """Lets the clock advance; the watchdog answers where time is up meanwhile."""
        network, key = self._network, self._keys[self.segment]
        self.segment += 1
        if key is None:
            return 0.0
        before_ms = network.now_ms
        self._work_ms += network.costs_ms[key]
        network.now_ms = self._begun_ms + network.trace.time_ms(network.frame, self._work_ms)
        job, due_ms = network.job, network.due_ms
        if job.newest is not None:
            due_ms -= job.times.reserve.lead_ms
        if network.now_ms > due_ms and not job.attempts:
            job.claim(due_ms)
        return network.now_ms - before_ms

    def result_so_far(self) -> Answer:
        """What the first look found."""
        return self._network.answer_of(self.path, True)

    def result(self) -> Answer:
        """What all looks found."""
        return self._network.answer_of(self.path, False)


@dataclass(frozen=True, eq=False)
class Contender:
    """A policy with what it decides by.

    Attributes:
        network: whose clock is moved.
        policy, times: its own, new ones for each course.
        scene: learns from answers; None without.
        see: takes in an answer to an image for the scene.
        answers_so_far: the newest result is the answer when time is up; else only a whole one is.
    """

    network: ReplayedNetwork
    policy: Policy
    times: TimeModel
    scene: Scene | None = None
    see: Callable[[Scene, int, Answer], None] | None = None
    answers_so_far: bool = True

    def run(self, course: Course) -> Outcomes:
        """Takes all frames of a course to their answers."""
        outcomes, network = Outcomes(), self.network
        estimator = SlowdownEstimator()
        inference = TimedInference(network, self.policy, clock_ms=lambda: network.now_ms)
        rows = zip(course.images.tolist(), course.trace_frames.tolist(), course.budgets_ms.tolist())
        for image, frame, budget_ms in rows:
            begun_ms = network.now_ms
            job = self._answered(inference, estimator.slowdown, frame, budget_ms, course.period_ms)
            outcomes.answers.append(job.answer.result if job.is_in_time else None)
            outcomes.in_time.append(job.is_in_time)
            outcomes.promised.append(bool(job.plan.feasible))
            if job.newest is not None and self.scene is not None:
                self.see(self.scene, image, job.newest.result)
            self.times.observe(job)
            forecast_ms = job.times.forecast.forecast_ms(job.path)
            bound_ms = job.times.bound_ms(job.path)
            if job.result is not None:
                estimator.observe_frame(forecast_ms, job.network_ms, bound_ms)
                outcomes.bound_over_time.append(bound_ms / job.network_ms)
            else:
                estimator.observe_unfinished(forecast_ms, job.network_ms, bound_ms)
            network.now_ms = max(network.now_ms, begun_ms + course.period_ms)
        return outcomes

    def _answered(
        self,
        inference: TimedInference,
        slowdown: float,
        frame: int,
        budget_ms: float,
        period_ms: float,
    ) -> Job:
        """One image's job, answered, and its network ended; see `FramePipeline.process`."""
        network, begun_ms = self.network, self.network.now_ms
        job = Job(None, begun_ms, StampReading(0.0, '', 0))
        job.times = self.times.begin(slowdown, keeps_bounds=self.policy.keeps_bounds)
        deadline_ms = begun_ms + budget_ms
        due_ms = deadline_ms - job.times.reserve.publishing_ms
        rest_ms = float(network.trace.rest_ms[frame])
        network.follow(frame, job, max(due_ms, begun_ms))
        run = inference.begin(None, job, due_ms=due_ms, may_abort=True)
        network.due_ms = run.due_ms
        run.until_answer()
        if not job.attempts:
            job.claim(network.now_ms)
            if run.ended:
                job.publish_ms = rest_ms
        is_own = job.answer is not None and (self.answers_so_far or job.answer is not job.so_far)
        job.is_in_time = is_own and job.claimed_ms + rest_ms <= deadline_ms
        self.times.publishing.observe(rest_ms)
        if not run.ended:
            next_ms = begun_ms + period_ms
            run.for_tracks(
                lambda: max(next_ms, network.now_ms),
                lambda path, segment: (
                    'the next image waits' if job.answer and network.now_ms > next_ms else ''
                ),
            )
        return job


def fixed(
    works_ms: Sequence[float], answers: Sequence[Answer], trace: Trace, course: Course
) -> Outcomes:
    """One sequence of looks always, never stopped, with the work until each result: its last one that is in time."""
    times_ms = trace.table_ms(np.asarray(works_ms)) + trace.rest_ms[:, None]
    done = (times_ms[course.trace_frames] <= course.budgets_ms[:, None]).sum(1)
    last = [None, *answers]
    found = [last[count] for count in done.tolist()]
    return Outcomes(found, [True] * len(found), (done > 0).tolist())


def clairvoyant(
    sequences: Sequence[tuple[float, Answer]],
    qualities: Callable[[int], np.ndarray],
    trace: Trace,
    course: Course,
    see: Callable[[int, Answer], None],
) -> Outcomes:
    """The best result of each frame that can be in time, by one who knows what each takes in this frame.

    Args:
        sequences: work until each result, and the result.
        qualities: expected of each, for the image of that number.
        see: takes in the answer to an image.
    """
    times_ms = trace.table_ms(np.array([work_ms for work_ms, _ in sequences]))
    times_ms = times_ms + trace.rest_ms[:, None]
    outcomes = Outcomes()
    for image, frame, budget_ms in zip(course.images, course.trace_frames, course.budgets_ms):
        fits = times_ms[frame] <= budget_ms
        answer = None
        if fits.any():
            at = int(np.argmax(np.where(fits, qualities(int(image)), -1.0)))
            answer = sequences[at][1]
            see(int(image), answer)
        outcomes.answers.append(answer)
        outcomes.in_time.append(answer is not None)
        outcomes.promised.append(answer is not None)
    return outcomes


def reachable(works_ms: Sequence[float], trace: Trace, course: Course) -> np.ndarray:
    """Whether some first result can be in time, bool `[frames]`; the cheapest work decides, as time rises with it."""
    times_ms = trace.table_ms(np.array([min(works_ms)]))[:, 0] + trace.rest_ms
    return times_ms[course.trace_frames] <= course.budgets_ms
