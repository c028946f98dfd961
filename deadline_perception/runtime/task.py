"""A task of the runtime: one network with all that its frames are decided by, and what stands in when it is late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from deadline_perception.core.detections import Detections
from deadline_perception.decision.policy import Policy
from deadline_perception.decision.scene import Scene
from deadline_perception.engines.segment_run import Network
from deadline_perception.runtime.tracks import Tracks
from deadline_perception.timing.time_model import TimeModel


class Fallback(Protocol):
    """What is published for an image whose own result does not come in time, made of the results before.

    Attributes:
        evidence_s: time of the newest result; None while there is nothing to go on from.
    """

    evidence_s: float | None

    def follow(self, image_size: tuple[int, int]) -> None:
        """Takes in the height and width of the images, px."""

    def update(self, result: Any, stamp_s: float) -> Any:
        """Takes in an own result of an image; gives what is published of it, such as with the ids of tracks."""

    def settle(self) -> None:
        """Does what is left of that, once the answer is out."""

    def predict(self, stamp_s: float) -> Any:
        """What to publish for a time; None when there is nothing yet."""


class LastResult:
    """Stands in with the last result again."""

    def __init__(self) -> None:
        self._result: Any = None
        self.evidence_s: float | None = None

    def follow(self, image_size: tuple[int, int]) -> None:
        """Changes nothing: no result is in px."""

    def update(self, result: Any, stamp_s: float) -> Any:
        self._result = result
        self.evidence_s = stamp_s
        return result

    def settle(self) -> None:
        """Has nothing left to do."""

    def predict(self, stamp_s: float) -> Any:
        return self._result


@dataclass(frozen=True, eq=False)
class Task:
    """See the module. It is triggered by whoever hands its pipeline an image.

    Attributes:
        network: `path_space`, `class_names`, and `start(image, path)` for a run.
        policy: chooses its paths, by their quality.
        times: expected times and bounds of its paths.
        scene: receives what the frames hold, where the policy weighs its paths by that.
    """

    network: Network
    policy: Policy
    times: TimeModel
    scene: Scene | None = None

    def make_fallback(self) -> Fallback:
        """Coasted tracks for objects; the last result for all others."""
        return Tracks() if self.network.result_type is Detections else LastResult()
