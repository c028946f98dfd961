"""How long a path, or what is left of one, takes: the one place where expected times and bounds are made.

    expected = forecast x slowdown
    bound    = (expected x tolerance limit + interruption) x integral

The forecast comes from a latency profile, which frames correct pass by pass (`pass_factors.py`), the slowdown from
whoever watches contention, drawn towards its recent mean as far as frames did not go with it: it says much of a load
that stays, and nothing where every tenth frame is slow. All else comes from earlier frames: the limit of recent ratios
and the interruption in ms (`recent_times.py`), and the integral, which holds the share of late frames (`calibration.py`).
Each part can be switched off (`TimeParts`): benchmarks/replay.py says what each one earns. docs/promises.md says what
the bound promises. Needs no torch.

Before every deadline time is reserved for what the node itself has to do around the network, in two parts.
`publishing`, a high quantile of the time from the network's end to published detections, is all that a watchdog or an
abort has to leave over, and twice that where the watchdog gives a result while the network runs; a frame to which
nothing is promised leaves the median of that time alone. `deciding`, the median time of a frame's decisions,
shrinks as they are made, because what they took is then in the time that has passed.

One miss probability covers all of it. A quantile of the node's own time on top of a bound of the network's would pay
for two misfortunes that hardly ever meet. So the bound is calibrated on the network's time plus what the rest took
beyond its reserve (`FrameReserve.overrun_ms`): a frame that was planned to fit and keeps such a bound has its
network done before the watchdog's time, and is published before its deadline. Frames whose publication outlasts its
quantile need no further reserve: most ended before their bound, and those that did not are calibrated on.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.timing.part_bound import (
    LEAST_RATIO,
    MOST_RATIO,
    FadingSlope,
    PartBound,
    RemainingBound,
)
from deadline_perception.timing.pass_factors import PassFactors
from deadline_perception.timing.path_bound import SegmentForecast
from deadline_perception.timing.recent_times import LEAST_RATIOS

MAX_FACTOR = 1e6  # a larger one is a fault, and its product with a time could overflow
CALIBRATED, WCET = BOUNDS = ('calibrated', 'wcet')


class Forecast(Protocol):
    """Times of paths and of what is left of them on an idle machine, such as `timing.path_bound.PathForecast`."""

    def forecast_ms(self, path: ExecutionPath, segment: int = 0) -> float:
        """Time of what `path` runs from `segment` on."""

    def from_each_ms(self, path: ExecutionPath) -> Sequence[float]:
        """The same from each segment on; of a forecast that frames are decided by."""

    def table(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """Of many paths: float64 `[len(paths)]`."""


class FinishedFrame(Protocol):
    """What `TimeModel.observe` reads of a frame that is out and whose network has ended, such as `runtime.job.Job`.

    Attributes:
        times: that it was decided by.
        path, plan: what ran, and the choice that it started on; None without any.
        network_ms, decision_ms: time of its segments, and of its decisions with the loop around them.
        decisions: the re-decisions in the order of execution.
        segment: the one that it was aborted before.
        result: what the network gave; None where it did not finish.
        is_in_time: its own result was published in time.
        done: phase and time in ms of each of its segments.
        publish_ms: time of its publication; None where its image was answered beside its network, so that the time of
            its decisions has that in it.
    """

    times: FrameTimes
    path: ExecutionPath
    plan: Any
    network_ms: float
    segment: int
    result: object | None
    is_in_time: bool
    publish_ms: float | None
    done: list[tuple[str, float]]

    @property
    def decisions(self) -> Sequence[Any]:
        """See the class."""

    @property
    def decision_ms(self) -> float:
        """See the class."""


@dataclass(frozen=True)
class TimeParts:
    """Which parts of the time model are in force.

    Attributes:
        slowdown: expected times grow with contention; else it is left to the calibration.
        execution: the limit follows recent ratios; else it stays as the profile says.
        interruption: bounds have ms on top where recent frames were interrupted; where paths have results so far,
            only in the frames right after an interruption.
        integral: q learns from late frames; else it stays.
        remaining: what is left of a frame has a bound of its own for each segment; else the frame's.
        progress: what is left grows with how slow the frame has been so far.
        reserve: time is kept for deciding and publishing.
        bounds: `calibrated`; or `wcet`, the analytical worst case alone. Without a worst case both are `calibrated`.

    Raises:
        ValueError: there are no such bounds.
    """

    slowdown: bool = True
    execution: bool = True
    interruption: bool = True
    integral: bool = True
    remaining: bool = True
    progress: bool = True
    reserve: bool = True
    bounds: str = CALIBRATED

    def __post_init__(self) -> None:
        if self.bounds not in BOUNDS:
            raise ValueError(f'bounds is {self.bounds!r}, expected one of {", ".join(BOUNDS)}')


@dataclass(frozen=True)
class FrameReserve:
    """What one frame reserves of its time.

    Attributes:
        deciding_ms: for its decisions, finite and >= 0.
        publishing_ms: from the network's end to published detections, finite and >= 0.
        spare_ms: how much of that half of all answers do not need.
        beside_ms: for publishing beside a network that runs, finite and >= 0.
    """

    deciding_ms: float
    publishing_ms: float
    spare_ms: float = 0.0
    beside_ms: float = 0.0

    @property
    def lead_ms(self) -> float:
        """How much earlier a result is given while the network runs than that is due: both threads want the interpreter,
        so it takes twice as long; such answers are too few to learn that from them alone."""
        return max(self.publishing_ms, self.beside_ms - self.publishing_ms)

    def overrun_ms(self, deciding_ms: float, publishing_ms: float) -> float:
        """What a frame took beyond it; time saved by deciding may be spent on publishing, but not the reverse, which
        would come after the watchdog's time."""
        return max(
            0.0, deciding_ms - self.deciding_ms + max(0.0, publishing_ms - self.publishing_ms)
        )


class Reserve:
    """A quantile of recent times of one kind, within limits.

    Args:
        floor_ms: smallest reserve, >= 0.
        ceiling_ms: largest reserve, >= `floor_ms`; one long pause shall not take the time of the next hundred frames.
        quantile: of the times kept, in (0, 1].
        window: number of times kept, >= 1.
        start_ms: smallest reserve until `LEAST_RATIOS` times were observed: the first ones find cold caches.

    Attributes:
        reserve_ms: the reserve now.
        spare_ms: what it has beyond the median.
    """

    def __init__(
        self,
        floor_ms: float,
        ceiling_ms: float = math.inf,
        *,
        quantile: float = 0.99,
        window: int = 200,
        start_ms: float = 0.0,
    ) -> None:
        self._floor_ms = floor_ms
        self._start_ms = max(start_ms, floor_ms)
        self._ceiling_ms = ceiling_ms
        self._quantile = quantile
        self._window = window
        self._recent: deque[float] = deque()
        self._ordered: list[float] = []
        self.reserve_ms = self._start_ms
        self.spare_ms = 0.0

    def observe(self, took_ms: float) -> None:
        """Takes in the time of one frame.

        Raises:
            ValueError: the time is negative or not finite.
        """
        if not 0.0 <= took_ms < math.inf:
            raise ValueError(
                f'time of a frame is {took_ms} ms, expected a finite time of at least 0'
            )
        self._recent.append(took_ms)
        insort(self._ordered, took_ms)
        if len(self._recent) > self._window:
            del self._ordered[bisect_left(self._ordered, self._recent.popleft())]
        rank = math.ceil(self._quantile * len(self._ordered)) - 1
        floor_ms = self._floor_ms if len(self._ordered) >= LEAST_RATIOS else self._start_ms
        self.reserve_ms = min(self._ceiling_ms, max(floor_ms, self._ordered[rank]))
        self.spare_ms = max(0.0, self.reserve_ms - self._ordered[len(self._ordered) // 2])


@dataclass(frozen=True, eq=False)
class FrameTimes:
    """Times as one frame sees them: what was known as it began. Any thread may read it.

    Attributes:
        forecast: times of the paths, without contention.
        slowdown: factor >= 1 from forecast to expected time.
        factor: from the forecast of a whole path to its bound without `interruption_ms`, in (0, MAX_FACTOR]; with
            `bounds` of `wcet` from its worst case, by which its policy then goes.
        reserve: for deciding and publishing.
        interruption_ms: what a bound has on top, whatever the path, >= 0.
        remaining: bounds of what is left, by segment; None: as of the whole.
        worst: analytical worst cases without contention; None without.
        bounds: what bounds are made of, as in `TimeParts`.
        whole: bound of whole frames, for chances; None: nothing was learnt.
        keeps_bounds: the frame's policy does, so that one that was to fit and is late counts against them.
        told_slowdown: as whoever watches contention has it; `slowdown` is as far as frames went with that.
    """

    forecast: Forecast
    slowdown: float = 1.0
    factor: float = 1.0
    reserve: FrameReserve = FrameReserve(0.0, 0.0)
    interruption_ms: float = 0.0
    remaining: Sequence[RemainingBound] | None = None
    worst: Forecast | None = None
    bounds: str = CALIBRATED
    whole: PartBound | None = None
    keeps_bounds: bool = True
    told_slowdown: float = 1.0

    @property
    def rests_on_frames(self) -> bool:
        """The bounds come of frames that were measured, or of worst cases; else of a profile alone."""
        return self.bounds == WCET or self.whole is not None and self.whole.recent.has_limit

    def expected_ms(self, path: ExecutionPath, segment: int = 0) -> float:
        """Time of a path from a segment on, as expected now."""
        return self.forecast.forecast_ms(path, segment) * self.slowdown

    def worst_ms(self, path: ExecutionPath) -> float:
        """Analytical worst case of a path, slowed down as now; NaN where there is none."""
        return math.nan if self.worst is None else self.worst.forecast_ms(path) * self.slowdown

    def bound_ms(self, path: ExecutionPath) -> float:
        """Time of a path that is exceeded only with the target miss probability."""
        if self.bounds == WCET:
            return self.worst_ms(path)
        return self.forecast.forecast_ms(path) * self.factor + self.interruption_ms

    def bound_from(
        self, segment: int, ran_ms: float, spent_ms: float
    ) -> tuple[float, float, float]:
        """The bound of what is left as a segment begins.

        Args:
            segment: the next one.
            ran_ms: forecast of what has run.
            spent_ms: what that took.

        Returns:
            The frame's progress, which is what it took over what was expected, within the limits of `RemainingBound`,
            and 1 where nothing has run; the factor from the forecast of what is left to its bound; and what
            interruptions add, ms.
        """
        progress = 1.0
        if ran_ms > 0.0 and spent_ms > 0.0:
            progress = min(max(spent_ms / (ran_ms * self.slowdown), LEAST_RATIO), MOST_RATIO)
        if segment == 0 or self.remaining is None:
            return progress, self.factor, self.interruption_ms
        rest = self.remaining[segment]  # whose `progress_factor` this is, without a call
        line = rest.line
        factor = math.exp(line.slope * (math.log(progress) - line.mean)) * rest.bound.factor
        factor = min(self.slowdown * factor, MAX_FACTOR)
        return progress, factor, rest.bound.interruption_ms

    def skipped_ms(self, plan: ExecutionPath, ran_ms: float) -> float:
        """Expected time of what a plan had beyond the path that ran, whose own is given; 0 where it had nothing.

        A slow frame goes on along a shorter path, by whose time alone it would look slower than it was. So what it
        skipped counts as if it had been run, as was expected.
        """
        return max(0.0, self.forecast.forecast_ms(plan) * self.slowdown - ran_ms)


class TimeModel:
    """See the module. `begin` and `observe` belong to the thread that runs the network; all else any may call.

    Args:
        path_space: of the network.
        forecast: times of its paths on the idle device.
        bound: of whole frames, as it was learnt before.
        wcet: analytical worst cases on the idle device, with `forecast_ms` and `table` as the forecast has; None
            without.
        parts: in force.

    Attributes:
        path_space, forecast, parts: as given.
        calibrator: the integral.
        whole: bound of whole frames.
        publishing: learns how long publishing takes, from 1 ms on, at most 15 ms, from the worker.
        publishing_beside: the same from the watchdog, beside a network with which it shares cores and interpreter; at
            most 20 ms.
        promised_frames, late_frames: frames whose plan was feasible, and those of them that were late.
    """

    def __init__(
        self,
        path_space: PathSpace,
        forecast: Forecast,
        bound: PartBound,
        *,
        wcet: Forecast | None = None,
        parts: TimeParts = TimeParts(),
    ) -> None:
        self.path_space = path_space
        self.forecast = forecast
        self.parts = parts
        self.calibrator = bound.integral
        self.promised_frames = self.late_frames = 0
        self.whole = bound
        bound.use(
            execution=parts.execution,
            interruption=parts.interruption,
            # A first result is too short to be interrupted as often as the whole frames that interruptions are learnt of.
            calm=not path_space.result_segments,
            learns=parts.integral,
        )
        self.publishing = Reserve(1.0, 15.0, quantile=0.95, start_ms=2.5)
        # A few of a hundred frames are answered so: the window is short, so that one pause is forgotten.
        self.publishing_beside = Reserve(0.0, 20.0, quantile=0.95, window=40)
        self._deciding = Reserve(0.0, quantile=0.5, start_ms=1.0)
        self._remaining = [
            RemainingBound(self.whole, by_progress=parts.progress) for _ in path_space.segments
        ]
        self._worst = wcet
        self._bounds = CALIBRATED if wcet is None else parts.bounds
        self._trust = FadingSlope(1.0)  # the first load is believed
        self._passes: PassFactors | None = None

    def follow(self, forecast: SegmentForecast, follower: Callable[[Forecast], None]) -> None:
        """From now on corrects a forecast pass by pass.

        Args:
            forecast: its own.
            follower: gets each new one, between two frames.
        """
        self._passes = PassFactors(forecast)
        self._follower = follower

    def begin(
        self,
        slowdown: float,
        *,
        keeps_bounds: bool = True,
    ) -> FrameTimes:
        """Times for the next frame.

        Args:
            slowdown: factor >= 1 of contention now.
            keeps_bounds: the frame's policy does.
        """
        parts = self.parts
        whole = self.whole
        is_wcet = self._bounds == WCET
        told_slowdown = slowdown
        if not parts.slowdown:
            slowdown = 1.0
        elif not is_wcet:
            trust = self._trust
            slowdown = math.exp(trust.mean + trust.slope * (math.log(slowdown) - trust.mean))
        factor = min(slowdown * (1.0 if is_wcet else whole.factor), MAX_FACTOR)
        return FrameTimes(
            self.forecast,
            slowdown,
            factor,
            self.reserve,
            0.0 if is_wcet else whole.interruption_ms,
            self._remaining if parts.remaining and not is_wcet else None,
            self._worst,
            self._bounds,
            whole,
            keeps_bounds,
            told_slowdown,
        )

    def part(self, segment: int) -> PartBound:
        """The bound of what is left as a segment begins; of whole frames before the first."""
        if segment == 0 or not self.parts.remaining:
            return self.whole
        return self._remaining[segment].bound

    @property
    def reserve(self) -> FrameReserve:
        """What the next frame keeps for deciding and publishing."""
        if not self.parts.reserve:
            return FrameReserve(0.0, 0.0)
        publishing = self.publishing
        return FrameReserve(
            self._deciding.reserve_ms,
            publishing.reserve_ms,
            publishing.spare_ms,
            self.publishing_beside.reserve_ms,
        )

    @property
    def lead_ms(self) -> float:
        """That of the reserve."""
        return self.reserve.lead_ms

    def observe(self, job: FinishedFrame) -> None:
        """Takes in one frame, after it is out and its network has ended.

        Args:
            job: see `runtime.job.Job`: `times` that it was decided by, `path`, `plan`, `network_ms`, `decision_ms`,
                `decisions`, `segment`, `result`, `is_in_time`, and `publish_ms`, which is None where its image was
                answered beside its network, so that the time of its decisions has that in it.

        Raises:
            ValueError: a time is none, because a clock has jumped; what comes after it has learnt nothing.
        """
        if not 0.0 <= job.network_ms < math.inf:
            raise ValueError(
                f'network took {job.network_ms} ms, expected positive, finite numbers: the clock has jumped'
            )
        times = job.times
        decision_ms = job.decision_ms
        publish_ms = job.publish_ms
        ran_ms = times.forecast.from_each_ms(job.path)[0] * times.slowdown
        skipped_ms = 0.0
        if job.plan is not None and job.plan.path is not job.path:
            skipped_ms = times.skipped_ms(job.plan.path, ran_ms)
        expected_ms = ran_ms + skipped_ms
        promised = times.keeps_bounds and job.plan is not None and bool(job.plan.feasible)
        is_late = promised and not job.is_in_time
        in_time = promised and job.is_in_time
        overrun_ms = (
            0.0 if publish_ms is None else times.reserve.overrun_ms(decision_ms, publish_ms)
        )
        # A frame is aborted because its deadline is near, and that alone says nothing about the times of its path. What it
        # had taken, with the forecast of its rest, does: without slow frames all would learn from fast ones alone.
        has_ended = job.result is not None
        took_ms = job.network_ms
        if not has_ended:
            took_ms += times.expected_ms(job.path, job.segment)
        all_ms = took_ms + skipped_ms + overrun_ms
        if has_ended:
            self.whole.observe(expected_ms, all_ms, is_late=is_late, in_time=in_time)
            ratio = all_ms * times.slowdown / expected_ms
            self._trust.observe(math.log(times.told_slowdown), math.log(ratio))
        elif job.network_ms > 0 or is_late:
            self.whole.observe_aborted(expected_ms, all_ms, is_late=is_late, in_time=in_time)
        for decision, rest_ms, skipped_ms in _remainders(job):
            part = self._remaining[decision.segment]
            (part.observe if has_ended else part.observe_aborted)(
                decision.progress,
                rest_ms + skipped_ms,
                took_ms - decision.spent_ms + skipped_ms + overrun_ms,
                in_time=in_time,
            )
        if has_ended and publish_ms is not None:
            self._deciding.observe(decision_ms)
        passes = self._passes
        if passes and has_ended:
            if passes.observe(job.path, job.done):
                self.forecast = passes.forecast()
                self._follower(self.forecast)
        self.promised_frames += promised
        self.late_frames += is_late


def _remainders(job: FinishedFrame) -> list[tuple[Any, float, float]]:
    """Of each operator its last decision, with the expected times in ms of the rest that ran and of what was skipped of
    it afterwards; not where nothing was left to run."""
    times = job.times
    last = {}
    found = []
    for decision in job.decisions:
        last[decision.segment] = decision
    from_each_ms = times.forecast.from_each_ms(job.path)
    for decision in last.values():
        rest_ms = from_each_ms[decision.segment] * times.slowdown
        if rest_ms > 0.0:
            found.append(
                (decision, rest_ms, max(0.0, decision.forecast_ms * times.slowdown - rest_ms))
            )
    return found
