"""What a program is told about one image: what was found, how, and whether in time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from deadline_perception.core.detections import Classification, Detections
from deadline_perception.runtime.job import NO_LIMIT_MS, JobRecord, Outcome


class FoundObject(NamedTuple):
    """One object of an answer: its class, score in [0, 1], and float32 `[4]` corners in px of the image."""

    name: str
    score: float
    box_xyxy_px: np.ndarray


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to one image.

    Attributes:
        result: objects, or scores of classes; None where a network of other results had none to give.
        class_names: what its labels mean.
        record: all that is known about the frame.
    """

    result: Detections | Classification | Any | None
    class_names: tuple[str, ...]
    record: JobRecord

    def __repr__(self) -> str:
        when = 'in time' if self.in_time else self.outcome.name.lower()
        found = f'{len(self.names)} objects, ' if isinstance(self.result, Detections) else ''
        path = self.path or 'no path'
        return f'<Answer {found}{path}, {self.latency_ms:.1f} of {self.budget_ms:g} ms, {when}>'

    def __getstate__(self) -> dict[str, Any]:
        """Without the image, and what waits for the answer, which cannot leave the process."""
        return {**self.__dict__, 'record': replace(self.record, message=None)}

    def __len__(self) -> int:
        """Objects that it holds; 0 for a network that finds none."""
        return len(self.boxes_xyxy_px)

    def __bool__(self) -> bool:
        """Always true: an image without objects was answered, too."""
        return True

    def __iter__(self) -> Iterator[FoundObject]:
        """Its objects, most certain first."""
        for box, score, label in zip(self.boxes_xyxy_px, self.scores, self.labels, strict=False):
            yield FoundObject(self.class_names[label], float(score), box)

    @property
    def labels(self) -> np.ndarray:
        """int64 `[N]`, index of each object's class; `[0]` for a network that finds no objects."""
        return self.result.labels if isinstance(self.result, Detections) else np.zeros(0, np.int64)

    @property
    def boxes_xyxy_px(self) -> np.ndarray:
        """float32 `[N, 4]`; `[0, 4]` for a network that finds no objects."""
        return (
            self.result.boxes_xyxy_px
            if isinstance(self.result, Detections)
            else np.zeros((0, 4), np.float32)
        )

    @property
    def scores(self) -> np.ndarray:
        """float32 `[N]` in [0, 1], of each box, or of each class for a network that classifies the whole image."""
        return np.zeros(0, np.float32) if self.result is None else self.result.scores

    @property
    def names(self) -> tuple[str, ...]:
        """The class that belongs to each score."""
        if isinstance(self.result, Detections):
            return tuple(self.class_names[label] for label in self.result.labels)
        return () if self.result is None else self.class_names

    @property
    def outcome(self) -> Outcome:
        """`DETECTED`: its own result, in time. `COASTED`: tracks of earlier images, moved on, because its own result
        was not in time. `LATE`: its own result after the deadline, which only happens where rules ask for it."""
        return self.record.outcome

    @property
    def in_time(self) -> bool:
        """Its own result came within the budget."""
        return self.record.is_in_time

    @property
    def path(self) -> str:
        """The execution path that ran; empty where the time was up before one was planned."""
        return '' if self.record.path is None else str(self.record.path)

    @property
    def passes(self) -> tuple[str, ...]:
        """Passes of the network that the answer holds, such as `coarse` and `fine`; none where the network has none, or
        the answer is not the image's own."""
        return self.record.results

    @property
    def feasible(self) -> bool:
        """A path was bound to fit when this image was planned; the promise is about such images."""
        return self.record.feasible

    @property
    def bound_ms(self) -> float:
        """Bound of the network's time on that path; NaN without one."""
        return float(self.record.bound_ms)

    @property
    def network_ms(self) -> float:
        """Time that the network took of it until the answer."""
        return float(self.record.network_ms)

    @property
    def latency_ms(self) -> float:
        """From the capture, or from the submission where its age is not known, to the answer."""
        return float(self.record.total_ms)

    @property
    def budget_ms(self) -> float:
        """Longest allowed latency; infinite without a limit."""
        budget_ms = self.record.conditions.budget_ms
        return math.inf if budget_ms >= NO_LIMIT_MS else budget_ms

    @property
    def superseded(self) -> int:
        """Images before this one that got no answer of their own, because it was there before their turn came."""
        return self.record.superseded

    @property
    def reason(self) -> str:
        """One line for a person: why this path, or why not in time."""
        return self.record.explanation
