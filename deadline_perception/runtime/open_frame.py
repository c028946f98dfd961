"""An image that waits for its answer, whoever gives it: what it is run under, how far it came, and its record."""
from __future__ import annotations

import math

from deadline_perception.runtime.frame_record import Arrival, Conditions, FrameRecord
from deadline_perception.latency.time_model import FrameTimes
from deadline_perception.runtime.timed_frame import FrameProgress, TimedFrame
from deadline_perception.runtime.tracks import Outcome

HANGING_PUBLICATION_MS = 20.0  # a publication that takes longer, and past the deadline, is made again by another thread


class OpenFrame:
    """One image between its arrival and its answer, which worker or watchdog claims before giving it.

    Whoever changes one holds the lock of its pipeline, or is the worker, for what the network's run changes.

    Args:
        arrival: the image.
        conditions: at its arrival; the worker renews them.
        deadline_ms: when it must be answered.
        stand_in_ms: when the watchdog has to see to it.
        phases: of the network.

    Attributes:
        taken_ms: when the worker took it, None until then.
        replaced: images that it stands for beside its own.
        times: that it is decided by; None until it is taken.
        publish_ms: that its answer took.
        is_in_time: its own result was published in time.
        progress: of the network with it.
        attempts: to answer it.
        evidence_s: when the image was taken that its answer rests on.
        claimed_ms: when its answer began, for the watchdog when it should have.
    """

    def __init__(self, arrival: Arrival, conditions: Conditions, deadline_ms: float, stand_in_ms: float,
                 phases: tuple[str, ...]) -> None:
        self.arrival, self.conditions = arrival, conditions
        self.deadline_ms, self.stand_in_ms = deadline_ms, stand_in_ms
        self.taken_ms: float | None = None
        self.replaced = arrival.left_out
        self.times: FrameTimes | None = None
        self.publish_ms, self.is_in_time = 0.0, False
        self.progress = FrameProgress(phases)
        self.attempts = 0
        self.claimed_ms = math.nan
        self.evidence_s: float | None = None

    def claim(self, at_ms: float) -> bool:
        """For an answer now. Returns whether it is the first; should that hang, the watchdog will try again."""
        self.attempts += 1
        self.claimed_ms = min(at_ms, self.stand_in_ms)
        self.stand_in_ms = max(self.deadline_ms, at_ms + HANGING_PUBLICATION_MS * 2 ** (self.attempts - 1))
        return self.attempts == 1

    def record(self, outcome: Outcome, ran: TimedFrame, failure: str, published_ms: float) -> FrameRecord:
        """What is known about it once it was answered.

        Args:
            outcome: what the answer was.
            ran: how far the network came.
            failure: of the network, empty without.
            published_ms: when the answer was out.
        """
        taken_ms = published_ms if self.taken_ms is None else self.taken_ms
        begun_ms = self.progress.begun_ms or published_ms
        forecast_ms = bound_ms = skipped_ms = math.nan
        wcet_ms = math.nan if ran.plan is None else self.times.worst_ms(ran.plan.path)
        if ran.path is not None:
            skipped_ms = self.times.skipped_ms(ran.plan.path, ran.path) if ran.plan is not None else 0.0
            expected_ms = self.times.expected_ms(ran.path) + skipped_ms
            bound_ms = expected_ms * self.times.factor / self.times.slowdown - skipped_ms
            forecast_ms = self.times.forecast_ms(ran.path)
            if ran.result is not None and ran.network_ms > 0.0:  # else it would have taken longer than it did
                forecast_ms = expected_ms / self.times.slowdown / (1.0 + skipped_ms / ran.network_ms)
        return FrameRecord(
            self.arrival, self.conditions, outcome, ran, queue_ms=taken_ms - self.arrival.arrived_ms,
            convert_ms=begun_ms - taken_ms, publish_ms=max(0.0, published_ms - begun_ms - ran.elapsed_ms),
            bound_ms=bound_ms, replaced=self.replaced, failure=failure, forecast_ms=forecast_ms,
            evidence_age_ms=math.nan if self.evidence_s is None else
            1000.0 * (self.arrival.motion_s - self.evidence_s), wcet_ms=wcet_ms)
