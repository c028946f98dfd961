"""How timely a recorded run was: frame accounting, deadline misses with a confidence bound, and quantiles of times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from deadline_perception.extras.evaluation.confidence_limit import clopper_pearson_upper
from deadline_perception.extras.report.recording import Recording
from deadline_perception.runtime.job import Outcome


@dataclass(frozen=True)
class Spread:
    """Quantiles of a quantity, in its own unit; all None when nothing was measured."""

    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Quantiles of the finite values; each is a value that occurred, the next larger one of the exact quantile."""
        finite = np.array([value for value in values if math.isfinite(value)])
        if not finite.size:
            return cls(None, None, None, None)
        p50, p95, p99 = np.quantile(finite, (0.5, 0.95, 0.99), method='higher')
        return cls(float(p50), float(p95), float(p99), float(finite.max()))


def frame_figures(recording: Recording) -> dict[str, float | None]:
    """Where every frame that the camera sent ended up, and how many missed their deadline; keys of summary.json.

    `frames_sent` is the sum of `frames_delivered`, `frames_replaced` and `frames_lost`; frames that the recorder did
    not see sent, but of which the detector knew, count as sent.

    A frame misses when no fresh detections of it came out before its deadline. Frames of unknown age met or missed a
    deadline that was counted from their arrival, which says less than one counted from the capture; they are dropped
    of all misses and of what is feasible. The others are judged.

    Keys:
        frames_delivered: images for which detections were published, in time or not.
        frames_replaced: images that a newer one replaced while the detector was busy.
        frames_lost: neither; of these `frames_rejected`, that the detector could not use, and
            `frames_lost_by_middleware`, that the middleware reported lost.
        frames_age_unknown: delivered frames whose stamp could not be believed.
        deadline_miss_ratio: `deadline_misses` over judged frames; None when no frame was judged.
        infeasible_ratio: share of judged frames on which not even the cheapest path's bound fitted; None without any.
        held_up_frames: judged frames that the node did not get to before their deadline, though they came within it.
        feasible_frames: judged frames on which some path's bound fitted; `feasible_misses` missed all the same.
        feasible_miss_ratio: None when no frame was feasible.
        feasible_miss_upper_95: with 95 % confidence the true ratio is at most this (Clopper-Pearson, one-sided).
        bound_exceeded: delivered frames whose network took longer than its bound.
    """
    frames = recording.frames
    delivered, replaced = len(frames), sum(frame.replaced for frame in frames)
    unstamped = max(
        0, sum(frame.stamp_ns == 0 for frame in frames) - 1
    )  # share one entry among the stamps
    sent = max(
        len(recording.sent_stamps_ns) + unstamped,
        delivered + replaced + recording.rejected + recording.middleware_lost,
    )
    lost = sent - delivered - replaced
    rejected = min(recording.rejected, lost)
    judged = [frame for frame in frames if not frame.age_unknown]
    misses = sum(not frame.in_time for frame in judged)
    feasible = [frame for frame in judged if frame.feasible]
    feasible_misses = sum(not frame.in_time for frame in feasible)
    held_up = sum(frame.held_up for frame in judged)
    return {
        'frames_sent': sent,
        'frames_delivered': delivered,
        'frames_replaced': replaced,
        'frames_lost': lost,
        'frames_rejected': rejected,
        'frames_lost_by_middleware': min(recording.middleware_lost, lost - rejected),
        'frames_age_unknown': delivered - len(judged),
        'deadline_miss_ratio': misses / len(judged) if judged else None,
        'deadline_misses': misses,
        'infeasible_ratio': 1 - (len(feasible) + held_up) / len(judged) if judged else None,
        'held_up_frames': held_up,
        'feasible_frames': len(feasible),
        'feasible_misses': feasible_misses,
        'feasible_miss_ratio': feasible_misses / len(feasible) if feasible else None,
        'feasible_miss_upper_95': clopper_pearson_upper(feasible_misses, len(feasible)),
        'bound_exceeded': sum(frame.network_ms > frame.bound_ms for frame in frames),
    }


def network_figures(recording: Recording) -> dict[str, object]:
    """Which paths ran, and quantiles (`Spread`) of the times; keys of summary.json.

    Keys:
        path_switches: how often the path differed from that of the frame before.
        replanned_frames: frames on which an operator changed the plan while the network ran.
        outcomes: number of delivered frames by outcome.
        latency_ms: image stamp to published detections.
        bound_ms: bound of the network's time.
        overhead_ms: the node's own time outside the network.
        decision_us: one decision, planning or re-decision.
        latency_over_bound: network time over its bound.
        wcet_exceeded: delivered frames whose network took longer than the analytical worst case.
        wcet_ms: that worst case, of the frames that had one.
    """
    frames = recording.frames
    paths = [frame.path for frame in frames if frame.path and frame.outcome is not Outcome.COASTED]
    decisions = [frame.decision for frame in frames if frame.decision is not None]
    outcomes = Counter(frame.outcome for frame in frames)
    spreads = {
        'latency_ms': (frame.total_ms for frame in frames),
        'bound_ms': (frame.bound_ms for frame in frames),
        'overhead_ms': (frame.overhead_ms for frame in frames),
        'decision_us': (
            value
            for decision in decisions
            for value in (
                decision.decision_us,
                *(operator.decision_us for operator in decision.operators),
            )
        ),
        'latency_over_bound': (
            frame.network_ms / frame.bound_ms for frame in frames if frame.bound_ms > 0
        ),
    }
    return {
        'distinct_paths': len(set(paths)),
        'path_switches': sum(before != after for before, after in zip(paths, paths[1:])),
        'replanned_frames': sum(
            any(operator.changed for operator in decision.operators) for decision in decisions
        ),
        'outcomes': {
            outcome.name.lower(): outcomes[outcome] for outcome in Outcome if outcome in outcomes
        },
        **{name: asdict(Spread.of(values)) for name, values in spreads.items()},
        'wcet_exceeded': sum(frame.network_ms > frame.wcet_ms for frame in frames),
        'wcet_ms': asdict(Spread.of(frame.wcet_ms for frame in frames if frame.wcet_ms > 0.0)),
    }
