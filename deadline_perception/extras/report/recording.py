"""One recorded run of the detector as typed records: every frame, its decision, its detections and what was known."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import PASS
from deadline_perception.core.operator_record import OperatorRecord
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.networks.passes import NONE
from deadline_perception.runtime.job import Outcome

NODE_PHASES = (
    'age',
    'queue',
    'convert',
    'decision',
    'publish',
)  # the network's own lie before the last


@dataclass(frozen=True)
class DecisionRecord:
    """Why a frame took its path; fields are some of PathDecision.msg."""

    remaining_ms: float
    slowdown: float
    quality: float
    decision_us: float
    policy: str
    reason: str
    operators: tuple[OperatorRecord, ...]


@dataclass(frozen=True, eq=False)
class FrameRecord:
    """One delivered frame.

    Attributes:
        stamp_ns: stamp of the image; 0 when the image had none.
        outcome: what was published.
        path: the path that ran, empty where none was planned.
        budget_ms: longest allowed `total_ms`.
        phase_ms: the node's time by phase, keys `NODE_PHASES`; `age` is NaN without a valid stamp.
        network_phase_ms: the network's time by its own phases, in the order of execution.
        network_ms: sum of these.
        overhead_ms: the node's own time outside the network.
        total_ms: image stamp to published detections; NaN without a valid stamp.
        bound_ms: bound of `network_ms`.
        feasible: the cheapest path's bound fitted the remaining time.
        deadline_met: `total_ms` lay within the budget; counted from the arrival without a valid stamp.
        replaced: frames that a newer one replaced since the frame delivered before.
        device: processor that ran the network.
        decision: None where no PathDecision was recorded.
        detections: what was published; None where it was not recorded.
        wcet_ms: analytical worst case of `network_ms` on the planned path; NaN where none was known.
        results: passes of the network that the answer holds; empty where it has none, or the answer is not its own.
    """

    stamp_ns: int
    outcome: Outcome
    path: str
    budget_ms: float
    phase_ms: dict[str, float]
    network_phase_ms: dict[str, float]
    network_ms: float
    overhead_ms: float
    total_ms: float
    bound_ms: float
    feasible: bool
    deadline_met: bool
    replaced: int
    device: str
    decision: DecisionRecord | None
    detections: Detections | None
    wcet_ms: float = math.nan
    results: tuple[str, ...] = ()

    @property
    def missing_passes(self) -> tuple[str, ...]:
        """Passes of the path that an own answer does not hold, since time was up before they had ended."""
        operators = self.decision.operators if self.decision and self.results else ()
        return tuple(
            operator.name
            for operator in operators
            if operator.kind == PASS
            and operator.setting != NONE
            and operator.name not in self.results
        )

    @property
    def age_unknown(self) -> bool:
        """The stamp was zero or could not be believed, so nobody knows when the image was taken."""
        return math.isnan(self.total_ms)

    @property
    def held_up(self) -> bool:
        """No path was ever planned although the image came within its budget: the node was busy with another."""
        return not self.path and self.phase_ms['age'] < self.budget_ms

    @property
    def in_time(self) -> bool:
        """Detections of this very image came out before the deadline; coasted ones do not count."""
        return self.deadline_met and self.outcome is Outcome.DETECTED

    @property
    def total_bound_ms(self) -> float:
        """Bound of `total_ms`: the network's bound plus what else the frame took."""
        return self.total_ms - self.network_ms + self.bound_ms


@dataclass(frozen=True)
class Samples:
    """A signal over time.

    Attributes:
        stamps_ns: ascending.
        values: one per stamp.
    """

    stamps_ns: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, stamp_ns: int) -> float:
        """Latest value at or before a stamp, NaN before the first."""
        index = bisect_right(self.stamps_ns, stamp_ns)
        return self.values[index - 1] if index else math.nan


@dataclass(frozen=True, eq=False)
class Recording:
    """One run of the detector.

    Attributes:
        name: what the bag is called.
        class_names: names that the labels of detections and ground truth index.
        sent_stamps_ns: stamps of all images that the camera sent, ascending.
        frames: delivered frames in the order of delivery, at least one.
        ground_truth: known objects of the classes that the network knows, by stamp; empty without annotations.
        unknown_objects: boxes of classes that the network does not know, by name; they are not scored.
        speed_mps: speed that the budget was computed from.
        slowdown: estimated by the contention monitor.
        rejected: images that the detector could not use.
        middleware_lost: images that the middleware reported lost.
        class_map: how the names of the data became those of the network, as a sentence; empty where they were.
        ending: where the recording ends that was cut off, as a sentence; empty for a whole one.
    """

    name: str
    class_names: tuple[str, ...]
    sent_stamps_ns: tuple[int, ...]
    frames: tuple[FrameRecord, ...]
    ground_truth: dict[int, GroundTruth]
    speed_mps: Samples
    slowdown: Samples
    rejected: int
    middleware_lost: int
    ending: str = ''
    unknown_objects: dict[str, int] = field(default_factory=dict)
    class_map: str = ''

    @property
    def network_phases(self) -> tuple[str, ...]:
        """The phases of the network that some frame spent time in, in the order of execution."""
        return tuple(
            dict.fromkeys(phase for frame in self.frames for phase in frame.network_phase_ms)
        )
