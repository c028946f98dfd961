"""Where the images of a pipeline come from and its answers go, and the rules by which it answers."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deadline_perception.runtime.job import Conditions, Job, JobRecord
from deadline_perception.runtime.tracks import LatePolicy


class FrameClient(Protocol):
    """Whose images a `FramePipeline` answers: a node, a stream of the Python API, a benchmark.

    Its methods are called on the worker, those that publish or tell also on a thread of the watchdog. Whoever derives
    from it leaves out what it does not need.
    """

    def conditions(self, job: Job) -> Conditions:
        """Budget of an image and contention now; asked at its arrival, and again when the worker takes it."""

    def convert(self, job: Job) -> np.ndarray | None:
        """The image as uint8 BGR `[H, W, 3]`; None when it is rejected, which then is no frame."""

    def publish(self, job: Job, result: object) -> None:
        """Publishes the result of an image; not called where there is none and nothing to coast."""

    def on_record(self, record: JobRecord) -> None:
        """Is told all that is known about a frame, after its result, on the same thread."""

    def on_late_record(self, record: JobRecord) -> None:
        """Is told of a result that came after its image was answered."""

    def on_ready(self) -> None:
        """Another image can be used; called on any thread."""

    def on_failure(self, error: Exception) -> None:
        """Is told an error of conversion, network or publication; the next frame is served."""

    def on_notice(self, words: str) -> None:
        """Is told what a person should know and concerns no frame."""


@dataclass(frozen=True)
class FrameRules:
    """How images are answered.

    Attributes:
        min_score: objects and classes of a lower score are left out of every result, in [0, 1].
        late_policy: what is published when a result is not in time.
        max_coasted: after so many frames in a row without a result of the network, one is run to its end, whatever
            waits, >= 0.
        spare_next_image: take a path that is expected to end before an image comes, the next one if that is possible,
            rather than the best one that fits the budget.

    Raises:
        ValueError: a number lies outside its range.
    """

    min_score: float = 0.0
    late_policy: LatePolicy = LatePolicy.COASTED
    max_coasted: int = 3
    spare_next_image: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.min_score <= 1.0:
            raise ValueError(f'min_score is {self.min_score}, expected a number in [0, 1]')
        if not self.max_coasted >= 0:
            raise ValueError(f'max_coasted is {self.max_coasted}, expected a number of at least 0')
