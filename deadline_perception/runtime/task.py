"""A task of the runtime: one network with all that its frames are decided by, and what stands in when it is late."""
from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from deadline_perception.decision.policy import Forecast, Policy
from deadline_perception.detector.detections import Detections
from deadline_perception.execution_path import ExecutionPath, PathSpace
from deadline_perception.latency.calibration import BoundCalibrator, RestCalibrators
from deadline_perception.runtime.tracks import Tracks


class StandIn(Protocol):
    """What is published for an image whose own result does not come in time, made of the results before.

    Attributes:
        evidence_s: time of the newest result; None while there is nothing to go on from.
    """

    evidence_s: float | None

    def follow(self, image_size: tuple[int, int]) -> None:
        """Takes in the height and width of the images, px."""

    def update(self, result, stamp_s: float) -> None:
        """Takes in the own result of an image."""

    def predict(self, stamp_s: float):
        """What to publish for a time; None when there is nothing yet."""

    def advance(self, result, by_s: float):
        """The result that was taken in last, as it should be some time later."""


class LastResult:
    """Stands in with the last result again."""

    def __init__(self) -> None:
        self._result = None
        self.evidence_s: float | None = None

    def follow(self, image_size: tuple[int, int]) -> None:
        """Changes nothing: no result is in px."""

    def update(self, result, stamp_s: float) -> None:
        """See `StandIn.update`."""
        self._result, self.evidence_s = result, stamp_s

    def predict(self, stamp_s: float):
        """See `StandIn.predict`."""
        return self._result

    def advance(self, result, by_s: float):
        """Changes nothing, as `follow`."""
        return result


@dataclass(frozen=True, eq=False)
class Outlook:
    """What frames are decided by while the slowdown lies in one range.

    Attributes:
        slowdown: where the range begins, >= 1.
        forecast: expected times of the paths over the slowdown: times it, those to expect.
        policy: chooses paths by that forecast.
    """

    slowdown: float
    forecast: Forecast
    policy: Policy


@dataclass(frozen=True, eq=False)
class Task:
    """See the module. It is triggered by whoever hands its pipeline an image.

    Attributes:
        network: `path_space`, `class_names`, and `start(image, path)` for a run.
        forecast: expected idle times of its paths.
        policy: chooses its paths, by their quality.
        calibrator: calibration factor of its bounds.
        result_type: of what its runs give.
        outlooks: for contention, ascending; where there is none `forecast` and `policy` serve every slowdown.
    """

    network: object
    forecast: Forecast
    policy: Policy
    calibrator: BoundCalibrator
    result_type: type = Detections
    outlooks: tuple[Outlook, ...] = ()

    @cached_property
    def rests(self) -> RestCalibrators:
        """Calibration factors of what is left of a frame."""
        return RestCalibrators(self.calibrator, len(self.path_space.segments))

    def outlook(self, slowdown: float) -> Outlook:
        """What a frame is decided by at a slowdown."""
        at = bisect_right(self.outlooks, slowdown, key=lambda outlook: outlook.slowdown)
        return self.outlooks[at - 1] if at else Outlook(1.0, self.forecast, self.policy)

    def met_forecast_ms(self, path: ExecutionPath, took_ms: float) -> float:
        """Expected time of a path over the slowdown, at the slowdown that a frame has met that took so long.

        What it took over this is that slowdown, at whatever other one it was decided: so one frame tells it.
        """
        met = self.forecast.forecast_ms(path)
        for outlook in self.outlooks:
            forecast_ms = outlook.forecast.forecast_ms(path)
            if forecast_ms * outlook.slowdown > took_ms:
                break
            met = forecast_ms
        return met

    @property
    def path_space(self) -> PathSpace:
        """All paths of the network."""
        return self.network.path_space

    def make_stand_in(self, max_age_s: float) -> StandIn:
        """Coasted tracks for objects, not shown for longer than that; the last result for all others."""
        return Tracks(max_age_s=max_age_s) if self.result_type is Detections else LastResult()
