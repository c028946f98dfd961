"""One image of a task and what became of it: arrival, conditions, and the record of its answer. Free of ROS."""
from __future__ import annotations

import math
from dataclasses import dataclass

from deadline_perception.runtime.deadline import is_met
from deadline_perception.runtime.image_age import StampReading
from deadline_perception.runtime.timed_frame import TimedFrame
from deadline_perception.runtime.tracks import Outcome


@dataclass(frozen=True, eq=False)
class Arrival:
    """One image message, and when it came.

    Attributes:
        message: with a header.
        arrived_ms: monotonic clock.
        stamp: what its stamp says about its age.
        left_out: images between the one taken before and this one, which were never taken off the middleware.
    """

    message: object
    arrived_ms: float
    stamp: StampReading
    left_out: int = 0

    @property
    def captured_ms(self) -> float:
        """Monotonic time of capture; of the arrival when the age is unknown."""
        return self.arrived_ms - self.stamp.known_age_ms

    @property
    def motion_s(self) -> float:
        """Time along which objects move: the stamp, at whatever rate a bag is played; without one, the arrival."""
        return self.stamp.stamp_ns / 1e9 if self.stamp.stamp_ns > 0 else self.arrived_ms / 1000.0

    def motion_at_s(self, at_ms: float) -> float:
        """The same at a time of the monotonic clock; right where a bag is played at the rate of its recording."""
        return self.motion_s + (at_ms - self.captured_ms) / 1000.0


@dataclass(frozen=True)
class Conditions:
    """What a frame is decided under.

    Attributes:
        budget_ms: longest allowed time from capture to published result.
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
    """One answered frame; all that its latency and its path messages say.

    Attributes:
        arrival: the image.
        conditions: budget and contention when it was taken, or when it arrived if it never was.
        outcome: what was published.
        frame: how far the network came.
        queue_ms, convert_ms, publish_ms: the node's own times around it.
        bound_ms: of the network's time on the path that ran, where that is shorter than the plan as of the plan, less
            what was skipped of it; NaN without a path. That of the plan is `frame.plan`'s.
        replaced: frames that it replaced, in the mailbox or before.
        failure: error of conversion or network, empty otherwise.
        forecast_ms: time on the idle device of the path that ran; where a frame left its plan for a shorter path and
            finished, such that the network's time over it is as for the whole plan; NaN without a path.
        evidence_age_ms: from the image on which what was published rests to this one: 0 for its own result, NaN
            when there was nothing to go on from.
        wcet_ms: analytical worst case of the network's time on the path that was planned, slowed down as the frame;
            NaN without.
    """

    arrival: Arrival
    conditions: Conditions
    outcome: Outcome
    frame: TimedFrame
    queue_ms: float
    convert_ms: float
    publish_ms: float
    bound_ms: float
    replaced: int
    failure: str
    forecast_ms: float
    evidence_age_ms: float
    wcet_ms: float = math.nan

    @property
    def elapsed_ms(self) -> float:
        """Arrival to published result."""
        return (self.queue_ms + self.convert_ms + self.frame.decision_ms + self.frame.network_ms + self.publish_ms)

    @property
    def total_ms(self) -> float:
        """Capture to published result; NaN when the age is unknown."""
        return self.arrival.stamp.age_ms + self.elapsed_ms

    @property
    def overhead_ms(self) -> float:
        """The node's own time outside the network."""
        return self.elapsed_ms - self.frame.network_ms

    @property
    def deadline_met(self) -> bool:
        """Published within the budget, counted from the arrival when the age is unknown."""
        return is_met(self.arrival.stamp.known_age_ms + self.elapsed_ms, self.conditions.budget_ms)

    @property
    def is_in_time(self) -> bool:
        """Its own result was published within the budget."""
        return self.outcome is Outcome.DETECTED and self.deadline_met

    @property
    def reasons(self) -> tuple[str, ...]:
        """Everything that is degraded about this frame."""
        return tuple(reason for reason in (*self.conditions.reasons, self.arrival.stamp.reason, self.failure)
                     if reason)

    @property
    def explanation(self) -> str:
        """One line for a person: why this path."""
        frame, plan = self.frame, self.frame.plan
        if self.reasons and plan is None:
            return self.reasons[-1]
        if frame.reason:
            return frame.reason
        if plan is None:
            return 'the deadline passed before a path could be planned'
        if not plan.feasible:
            return (f'not even the cheapest path is bound to fit: {plan.bound_ms:.1f} ms for '
                    f'{frame.remaining_ms:.1f} ms left')
        changed = [decision.operator for decision in frame.decisions if decision.changed]
        fits = 'fits' if plan.bound_ms <= frame.remaining_ms else 'is not looked at by this policy, with'
        why = f'bound {plan.bound_ms:.1f} ms {fits} {frame.remaining_ms:.1f} ms left'
        return f'{why}; changed on the way: {", ".join(changed)}' if changed else why
