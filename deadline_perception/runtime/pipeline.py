"""Frames from the slot to published detections: one worker thread, and a watchdog that publishes in its place.

Free of ROS: messages pass through as they are, and publishing is a call that is given.
"""
from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deadline_perception.runtime.image_age import StampReading
from deadline_perception.runtime.tracks import Tracks, LatePolicy, Outcome
from deadline_perception.decision.policy import MAX_FACTOR, Forecast
from deadline_perception.runtime.reserve import KeptBack, Reserve
from deadline_perception.runtime.timed_frame import FrameProgress, TimedFrame, TimedInference
from deadline_perception.detector.detections import Detections
from deadline_perception.latency.calibration import BoundCalibrator
from deadline_perception.latency.stopwatch import now_ms

BEST_CASE_SHARE = 0.1  # frames that are faster than the best case, which decides what is worth going on with
_BEST_CASE_STEP = 0.05


@dataclass(frozen=True, eq=False)
class Arrival:
    """One image message, and when it came.

    Attributes:
        message: with a header.
        arrived_ms: monotonic clock.
        stamp: what its stamp says about its age.
    """

    message: object
    arrived_ms: float
    stamp: StampReading

    @property
    def captured_ms(self) -> float:
        """Monotonic time of capture; of the arrival when the age is unknown."""
        return self.arrived_ms - self.stamp.known_age_ms

    @property
    def motion_s(self) -> float:
        """Time along which objects move: the stamp, at whatever rate a bag is played; without one, the arrival."""
        return self.stamp.stamp_ns / 1e9 if self.stamp.stamp_ns > 0 else self.arrived_ms / 1000.0


@dataclass(frozen=True)
class Conditions:
    """What a frame is decided under.

    Attributes:
        budget_ms: longest allowed time from capture to published detections.
        slowdown: factor >= 1 of contention.
        contention_source: sensors behind the slowdown.
        reasons: why the node is degraded, empty when it is not.
    """

    budget_ms: float
    slowdown: float
    contention_source: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class FrameRecord:
    """One published frame; all that its latency and its path messages say.

    Attributes:
        arrival: the image.
        conditions: budget and contention when it was taken.
        outcome: what was published.
        frame: how far the network came.
        queue_ms, convert_ms, publish_ms: the node's own times around it.
        margin: factor from expected time to bound.
        replaced: frames that a newer one replaced since the previous published frame.
        failure: error of the network, empty otherwise.
        idle_forecast_ms: expected time of the path that ran, on the idle device; NaN without a path.
    """

    arrival: Arrival
    conditions: Conditions
    outcome: Outcome
    frame: TimedFrame
    queue_ms: float
    convert_ms: float
    publish_ms: float
    margin: float
    replaced: int
    failure: str
    idle_forecast_ms: float

    @property
    def elapsed_ms(self) -> float:
        """Arrival to published detections."""
        return (self.queue_ms + self.convert_ms + self.frame.decision_ms + self.frame.network_ms + self.publish_ms)

    @property
    def total_ms(self) -> float:
        """Capture to published detections; NaN when the age is unknown."""
        return self.arrival.stamp.age_ms + self.elapsed_ms

    @property
    def overhead_ms(self) -> float:
        """The node's own time outside the network."""
        return self.elapsed_ms - self.frame.network_ms

    @property
    def deadline_met(self) -> bool:
        """Published within the budget, counted from the arrival when the age is unknown."""
        return self.arrival.stamp.known_age_ms + self.elapsed_ms <= self.conditions.budget_ms

    @property
    def reasons(self) -> tuple[str, ...]:
        """Everything that is degraded about this frame."""
        return tuple(reason for reason in (*self.conditions.reasons, self.arrival.stamp.reason, self.failure)
                     if reason)


class Watchdog:
    """A thread that makes one call at a time that can still be taken back; its thread ends with `stop`.

    Args:
        failed: is told what a call raises; the watch goes on.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._changed = threading.Condition()
        self._due_ms = math.inf
        self._bark: Callable[[], None] | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._watch, name='watchdog', daemon=True)
        self._thread.start()

    def arm(self, due_ms: float, bark: Callable[[], None]) -> None:
        """Calls `bark` once at a time of the monotonic clock, in place of what was armed before."""
        with self._changed:
            # A thread that already waits for an earlier time finds the new one when it wakes.
            sooner = due_ms < self._due_ms
            self._due_ms, self._bark = due_ms, bark
            if sooner:
                self._changed.notify()

    def disarm(self) -> None:
        """Takes the call back; one that has begun goes on."""
        with self._changed:
            self._bark = None

    def stop(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._stopped, self._bark = True, None
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=1.0)

    def _watch(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                wait_ms = self._due_ms - now_ms()
                if wait_ms > 0:
                    self._changed.wait(None if self._due_ms == math.inf else wait_ms / 1000.0)
                    continue
                bark, self._bark, self._due_ms = self._bark, None, math.inf
            if bark is None:
                continue
            try:
                bark()
            except Exception as error:  # the thread's outermost frame: the next frame needs a watchdog too
                self._failed(error)


class _Ticket:
    """One frame that is worked on; concluded exactly once, by the worker or by the watchdog."""

    def __init__(self, arrival: Arrival, conditions: Conditions, taken_ms: float, replaced: int, margin: float,
                 kept: KeptBack) -> None:
        self.arrival = arrival
        self.conditions = conditions
        self.taken_ms = taken_ms
        self.replaced = replaced
        self.margin = margin
        self.kept = kept
        self.publish_ms = 0.0
        self.progress = FrameProgress()
        self.concluded = False


class FramePipeline:
    """Takes frames one by one through conversion, network and publication.

    Args:
        inference: runs the network against a due time.
        forecast: expected idle times of the paths.
        calibrator: learns the margin of the bounds, from the network's times and what the node's own took beyond what
            was kept back for them.
        reserve: learns how long publishing takes, which is kept back from every deadline.
        conditions: gives the budget and the contention now.
        convert: message -> uint8 `[H, W, 3]`; None when the image is rejected, which then is no frame.
        publish: publishes detections of an image.
        publish_record: publishes what is known about the frame, after its detections.
        failed: is told an error of the network, once its frame is published, and one of publishing in its place.
        late_policy: what stands in for detections that are not in time; PARTIAL needs an inference that keeps proposals.
        late_grace_ms: longest wait past the deadline for a frame that may come late.
        max_coasted: after so many frames in a row without own detections, one is run to its end.

    Raises:
        ValueError: a number lies outside its range, or PARTIAL meets an inference that keeps no proposals.
    """

    def __init__(self, *, inference: TimedInference, forecast: Forecast, calibrator: BoundCalibrator,
                 reserve: Reserve, conditions: Callable[[], Conditions],
                 convert: Callable[[Arrival], np.ndarray | None], publish: Callable[[Arrival, Detections], None],
                 publish_record: Callable[[FrameRecord], None], failed: Callable[[Exception], None],
                 late_policy: LatePolicy = LatePolicy.COASTED, late_grace_ms: float = 1000.0,
                 max_coasted: int = 3) -> None:
        if not late_grace_ms >= 0 or max_coasted < 0:
            raise ValueError(f'late_grace_ms is {late_grace_ms} and max_coasted {max_coasted}, expected '
                             f'numbers of at least 0')
        if late_policy is LatePolicy.PARTIAL and not inference.keeps_proposals:
            raise ValueError('late_policy is partial and the inference keeps no proposals, expected one that keeps them')
        self._inference, self._forecast, self._calibrator, self._reserve = inference, forecast, calibrator, reserve
        self._best_case = BoundCalibrator(1.0 - BEST_CASE_SHARE, _BEST_CASE_STEP, calibrator.score_width)
        self._deciding = Reserve(0.0, quantile=0.5)
        self._conditions, self._convert, self._failed = conditions, convert, failed
        self._publish, self._publish_record = publish, publish_record
        self._late_policy, self._late_grace_ms = late_policy, late_grace_ms
        self._max_coasted = max_coasted
        self._watchdog = Watchdog(failed)
        self._stopped = False
        self._publishing = threading.Lock()
        self._replaced = 0
        self._coasted = 0
        self._tracker: Tracks | None = None
        self._tracked_size: tuple[int, int] | None = None

    def stop(self) -> None:
        """Ends the watchdog. A frame that the network still holds is given up without a message."""
        with self._publishing:
            self._stopped = True
        self._watchdog.stop()

    def process(self, arrival: Arrival, replaced: int) -> None:
        """Takes one frame to its publication: one call of `publish` and one of `publish_record`, unless the image is
        rejected. Blocks until the network has let go of it.

        Args:
            arrival: the frame.
            replaced: frames replaced since the previous call.
        """
        taken_ms = now_ms()
        self._replaced += replaced
        conditions = self._conditions()
        margin = min(self._calibrator.factor, MAX_FACTOR / conditions.slowdown)
        kept = KeptBack(self._deciding.reserve_ms, self._reserve.reserve_ms)
        ticket = _Ticket(arrival, conditions, taken_ms, self._replaced, margin, kept)
        may_cut = self._late_policy is not LatePolicy.LATE and self._coasted < self._max_coasted
        due_ms = arrival.captured_ms + conditions.budget_ms - kept.publishing_ms
        wait_until_ms = due_ms if may_cut else max(due_ms, now_ms()) + self._late_grace_ms
        # An image that is too old to be met is left to the thread at hand, which will notice at once.
        self._watchdog.arm(max(wait_until_ms, now_ms() + 1.0), lambda: self._give_up(ticket))
        image = self._convert(arrival)
        if image is None:
            self._watchdog.disarm()
            self._drop(ticket)
            return
        self._follow_size(image.shape[:2])
        failure = None
        try:
            frame = self._inference.run(
                image, ticket.progress, due_ms=due_ms, slowdown=conditions.slowdown, margin=margin,
                best_case=self._best_case.factor, may_cut=may_cut, deciding_ms=kept.deciding_ms,
                abandoned=lambda: ticket.concluded or self._stopped)
        except Exception as error:  # the thread's outermost frame: whatever a network throws, the node goes on
            failure = error
            frame = ticket.progress.look(now_ms())
        self._watchdog.disarm()
        own = failure is None and frame.detections is not None
        if own:
            in_time = now_ms() <= arrival.captured_ms + conditions.budget_ms
            outcome = Outcome.DETECTED if in_time else Outcome.LATE
            self._conclude(ticket, outcome, frame, frame.detections)
        else:
            self._conclude(ticket, Outcome.COASTED, frame, None, '' if failure is None else
                           f'network failed: {failure}')
        self._learn(ticket, frame, own, failure)

    def _follow_size(self, size: tuple[int, int]) -> None:
        if size != self._tracked_size:
            with self._publishing:
                self._tracker, self._tracked_size = Tracks(size), size

    def _drop(self, ticket: _Ticket) -> None:
        """Takes back a frame whose image was rejected, unless the watchdog has published in its place."""
        with self._publishing:
            ticket.concluded = True

    def _give_up(self, ticket: _Ticket) -> None:
        self._conclude(ticket, Outcome.COASTED, ticket.progress.look(now_ms()), None)

    def _conclude(self, ticket: _Ticket, outcome: Outcome, frame: TimedFrame, detections: Detections | None,
                  failure: str = '') -> None:
        with self._publishing:
            if ticket.concluded or self._stopped:
                return
            ticket.concluded = True
            if detections is None:
                detections = (Detections.none() if self._tracker is None else
                              self._tracker.predict(ticket.arrival.motion_s, frame.proposals))
            self._coasted = self._coasted + 1 if outcome is Outcome.COASTED else 0
            self._publish(ticket.arrival, detections)
            published_ms = now_ms()
            begun_ms = ticket.progress.begun_ms or published_ms
            record = FrameRecord(
                ticket.arrival, ticket.conditions, outcome, frame,
                queue_ms=ticket.taken_ms - ticket.arrival.arrived_ms, convert_ms=begun_ms - ticket.taken_ms,
                publish_ms=max(0.0, published_ms - begun_ms - frame.elapsed_ms), margin=ticket.margin,
                replaced=ticket.replaced, failure=failure,
                idle_forecast_ms=math.nan if frame.path is None else self._forecast.forecast_ms(frame.path))
            self._publish_record(record)
            self._replaced -= ticket.replaced
            if ticket.progress.begun_ms is not None:
                ticket.publish_ms = record.publish_ms
                self._reserve.observe(record.publish_ms)

    def _learn(self, ticket: _Ticket, frame: TimedFrame, own: bool, failure: Exception | None) -> None:
        """Everything that the next frame can use, after this one is out."""
        if failure is not None:
            self._failed(failure)
            return
        if own:
            with self._publishing:
                self._tracker.update(frame.detections, ticket.arrival.motion_s)
        if frame.path is None:
            return
        expected_ms = self._forecast.forecast_ms(frame.path) * frame.slowdown
        overrun_ms = ticket.kept.overrun_ms(frame.decision_ms, ticket.publish_ms)
        if own:
            try:
                self._best_case.observe(expected_ms, frame.network_ms)
                self._calibrator.observe(expected_ms, frame.network_ms + overrun_ms)
                self._deciding.observe(frame.decision_ms)
            except ValueError as error:  # a clock that jumped: the frame is out, and teaches nothing
                self._failed(error)
            return
        # A frame is cut because its deadline is near, and that alone says nothing about the times of its path. What it had
        # taken, with the forecast of its rest, does: were slow frames not counted, both would be learned from fast ones.
        would_take_ms = frame.network_ms + self._forecast.forecast_ms(frame.path, frame.slot) * frame.slowdown
        for calibrator, took_ms in ((self._calibrator, would_take_ms + overrun_ms), (self._best_case, would_take_ms)):
            if frame.network_ms > 0 and took_ms > calibrator.bound_ms(expected_ms):
                calibrator.observe(expected_ms, None)
