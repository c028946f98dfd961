"""Images of one camera into a detector, answers out: one by one, or the newest whenever it is free."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.segment_run import check_image
from deadline_perception.runtime.answer import Answer
from deadline_perception.runtime.conditions import SlowdownTracker
from deadline_perception.runtime.job import (
    MAX_BUDGET_MS,
    Conditions,
    Job,
    JobRecord,
    Stage,
    StampReading,
)
from deadline_perception.runtime.pipeline import FrameClient, FramePipeline
from deadline_perception.runtime.task import Task

_LOOK_S = 0.5  # how often a waiting caller looks whether the stream was closed
_MOST_AGE_MS = 60_000.0
_LOG = logging.getLogger('deadline_perception')


class StreamClosed(DeadlinePerceptionError):
    """The stream or its detector is closed, and takes no images."""


class Superseded(DeadlinePerceptionError):
    """A newer image took the place of one that waited."""


@dataclass(frozen=True, eq=False)
class _Submitted:
    image_bgr: np.ndarray
    budget_ms: float
    on_answer: Callable[[Answer], None]


class DetectionStream(FrameClient):
    """Made by `DeadlineDetector.stream`; a context that closes it.

    `submit` never waits. An image that a newer one finds waiting is superseded; every other one is answered by its
    deadline, with its own result or with coasted tracks of earlier images, which go on from image to image. The
    network goes on with an image that was answered by tracks, where that does not cost the next one its deadline.

    Args:
        task: of the detector.
        on_answer: called with each answer on a thread of the detector, which it holds up: leave long work to another.
        on_late_record: told of a result that came after its image was answered, on the thread of inference.

    Attributes:
        pipeline: that answers; set by whoever opens it.
        slowdown: factor >= 1 of contention that is assumed; None: what frames, and `hear_contention`, have told.
        failures: errors of network or callback that have been logged.
    """

    def __init__(
        self,
        task: Task,
        on_answer: Callable[[Answer], None] = lambda answer: None,
        on_late_record: Callable[[JobRecord], None] = lambda record: None,
    ) -> None:
        self._task, self._on_answer, self._on_late_record = task, on_answer, on_late_record
        self._tracker = SlowdownTracker()
        self._result = threading.local()  # of the image that this thread is publishing
        self._one_at_a_time = threading.Lock()
        self.pipeline: FramePipeline | None = None
        self.close: Callable[[], object] = lambda: None
        self.slowdown: float | None = None
        self.failures = 0

    def submit(
        self,
        image_bgr: np.ndarray,
        stamp_ns: int,
        budget_ms: float,
        *,
        age_ms: float = 0.0,
        dropped: int = 0,
    ) -> None:
        """Leaves an image; does not wait.

        Args:
            image_bgr: uint8 `[H, W, 3]`, which must not change until it is answered.
            stamp_ns: time of capture on any clock, along which tracks are moved; 0 where it is not known.
            budget_ms: longest time from capture to answer, in (0, 60000].
            age_ms: time that has passed since the capture, in [0, 60000].
            dropped: images that were left out since the one before.

        Raises:
            ValueError: a value lies outside its range.
            StreamClosed: the stream is closed.
        """
        self._arrive(image_bgr, stamp_ns, budget_ms, now_ms(), age_ms, dropped, self._on_answer)

    def detect(
        self,
        image_bgr: np.ndarray,
        budget_ms: float,
        *,
        stamp_ns: int = 0,
        age_ms: float = 0.0,
        dropped: int = 0,
    ) -> Answer:
        """Waits for the answer of an image, see `submit`; images of several threads are answered one by one, and what
        one waits for its turn counts against its budget.

        Raises:
            ValueError: a value lies outside its range.
            StreamClosed: the stream is closed, or was while the image waited.
            Superseded: an image that was submitted took the place of this one while it waited.
        """
        called_ms = now_ms()
        answer: SimpleQueue[Answer] = SimpleQueue()
        with self._one_at_a_time:
            job = self._arrive(
                image_bgr, stamp_ns, budget_ms, called_ms, age_ms, dropped, answer.put
            )
            while True:
                try:
                    return answer.get(timeout=_LOOK_S)
                except Empty:
                    if self.pipeline.stopped:
                        raise StreamClosed(
                            'the stream was closed before the image was answered'
                        ) from None
                    if job.stage is Stage.SUPERSEDED:
                        raise Superseded(
                            'a newer image of the stream took the place of this one before its turn '
                            'came'
                        ) from None

    def hear_contention(self, slowdown: float, source: str) -> None:
        """Takes in by what factor other programs slow the machine down, as somebody else has measured it.

        Raises:
            ValueError: it is no factor of at least 1.
        """
        self._tracker.hear_contention(slowdown, source)

    def _arrive(
        self,
        image_bgr: np.ndarray,
        stamp_ns: int,
        budget_ms: float,
        called_ms: float,
        age_ms: float,
        dropped: int,
        on_answer: Callable[[Answer], None],
    ) -> Job:
        if not isinstance(image_bgr, np.ndarray):
            raise ValueError(
                f'image is {type(image_bgr).__name__}, expected a numpy array, uint8 [height, width, 3]'
            )
        check_image(image_bgr)
        if not 0.0 < budget_ms <= MAX_BUDGET_MS:
            raise ValueError(
                f'budget is {budget_ms} ms, expected a time in (0, {MAX_BUDGET_MS:.0f}] ms'
            )
        if not 0.0 <= age_ms <= _MOST_AGE_MS:
            raise ValueError(
                f'age of the image is {age_ms} ms, expected a time in [0, {_MOST_AGE_MS:.0f}] ms'
            )
        if stamp_ns < 0 or dropped < 0:
            raise ValueError(
                f'stamp is {stamp_ns} ns and {dropped} images were dropped, expected numbers of at least '
                f'0'
            )
        pipeline = self.pipeline
        if pipeline is None or pipeline.stopped or pipeline.closing:
            raise StreamClosed('the stream is closed, expected it to be open')
        # An image counts as arrived when it was captured, so that the time between two of them is the camera's. What
        # a call waited for its turn is its age: arrivals of several threads are in the order of their answers.
        arrived_ms = now_ms()
        job = Job(
            _Submitted(image_bgr, float(budget_ms), on_answer),
            arrived_ms - age_ms,
            StampReading(arrived_ms - called_ms, '', stamp_ns),
            dropped,
        )
        pipeline.arrive(job)
        return job

    # --- FrameClient ---

    def conditions(self, job: Job) -> Conditions:
        budget_ms = job.message.budget_ms
        if self.slowdown is not None:
            return Conditions(budget_ms, self.slowdown, '')
        slowdown, source, reason = self._tracker.now()
        return Conditions(budget_ms, slowdown, source, (reason,) if reason else ())

    def convert(self, job: Job) -> np.ndarray:
        return job.message.image_bgr

    def publish(self, job: Job, result: object) -> None:
        """See `FrameClient`: the answer follows with its record."""
        self._result.published = job.message, result

    def on_record(self, record: JobRecord) -> None:
        self._tracker.hear_frame(record)
        message, result = self._result.__dict__.pop('published', (None, None))
        if (
            message is not record.message
        ):  # nothing was published for this one, or by another thread
            result = None
        if result is None and self._task.result_type is Detections:
            result = Detections.none()
        record.message.on_answer(Answer(result, tuple(self._task.network.class_names), record))

    def on_late_record(self, record: JobRecord) -> None:
        self._tracker.hear_frame(record)
        self._on_late_record(record)

    def on_failure(self, error: Exception) -> None:
        self.failures += 1
        _LOG.error('a frame failed: %s: %s', type(error).__name__, error)

    def on_notice(self, words: str) -> None:
        _LOG.warning(words)

    def __enter__(self) -> DetectionStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
