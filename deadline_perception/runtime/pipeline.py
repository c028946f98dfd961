"""Frames of one task from their arrival to published results: a worker computes, a watchdog answers in its place.

Free of ROS: messages pass through as they are, and publishing is a call that is given. Nobody holds a lock while an
image is converted, a network runs or a message is published, so that whatever hangs there, the watchdog does not.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.number import number_or_nan, told_value
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.runtime.job import (
    Conditions,
    Job,
    JobRecord,
    LatePolicy,
    Outcome,
    ResultSoFar,
    Stage,
)
from deadline_perception.runtime.mailbox import Mailbox
from deadline_perception.runtime.task import Task
from deadline_perception.runtime.timed_inference import (
    ImagePeriod,
    InferenceRun,
    NextImages,
    TimedInference,
)
from deadline_perception.runtime.watchdog import Act, Watchdog

# An image that still waits so shortly before its deadline has no hope of a result of its own, so the watchdog need not
# cut it fine: a part of the budget, and the most of it.
HOPELESS_SHARE = 0.1
HOPELESS_MS = 20.0
MAX_ATTEMPTS = 4  # to publish one answer
# Frames in a row without a result of the network, after which one is run to its end, whatever waits.
MAX_COASTED = 3
LATE_GRACE_MS = 1000.0  # past the deadline, or past the frame's begin, that the network may go on


class FrameClient(Protocol):
    """Whose images a `FramePipeline` answers: a node, a stream of the Python API, a benchmark.

    Its methods are called on the worker, those that publish or tell also on a thread of the watchdog. Whoever derives
    from it leaves out what it does not need.
    """

    def conditions(self, job: Job) -> Conditions:
        """Budget of an image and contention now; asked once, at its arrival."""

    def convert(self, job: Job) -> np.ndarray | None:
        """The image as uint8 BGR `[H, W, 3]`; None when it is rejected, which then is no frame."""

    def publish(self, job: Job, result: object) -> None:
        """Publishes the result of an image; not called where there is none and nothing to coast."""

    def on_record(self, record: JobRecord) -> None:
        """Receives all that is known about a frame, after its result, on the same thread."""

    def on_late_record(self, record: JobRecord) -> None:
        """Receives a result that came after its image was answered."""

    def on_ready(self) -> None:
        """Another image can be used; called on any thread."""
        return

    def on_failure(self, error: BaseException) -> None:
        """Receives an error of conversion, network or publication; the next frame is served."""

    def on_notice(self, words: str) -> None:
        """Receives what a person should know and concerns no frame."""


@dataclass(frozen=True)
class FrameRules:
    """How images are answered.

    Attributes:
        min_score: objects and classes of a lower score are dropped from every result, in [0, 1].
        late_policy: what is published when a result is not in time.
        spare_next_image: take a path that is expected to end before an image comes, the next one if that is possible,
            rather than the best one that fits the budget.

    Raises:
        ValueError: a value lies outside its range.
    """

    min_score: float = 0.0
    late_policy: LatePolicy = LatePolicy.COASTED
    spare_next_image: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= number_or_nan(self.min_score) <= 1.0:
            raise ValueError(
                f'min_score is {told_value(self.min_score)}, expected a number in [0, 1]'
            )
        if not isinstance(self.late_policy, LatePolicy):
            raise ValueError(f'late_policy is {self.late_policy!r}, expected one of LatePolicy')


class FramePipeline:
    """Takes the images of one task through conversion, network and publication; answers in time whatever happens.

    An image is answered once, unless it is rejected or replaced by a newer one before a worker took it. When its time
    is up, the watchdog answers with the newest result of this image, and only where there is none with what was found
    in those before; so it does for the newest image that waits, when the time of the
    first one that it replaced is up. Only a publication that takes past the deadline may be heard beside one in its
    place.

    An image of no sequence has no fallback: where no path's bound fits, or bounds do not rest on frames yet, its own
    result is awaited, until the bound and `LATE_GRACE_MS` have passed; one of its first look is given when it is due.

    The network goes on with an image that was answered without it, on the best path that is expected to end
    before the next image, else on the cheapest; also with one that nobody took until then. Its result is not published,
    because an image has one answer: it renews what stands in for the next one, and slowdown and calibration learn
    from it. It is aborted only where the next image could be in time without it and not with it, or another task has
    an image to be in time with.

    Args:
        task: network, forecast, policy, calibrator and fallback.
        client: whose images are answered.
        rules: how.
        mailbox: where its frames wait for a worker.
        watchdog: armed for what is due; it calls `next_due`.

    Attributes:
        arrived: images that came, those dropped before them included.
        replaced: of these, the ones that a newer one replaced.
        unpublished: images whose answer could not be published.
        late_results: results that came after their image was answered.
        busy_since_ms: since when the worker has had its frame; None while it has none.
        stopped: nothing is answered any more.
        closing: no further image is taken.
    """

    def __init__(
        self,
        task: Task,
        client: FrameClient,
        rules: FrameRules,
        mailbox: Mailbox[FramePipeline, Job],
        watchdog: Watchdog,
    ) -> None:
        self._task = task
        self._client = client
        self._rules = rules
        self._mailbox = mailbox
        self._watchdog = watchdog
        self._inference = TimedInference(task.network, task.policy, min_score=rules.min_score)
        self._fallback = task.make_fallback()
        self._lock = (
            threading.Lock()
        )  # of all below and of the fallback; never held over a call that may hang
        self.stopped = self.closing = False
        self._open: list[Job] = []  # arrived, and neither answered, replaced nor rejected
        self._period = ImagePeriod()
        self._grace_ms = LATE_GRACE_MS if rules.late_policy is LatePolicy.LATE else 0.0
        self._last_captured_ms: float | None = None
        self._not_told = 0  # frames that a rejected one had replaced
        self._coasted = 0
        self.arrived = self.replaced = self.unpublished = self.late_results = 0
        self.busy_since_ms: float | None = None
        watchdog.watch(self.next_due)

    # --- on the thread that receives ---

    @property
    def wants_image(self) -> bool:
        """No image is at work or waits: a further one would not only replace or age."""
        return not self._open

    def arrive(self, frame: Job) -> None:
        """Leaves an image for the worker; never blocks."""
        frame.conditions = self._client.conditions(frame)
        frame.phases = self._task.network.path_space.phases
        frame.deadline_ms = frame.captured_ms + frame.conditions.budget_ms
        with self._lock:
            if self.stopped or self.closing:
                return
            reserve_ms = self._task.times.reserve.publishing_ms
            reserve_ms += min(HOPELESS_SHARE * frame.conditions.budget_ms, HOPELESS_MS)
            frame.fallback_ms = frame.deadline_ms - reserve_ms + self._grace_ms
            if frame.dropped and self._last_captured_ms is not None:
                # Those dropped came at even distances, as far as is known; the first of them is due first.
                passed_ms = max(0.0, frame.captured_ms - self._last_captured_ms)
                frame.fallback_ms -= passed_ms * frame.dropped / (frame.dropped + 1)
            # One that is too old is due at once, not before; of no sequence, once a worker could take it.
            frame.fallback_ms = max(frame.fallback_ms, _planned_ms(frame, now_ms()))
            self._last_captured_ms = frame.captured_ms
            self._period.observe(frame.arrived_ms, frame.dropped)
            self.arrived += 1 + frame.dropped
            self.replaced += frame.dropped
            replaced = self._mailbox.put(self, frame, frame.deadline_ms)
            if replaced is frame:
                return
            self._open.append(frame)
            if replaced is not None and replaced.attempts == 0:
                self._open.remove(replaced)
                replaced.stage = Stage.SUPERSEDED
                self.replaced += 1
                frame.superseded += 1 + replaced.superseded
                frame.fallback_ms = min(frame.fallback_ms, replaced.fallback_ms)
        self._watchdog.arm(frame.fallback_ms)

    # --- on a thread of the watchdog ---

    def next_due(self, at_ms: float) -> tuple[float, Act | None]:
        """When the watchdog has to look again, and what it has to do now; never blocks."""
        with self._lock:
            if self.stopped or not self._open:
                return math.inf, None
            for frame in self._open:
                if frame.fallback_ms <= at_ms and frame.newest is None:
                    awaited_ms = frame.awaited_ms + LATE_GRACE_MS
                    due_ms = frame.due_ms if frame.stage is Stage.RUNS else 0.0  # its first result
                    frame.fallback_ms = max(frame.fallback_ms, awaited_ms, due_ms)
            frame = min(self._open, key=lambda frame: frame.fallback_ms)
            if frame.fallback_ms > at_ms:
                return frame.fallback_ms, None
            self._mailbox.postpone(self, frame)
            frame.claim(at_ms)
            if frame.attempts > MAX_ATTEMPTS:
                self._open.remove(frame)
                self.unpublished += 1
                self._not_told += 1 + frame.superseded  # the next answer stands for it too
                return at_ms, self._client.on_ready
            return at_ms, partial(self._answer, frame, is_beside=True)

    # --- on the worker ---

    def process(self, frame: Job) -> None:
        """Takes one frame to its answer, unless the image is rejected. Blocks until the network is free of it."""
        self.busy_since_ms = taken_ms = now_ms()
        try:
            if self.stopped:
                return
            job = self._take(frame, taken_ms)
            run = None
            failure = ''
            try:
                image = self._client.convert(job)
                if image is None:
                    self._drop(job)
                    return
                job.image_size = image.shape[:2]
                run = self._begin(image, job)
                run.until_answer()
            except BaseException as error:  # whatever a network throws, also to exit
                failure = self._failed(error)
            # With its own result, the newest so far, or what stands in; unless the watchdog was faster.
            if self._claim(job):
                publish_ms = self._answer(job, failure)
                if run is not None and run.ended:
                    job.publish_ms = publish_ms
            try:
                if run is not None and not run.ended and not failure:
                    run.for_tracks(self._until_ms, partial(self._abandoned, job))
            except BaseException as error:
                failure = self._failed(error)
            self._learn(job, failure)
        finally:
            self.busy_since_ms = None

    def stop(self) -> None:
        """From now on nothing is answered. A frame that the network still holds is aborted without a message."""
        with self._lock:
            self.stopped = True
            for frame in self._open:
                frame.attempts += (
                    1  # as if answered, so that the network looks whether to go on with it
                )
        self._watchdog.forget(self.next_due)

    def _take(self, frame: Job, taken_ms: float) -> Job:
        """The job that is run for a frame, and what it is run under."""
        with self._lock:
            # One that was answered while it waited no longer concerns what is run here.
            job = frame.for_tracks() if frame.attempts else frame
            job.stage = Stage.RUNS
            job.taken_ms = taken_ms
            if not job.attempts:
                job.superseded += self._not_told
                self._not_told = 0
            keeps_bounds = self._task.policy.keeps_bounds
            job.times = self._task.times.begin(job.conditions.slowdown, keeps_bounds=keeps_bounds)
            job.due_ms = job.deadline_ms - job.times.reserve.publishing_ms
            # An image that is too old to be met is left to the thread at hand, which will notice at once.
            cut_ms = job.due_ms - job.times.reserve.lead_ms
            late_ms = max(job.due_ms, taken_ms) if self._grace_ms else cut_ms
            planned_ms = _planned_ms(job, taken_ms)
            job.fallback_ms = max(late_ms + self._grace_ms, taken_ms + 1.0, planned_ms)
        self._watchdog.arm(job.fallback_ms)
        return job

    def _begin(self, image: np.ndarray, job: Job) -> InferenceRun:
        """A planned frame."""
        with self._lock:
            if not job.is_alone:
                self._fallback.follow(image.shape[:2])
            next_images = None
            until_ms = job.due_ms
            if self._rules.spare_next_image:
                next_ms = self._period.next_ms(job.taken_ms)
                next_images = NextImages(next_ms, self._period.period_ms)
                until_ms = min(next_ms, until_ms)
            others = self._mailbox.waiting_others(self)
            if others and job.taken_ms < job.due_ms and until_ms < math.inf:
                share_ms = (until_ms - job.taken_ms) / (1 + others)  # each gets as much of the time
                next_images = NextImages(job.taken_ms + share_ms, share_ms)
        may_abort = self._rules.late_policy is not LatePolicy.LATE
        return self._inference.begin(
            image,
            job,
            due_ms=job.due_ms,
            may_abort=may_abort,
            next_images=next_images,
            others=partial(self._mailbox.waiting_others, self),
        )

    def _learn(self, job: Job, failure: str) -> None:
        """What the next frames are to know of one that has ended."""
        job.stage = Stage.DONE
        newest = job.newest
        if newest is not None and not job.is_alone:
            self._follow(job, newest)
            if self._task.scene is not None:
                self._task.scene.update(newest.result, job.image_size)
        with self._lock:
            self._fallback.settle()
        if not failure and job.path is not None:
            try:
                self._task.times.observe(job)  # type: ignore[arg-type]  # a path comes with its times
            except (
                ValueError
            ) as error:  # a clock that jumped: the frame is out, and teaches nothing
                self._client.on_failure(error)
        is_late = job.result is not None and job.answer is not newest
        if is_late and not failure and not self.stopped:
            self.late_results += 1
            late = job.record(Outcome.LATE, now_ms())
            self._client.on_late_record(replace(late, evidence_age_ms=0.0, results=job.results))
        self._coasted = 0 if newest is not None else self._coasted + 1

    def _failed(self, error: BaseException) -> str:
        self._client.on_failure(error)
        return f'frame failed: {error}'

    def is_open(self, frame: Job) -> bool:
        """It has come, and is neither answered, replaced nor rejected."""
        with self._lock:
            return frame in self._open

    def _claim(self, frame: Job) -> bool:
        """For an answer by the worker. Returns whether nobody has started one."""
        with self._lock:
            return not self.stopped and frame.attempts == 0 and frame.claim(now_ms())

    def _drop(self, frame: Job) -> None:
        """Takes back a frame whose image was rejected, unless the watchdog has answered in its place."""
        with self._lock:
            if frame in self._open and frame.attempts == 0:
                self._open.remove(frame)
                self._not_told += frame.superseded
        self._client.on_ready()

    def _until_ms(self) -> float:
        """When the worker should be free for the next image: now, while one waits."""
        at_ms = now_ms()
        with self._lock:
            next_ms = self._period.next_ms(at_ms)
            return at_ms if self._waiting() is not None or next_ms == math.inf else next_ms

    def _waiting(self) -> Job | None:
        """The image that waits for the worker; hold the lock."""
        return next(
            (job for job in self._open if job.stage is Stage.WAITS and job.attempts == 0), None
        )

    def _abandoned(
        self,
        job: Job,
        path: ExecutionPath,
        segment: int,
    ) -> str:
        """Why a frame whose image was answered is not to be run to its end; empty while it is worth something."""
        at_ms = now_ms()
        if self.stopped:
            return 'the node stops'
        if at_ms > max(job.deadline_ms, job.taken_ms) + LATE_GRACE_MS:
            return 'its deadline had passed long ago'
        if self._coasted >= MAX_COASTED:
            return ''
        if self._mailbox.waiting_others(self):
            return 'another task waits'
        with self._lock:
            waiting = self._waiting()
            times = job.times
        if waiting is None or times is None:
            return ''
        if job.answer is not None:  # what it has found so far is known to the tracks
            return 'the next image waits'
        remaining_ms = (
            waiting.deadline_ms - at_ms - (times.reserve.publishing_ms + times.reserve.deciding_ms)
        )
        now, after = (
            self._task.policy.plan(left - times.interruption_ms, times.factor)
            for left in (remaining_ms, remaining_ms - times.expected_ms(path, segment))
        )
        return (
            'the next image can be in time only without it'
            if now.feasible and not after.feasible
            else ''
        )

    # --- on either ---

    def _follow(self, job: Job, found: ResultSoFar) -> object:
        """An own result with what later images know it by; each is taken in once."""
        if job.is_alone:
            return found.result
        with self._lock:
            if job.followed[0] is not found:
                job.followed = found, self._fallback.update(found.result, job.motion_s)
            return job.followed[1]

    def _answer(self, frame: Job, failure: str = '', is_beside: bool = False) -> float:
        """Publishes the newest result of a claimed frame, or where it has none what stands in for it. Returns the time
        that this took in ms; 0 where it failed or came second."""
        try:
            if frame.answer is not None:
                in_time = min(frame.claimed_ms, frame.ended_ms) <= frame.deadline_ms
                outcome = Outcome.DETECTED if in_time else Outcome.LATE
                frame.evidence_s, result = frame.motion_s, self._follow(frame, frame.answer)
            else:
                outcome, result = Outcome.COASTED, None
                if not frame.is_alone:  # which has nothing of other images
                    with self._lock:
                        frame.evidence_s = self._fallback.evidence_s
                        result = self._fallback.predict(frame.motion_s)
            if result is not None:  # else there is nothing to say
                self._client.publish(frame, result)
            published_ms = now_ms()
            record = frame.record(outcome, published_ms, failure)
            with self._lock:
                if self.stopped or frame not in self._open:  # another thread was faster
                    return 0.0
                self._open.remove(frame)
                frame.is_in_time = record.is_in_time
                if frame.attempts == 1:
                    times = self._task.times
                    reserve = times.publishing_beside if is_beside else times.publishing
                    reserve.observe(max(0.0, published_ms - frame.claimed_ms))
            self._client.on_ready()
            self._client.on_record(record)
            return record.publish_ms
        except BaseException as error:  # the frame stays open, and the watchdog tries again
            self._client.on_failure(error)
            return 0.0


def _planned_ms(frame: Job, at_ms: float) -> float:
    """Until when its plan is awaited: longer for one of no sequence, most where it is late whatever is done."""
    return at_ms + frame.is_alone * (HOPELESS_MS if at_ms < frame.deadline_ms else LATE_GRACE_MS)
