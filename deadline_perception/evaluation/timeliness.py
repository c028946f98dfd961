"""How timely a recorded run was: frame accounting, deadline misses with a confidence bound, and quantiles of times."""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from deadline_perception.runtime.tracks import Outcome
from deadline_perception.evaluation.recording import Recording
from deadline_perception.latency.calibration import clopper_pearson_upper


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


@dataclass(frozen=True)
class FrameAccount:
    """Where every frame that the camera sent ended up: `sent = delivered + replaced + lost`.

    Attributes:
        sent: images that the camera sent.
        delivered: images for which detections were published, in time or not.
        replaced: images that a newer one replaced while the detector was busy.
        lost: neither; `rejected` and `middleware_lost` say why where it is known.
        rejected: of the lost, images that the detector could not use.
        middleware_lost: of the lost, images that the middleware reported lost.
    """

    sent: int
    delivered: int
    replaced: int
    lost: int
    rejected: int
    middleware_lost: int


@dataclass(frozen=True)
class Timeliness:
    """Figures of one run. A frame misses when no fresh detections of it came out before its deadline.

    Frames of unknown age met or missed a deadline that was counted from their arrival, which says less than one counted
    from the capture; they are left out of all misses and of what is feasible. The others are judged.

    Attributes:
        account: where every frame ended up.
        outcomes: number of delivered frames by outcome.
        age_unknown: delivered frames whose stamp could not be believed.
        misses: judged frames that missed.
        miss_ratio: misses over judged frames; None when no frame was judged.
        infeasible_ratio: share of judged frames on which not even the cheapest path's bound fitted; None without any.
        feasible_frames: judged frames on which some path's bound fitted.
        feasible_misses: feasible frames that missed all the same.
        feasible_miss_ratio: None when no frame was feasible.
        feasible_miss_upper_95: with 95 % confidence the true ratio is at most this (Clopper-Pearson, one-sided).
        bound_exceeded: delivered frames whose network took longer than its bound.
        distinct_paths: number of different paths that ran.
        path_switches: how often the path differed from that of the frame before.
        replanned: frames on which an operator changed the plan while the network ran.
        latency_ms: image stamp to published detections.
        bound_ms: bound of the network's time.
        overhead_ms: the node's own time outside the network.
        decision_us: one decision, planning or re-decision.
        latency_over_bound: network time over its bound.
        wcet_exceeded: delivered frames whose network took longer than the analytical worst case.
        wcet_ms: that worst case, of the frames that had one.
    """

    account: FrameAccount
    outcomes: dict[str, int]
    age_unknown: int
    misses: int
    miss_ratio: float | None
    infeasible_ratio: float | None
    feasible_frames: int
    feasible_misses: int
    feasible_miss_ratio: float | None
    feasible_miss_upper_95: float
    bound_exceeded: int
    distinct_paths: int
    path_switches: int
    replanned: int
    latency_ms: Spread
    bound_ms: Spread
    overhead_ms: Spread
    decision_us: Spread
    latency_over_bound: Spread
    wcet_exceeded: int
    wcet_ms: Spread


def account_frames(recording: Recording) -> FrameAccount:
    """Counts where the frames of a run ended up.

    Frames that the recorder did not see sent, but of which the detector knew, count as sent.
    """
    delivered = len(recording.frames)
    replaced = sum(frame.replaced for frame in recording.frames)
    unstamped = max(0, sum(frame.stamp_ns == 0 for frame in recording.frames) - 1)  # share one entry among the stamps
    sent = max(len(recording.sent_stamps_ns) + unstamped, delivered + replaced)
    lost = sent - delivered - replaced
    rejected = min(recording.rejected, lost)
    return FrameAccount(sent, delivered, replaced, lost, rejected, min(recording.middleware_lost, lost - rejected))


def timeliness(recording: Recording) -> Timeliness:
    """Works out all figures of one run."""
    frames = recording.frames
    judged = [frame for frame in frames if not frame.age_unknown]
    misses = sum(not frame.in_time for frame in judged)
    feasible = [frame for frame in judged if frame.feasible]
    feasible_misses = sum(not frame.in_time for frame in feasible)
    paths = [frame.path for frame in frames if frame.path and frame.outcome is not Outcome.COASTED]
    decisions = [frame.decision for frame in frames if frame.decision is not None]
    return Timeliness(
        account=account_frames(recording),
        outcomes={outcome.name.lower(): count for outcome, count in
                  sorted(Counter(frame.outcome for frame in frames).items(), key=lambda item: item[0].value)},
        age_unknown=len(frames) - len(judged), misses=misses, miss_ratio=misses / len(judged) if judged else None,
        infeasible_ratio=1 - len(feasible) / len(judged) if judged else None,
        feasible_frames=len(feasible), feasible_misses=feasible_misses,
        feasible_miss_ratio=feasible_misses / len(feasible) if feasible else None,
        feasible_miss_upper_95=clopper_pearson_upper(feasible_misses, len(feasible)),
        bound_exceeded=sum(frame.network_ms > frame.bound_ms for frame in frames),
        distinct_paths=len(set(paths)),
        path_switches=sum(before != after for before, after in zip(paths, paths[1:])),
        replanned=sum(any(operator.changed for operator in decision.operators) for decision in decisions),
        latency_ms=Spread.of(frame.total_ms for frame in frames),
        bound_ms=Spread.of(frame.bound_ms for frame in frames),
        overhead_ms=Spread.of(frame.overhead_ms for frame in frames),
        decision_us=Spread.of(value for decision in decisions for value in
                              (decision.decision_us, *(operator.decision_us for operator in decision.operators))),
        latency_over_bound=Spread.of(frame.network_ms / frame.bound_ms for frame in frames if frame.bound_ms > 0),
        wcet_exceeded=sum(frame.network_ms > frame.wcet_ms for frame in frames),
        wcet_ms=Spread.of(frame.wcet_ms for frame in frames if frame.wcet_ms > 0.0))
