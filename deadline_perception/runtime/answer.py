"""What a program receives about one image: what was found, how, and whether in time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from deadline_perception.core.detections import Classification, Detections
from deadline_perception.core.images.annotate import annotate
from deadline_perception.engines.segment_run import check_image
from deadline_perception.runtime.job import NO_LIMIT_MS, JobRecord, Outcome


class FoundObject(NamedTuple):
    """One object of an answer: its class, score in [0, 1], float32 `[4]` corners in px of the image, and track."""

    name: str
    score: float
    box_xyxy_px: np.ndarray
    id: int = -1


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
        when = 'in time' if self.in_time else f'{self.outcome.name.lower()}, missed'
        found = f'{len(self.names)} objects, ' if isinstance(self.result, Detections) else ''
        path = self.path or 'no path'
        limit = f' of {self.budget_ms:g}' * math.isfinite(self.budget_ms)
        return f'<Answer {found}{path}, {self.latency_ms:.1f}{limit} ms, {when}>'

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
        for box, score, label, track in zip(
            self.boxes_xyxy_px, self.scores, self.labels, self.ids.tolist(), strict=False
        ):
            yield FoundObject(self.class_names[label], float(score), box, track)

    @property
    def objects(self) -> Detections:
        """What was found; none for a network that finds no objects."""
        return self.result if isinstance(self.result, Detections) else Detections.none()

    @property
    def labels(self) -> np.ndarray:
        """int64 `[N]`, index of each object's class; `[0]` for a network that finds no objects."""
        return self.objects.labels

    @property
    def ids(self) -> np.ndarray:
        """int64 `[N]`, the same number, from 1 on, for the same object in all answers of a stream, also in those that
        hold coasted tracks, and after images that missed it for up to half a second; -1 where it is followed by none: in
        an image of its own (`detect` without a stamp)."""
        return self.objects.ids

    @property
    def boxes_xyxy_px(self) -> np.ndarray:
        """float32 `[N, 4]`; `[0, 4]` for a network that finds no objects."""
        return self.objects.boxes_xyxy_px

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
        """`DETECTED`: its own result, in time unless it was held up as it was published. `COASTED`: tracks of earlier
        images, moved on, because its own result was not in time. `LATE`: its own result after the deadline, of an image
        of its own that was promised nothing, or where rules ask for it."""
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
    def feasible(self) -> bool:
        """The bound of a path fitted when this image was planned; the promise is about such images."""
        return self.record.feasible

    @property
    def is_promised(self) -> bool:
        """The same, and bounds rest on frames that were measured: not for the first few of a detector."""
        return self.feasible and self.record.rests_on_frames

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

    def draw(self, image_bgr: np.ndarray | None = None) -> np.ndarray:
        """A picture of it: the image with boxes, and below it a strip with time and path.

        Args:
            image_bgr: uint8 `[H, W, 3]`; None: the image that was answered, which an answer from another process lacks.

        Returns:
            uint8 `[H + strip, W, 3]`, a copy.

        Raises:
            ValueError: the image is of another form, or there is none.
        """
        own = getattr(self.record.message, 'image_bgr', None)
        image: Any = own if image_bgr is None else image_bgr
        check_image(image)
        return annotate(
            image,
            self.objects,
            self.class_names,
            budget_ms=self.budget_ms,
            bound_ms=self.latency_ms - self.network_ms + self.bound_ms,
            latency_ms=self.latency_ms,
            path=self.path,
            operators=self.record.operators,
            outcome=self.outcome.name.lower(),
            met=self.in_time,
        )

    def to_json(self) -> str:
        """All of it as a JSON object; what is not a finite number is null."""
        names = 'in_time path feasible is_promised bound_ms network_ms latency_ms budget_ms superseded reason'
        content = {name: getattr(self, name) for name in names.split()}
        content['outcome'] = self.outcome.name
        if isinstance(self.result, Classification):
            content['classes'] = dict(zip(self.class_names, self.scores.tolist(), strict=True))
        content['objects'] = [
            {**found._asdict(), 'box_xyxy_px': found.box_xyxy_px.tolist()} for found in self
        ]
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in content.items()
        }
        return json.dumps(finite, allow_nan=False)

    def to_coco(self, image_id: int = 1) -> list[dict[str, Any]]:
        """Its objects as annotations and results of COCO: boxes are left, top, width and height in px, and the category
        of a class is its place in `class_names` + 1; `track_id` only where there is one.

        Args:
            image_id: of the image.
        """
        rows = []
        for found, label in zip(self, self.labels.tolist(), strict=True):
            left, top, right, bottom = (round(side, 2) for side in found.box_xyxy_px.tolist())
            width = round(right - left, 2)
            height = round(bottom - top, 2)
            row = {
                'image_id': image_id,
                'category_id': label + 1,
                'iscrowd': 0,
                'bbox': [left, top, width, height],
                'area': round(width * height, 2),
                'score': round(found.score, 4),
            }
            rows.append(row if found.id < 0 else {**row, 'track_id': found.id})
        return rows

    def to_supervision(self) -> Any:
        """Its objects as `supervision.Detections`, with `tracker_id` where objects are followed.

        Raises:
            ImportError: supervision is not installed.
        """
        try:
            import supervision
        except ImportError as error:
            raise ImportError('supervision is not there: pip install supervision') from error
        return supervision.Detections(
            xyxy=self.boxes_xyxy_px,
            confidence=self.objects.scores,
            class_id=self.labels,
            tracker_id=self.ids if (self.ids > 0).all() else None,
            data={'class_name': np.array(self.names[: len(self)], dtype=str)},
        )
