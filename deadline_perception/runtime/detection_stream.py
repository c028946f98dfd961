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
from deadline_perception.core.number import is_count, number_or_nan, told_value
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.segment_run import check_image
from deadline_perception.runtime.answer import Answer
from deadline_perception.runtime.conditions import SlowdownTracker
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.job import (
    MAX_BUDGET_MS,
    NO_LIMIT_MS,
    Conditions,
    Job,
    JobRecord,
    Stage,
    StampReading,
)
from deadline_perception.runtime.pipeline import FrameClient, FramePipeline
from deadline_perception.runtime.task import Task

_LOOK_S = 0.5  # how often a waiting caller looks whether the stream was closed
_LOST_MS = 2000.0  # past its deadline, from which nobody is expected to answer an image any more
_MOST_AGE_MS = 60_000.0
_LOG = logging.getLogger('deadline_perception')


class StreamClosed(DeadlinePerceptionError):
    """The stream or its detector is closed, and takes no images."""


class NoAnswer(DeadlinePerceptionError):
    """The threads that answer have ended, or the answer could not be made."""


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
        on_late_record: called with a result that came after its image was answered, on the thread of inference.

    Attributes:
        pipeline, executor: that answer; set by whoever opens the stream.
        failures: errors of network or callback that have been logged.
    """

    def __init__(
        self,
        task: Task,
        on_answer: Callable[[Answer], None],
        on_late_record: Callable[[JobRecord], None],
    ) -> None:
        self._task = task
        self._on_answer = on_answer
        self._on_late_record = on_late_record
        self._tracker = SlowdownTracker()
        self._result = threading.local()  # of the image that this thread is publishing
        self._one_at_a_time = threading.Lock()
        self.pipeline: FramePipeline | None = None
        self.executor: Executor | None = None
        self.close: Callable[[], object] = lambda: None
        self.failures = 0

    def submit(
        self,
        image_bgr: np.ndarray,
        stamp_ns: int,
        budget_ms: float | None,
        *,
        age_ms: float = 0.0,
        dropped: int = 0,
    ) -> None:
        """Leaves an image; does not wait.

        Args:
            image_bgr: uint8 `[H, W, 3]`, which must not change until it is answered.
            stamp_ns: time of capture on any clock, along which tracks are moved; 0 where it is not known.
            budget_ms: longest time from capture to answer, in (0, 60000]; None for no limit.
            age_ms: time that has passed since the capture, in [0, 60000].
            dropped: images that were dropped since the one before.

        Raises:
            ValueError: a value lies outside its range.
            StreamClosed: the stream is closed.
        """
        self._check_process()
        self._arrive(image_bgr, stamp_ns, budget_ms, now_ms(), age_ms, dropped, self._on_answer)

    def detect(
        self,
        image_bgr: np.ndarray,
        budget_ms: float | None,
        *,
        stamp_ns: int = 0,
        age_ms: float = 0.0,
        dropped: int = 0,
        is_alone: bool = False,
    ) -> Answer:
        """Waits for the answer of an image, see `submit`; images of several threads are answered one by one, and what
        one waits for its turn counts against its budget.

        Args:
            image_bgr, budget_ms, stamp_ns, age_ms, dropped: see `submit`.
            is_alone: it belongs to no sequence, so that its answer holds nothing of other images: it is empty where
                its own result is not in time although that was promised, and late where nothing was.

        Raises:
            ValueError: a value lies outside its range.
            StreamClosed: the stream is closed, or was while the image waited.
            Superseded: an image that was submitted took the place of this one while it waited.
            NoAnswer: the threads that answer have ended.
        """
        self._check_process()
        called_ms = now_ms()
        answer: SimpleQueue[Answer] = SimpleQueue()
        with self._one_at_a_time:
            job = self._arrive(
                image_bgr,
                stamp_ns,
                budget_ms,
                called_ms,
                age_ms,
                dropped,
                answer.put,
                is_alone=is_alone,
            )
            lost = ''
            while True:
                try:
                    return answer.get(timeout=_LOOK_S)
                except Empty:
                    if self.pipeline is None or self.pipeline.stopped:
                        raise StreamClosed(
                            'the stream was closed before the image was answered'
                        ) from None
                    if job.stage is Stage.SUPERSEDED:
                        raise Superseded(
                            'a newer image of the stream took the place of this one before its turn '
                            'came'
                        ) from None
                    lost, was_lost = self._lost(job), bool(lost)
                    if lost and was_lost:  # twice: a process that was stopped is behind once
                        raise NoAnswer(
                            f'the image was not answered by its deadline, nor will be: {lost}; close the detector, '
                            f'and make another one'
                        ) from None

    def _check_process(self) -> None:
        """Makes sure that this is no fork, where locks may be held for ever."""
        if self.executor is not None and self.executor.left_behind:
            raise StreamClosed(self.executor.left_behind)

    def _lost(self, job: Job) -> str:
        """Why nobody answers an image any more that should have been long ago; empty while somebody may."""
        if now_ms() < max(job.deadline_ms, job.fallback_ms) + _LOST_MS:
            return ''
        fault = '' if self.executor is None else self.executor.fault
        is_open = self.pipeline is not None and self.pipeline.is_open(job)  # it is tried again
        return fault or ('' if is_open else 'its answer could not be made, see the log')

    def on_contention(self, slowdown: float, source: str) -> None:
        """Takes in by what factor other programs slow the machine down, as somebody else has measured it.

        Raises:
            ValueError: it is no factor of at least 1.
        """
        self._tracker.on_contention(slowdown, source)

    def _arrive(
        self,
        image_bgr: np.ndarray,
        stamp_ns: int,
        budget_ms: float | None,
        called_ms: float,
        age_ms: float,
        dropped: int,
        on_answer: Callable[[Answer], None],
        *,
        is_alone: bool = False,
    ) -> Job:
        check_image(image_bgr)
        if budget_ms is not None and not 0.0 < number_or_nan(budget_ms) <= MAX_BUDGET_MS:
            raise ValueError(
                f'budget is {told_value(budget_ms)} ms, expected a time in (0, {MAX_BUDGET_MS:.0f}] ms, or None '
                f'for no limit'
            )
        if not 0.0 <= number_or_nan(age_ms) <= _MOST_AGE_MS:
            raise ValueError(
                f'age of the image is {told_value(age_ms)} ms, expected a time in [0, {_MOST_AGE_MS:.0f}] ms'
            )
        if not is_count(stamp_ns) or not is_count(dropped):
            raise ValueError(
                f'stamp is {told_value(stamp_ns)} ns and {told_value(dropped)} images were dropped, expected whole '
                f'numbers of at least 0'
            )
        pipeline = self.pipeline
        if pipeline is None or pipeline.stopped or pipeline.closing:
            raise StreamClosed('the stream is closed, expected it to be open')
        # An image counts as arrived when it was captured, so that the time between two of them is the camera's. What
        # a call waited for its turn is its age: arrivals of several threads are in the order of their answers.
        arrived_ms = now_ms()
        job = Job(
            _Submitted(
                image_bgr, NO_LIMIT_MS if budget_ms is None else float(budget_ms), on_answer
            ),
            arrived_ms - float(age_ms),
            StampReading(arrived_ms - called_ms, '', int(stamp_ns)),
            int(dropped),
            is_alone=is_alone,
        )
        pipeline.arrive(job)
        return job

    # --- FrameClient ---

    def conditions(self, job: Job) -> Conditions:
        slowdown, source, reason = self._tracker.now()
        return Conditions(job.message.budget_ms, slowdown, source, (reason,) if reason else ())

    def convert(self, job: Job) -> np.ndarray:
        return job.message.image_bgr

    def publish(self, job: Job, result: object) -> None:
        """See `FrameClient`: the answer follows with its record."""
        self._result.published = job.message, result

    def on_record(self, record: JobRecord) -> None:
        self._tracker.on_frame(record)
        message, result = self._result.__dict__.pop('published', (None, None))
        if (
            message is not record.message
        ):  # nothing was published for this one, or by another thread
            result = None
        if result is None and self._task.network.result_type is Detections:
            result = Detections.none()
        record.message.on_answer(Answer(result, tuple(self._task.network.class_names), record))

    def on_late_record(self, record: JobRecord) -> None:
        self._tracker.on_frame(record)
        self._on_late_record(record)

    def on_failure(self, error: BaseException) -> None:
        self.failures += 1
        _LOG.error('a frame failed: %s: %s', type(error).__name__, error)

    def on_notice(self, words: str) -> None:
        _LOG.warning(words)

    def __enter__(self) -> DetectionStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
