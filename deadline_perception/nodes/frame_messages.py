"""What is known about a published frame as the messages PathDecision and FrameLatency."""
from __future__ import annotations

import math

from deadline_perception.runtime.timed_frame import Decision
from deadline_perception.execution_path import Phase
from deadline_perception.msg import FrameLatency, OperatorDecision, PathDecision
from deadline_perception.runtime.pipeline import FrameRecord

_KINDS = {'width': OperatorDecision.WIDTH, 'pyramid_width': OperatorDecision.WIDTH,
          'proposals': OperatorDecision.PROPOSALS, 'head': OperatorDecision.SWITCH}


def operator_decision(decision: Decision) -> OperatorDecision:
    """One re-decision as a message."""
    return OperatorDecision(
        name=decision.operator, kind=_KINDS.get(decision.operator, OperatorDecision.SKIP), choice=decision.choice,
        changed=decision.changed, remaining_ms=decision.remaining_ms, bound_ms=decision.bound_ms,
        decision_us=decision.decision_us)


def path_decision(record: FrameRecord, *, policy: str, target_miss_probability: float) -> PathDecision:
    """Which path a frame took, and why. A frame that never came to a plan has an empty path and NaN times."""
    frame, conditions = record.frame, record.conditions
    message = PathDecision(
        header=record.arrival.message.header, budget_ms=conditions.budget_ms, remaining_ms=frame.remaining_ms,
        slowdown=conditions.slowdown, contention_source=conditions.contention_source, policy=policy,
        target_miss_probability=target_miss_probability, decision_us=frame.decision_us, forecast_ms=math.nan,
        bound_ms=math.nan, quality=math.nan, reason=explain(record),
        operators=[operator_decision(decision) for decision in frame.decisions])
    if frame.plan is not None:
        message.planned_path, message.path = str(frame.plan.path), str(frame.path)
        message.skip = list(frame.path.skip)
        message.width, message.pyramid_width = float(frame.path.width), float(frame.path.pyramid_width)
        message.proposals, message.head = frame.path.proposals, frame.path.head
        message.feasible, message.quality = bool(frame.plan.feasible), float(frame.plan.quality)
        message.forecast_ms = frame.plan.forecast_ms * frame.slowdown
        message.bound_ms = float(frame.plan.bound_ms)
    return message


def explain(record: FrameRecord) -> str:
    """One line for a person: why this path."""
    frame = record.frame
    if record.reasons and frame.plan is None:
        return record.reasons[-1]
    if frame.reason:
        return frame.reason
    if frame.plan is None:
        return 'the deadline passed before a path could be planned'
    if not frame.plan.feasible:
        return (f'not even the cheapest path is bound to fit: {frame.plan.bound_ms:.1f} ms for '
                f'{frame.remaining_ms:.1f} ms left')
    changed = [decision.operator for decision in frame.decisions if decision.changed]
    why = f'bound {frame.plan.bound_ms:.1f} ms fits {frame.remaining_ms:.1f} ms left'
    return f'{why}; changed on the way: {", ".join(changed)}' if changed else why


def frame_latency(record: FrameRecord, *, device: str, replaced_total: int, rejected_total: int,
                  lost_total: int) -> FrameLatency:
    """Where the time of a frame went; the parts add up to `total_ms`."""
    frame = record.frame
    planned = frame.plan is not None
    return FrameLatency(
        header=record.arrival.message.header, outcome=int(record.outcome), path=str(frame.path) if planned else '',
        budget_ms=record.conditions.budget_ms, age_ms=record.arrival.stamp.age_ms, queue_ms=record.queue_ms,
        convert_ms=record.convert_ms, decision_ms=frame.decision_ms, pre_ms=frame.phase_ms[Phase.PRE],
        conv_ms=frame.phase_ms[Phase.CONV], rpn_ms=frame.phase_ms[Phase.RPN], head_ms=frame.phase_ms[Phase.HEAD],
        post_ms=frame.phase_ms[Phase.POST], publish_ms=record.publish_ms, network_ms=float(frame.network_ms),
        overhead_ms=record.overhead_ms, total_ms=record.total_ms,
        forecast_ms=frame.plan.forecast_ms * frame.slowdown if planned else math.nan,
        idle_forecast_ms=float(record.idle_forecast_ms), bound_ms=float(frame.plan.bound_ms) if planned else math.nan,
        feasible=bool(planned and frame.plan.feasible), deadline_met=bool(record.deadline_met),
        replaced_frames=record.replaced, replaced_frames_total=replaced_total, rejected_frames_total=rejected_total,
        middleware_lost_total=lost_total, device=device, degraded=bool(record.reasons),
        reason='; '.join(record.reasons))
