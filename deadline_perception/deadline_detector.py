"""A detector that answers before a deadline, for any program: no ROS. The detector node and benchmarks are its users.

    detector = DeadlineDetector('street')
    answer = detector.detect(image_bgr, budget_ms=50.0)

See docs/python_api.md.
"""

from __future__ import annotations

import _thread
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.number import is_count, number_or_nan, told_value
from deadline_perception.core.opencv import cv2
from deadline_perception.core.share_folder import DEFAULT_MODEL, share_folder
from deadline_perception.engines.segment_run import Network
from deadline_perception.runtime.answer import Answer
from deadline_perception.runtime.detection_stream import DetectionStream, StreamClosed
from deadline_perception.runtime.end_of_program import Turn, close_at_end, words_of_fork
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.job import JobRecord
from deadline_perception.runtime.loading import LoadedTask, NetworkOptions, load_task
from deadline_perception.runtime.pipeline import FrameClient, FramePipeline, FrameRules
from deadline_perception.runtime.resident_networks import network_key
from deadline_perception.runtime.task import Task
from deadline_perception.system.preparation import prepare_aloud
from deadline_perception.system.priority import ThreadPriority
from deadline_perception.timing.calibration import CalibrationFile, ForeignFile
from deadline_perception.timing.part_bound import PartBound

STOP_TIMEOUT_S = 3.0
# Of the same as the program ends, which then waits for threads of all detectors.
_END_TIMEOUT_S = 1.0
_CAMERA_SIZE = (1280, 720)  # of images to measure on
MOST_AWAITED = 8  # images of `adetect` at a time, the one at work included
KEPT_FRAMES = 200  # a process that is killed loses what the calibration learnt from at most so many


class DetectorHangs(DeadlinePerceptionError):
    """The network does not return from a frame, and no thread can be ended."""


class QueueFull(DeadlinePerceptionError):
    """So many images are awaited already that a further one would be answered too late."""


class CalibrationKeeper(Executor):
    """Writes what the calibration of a task has learnt to its file, on a thread that may wait for the disk. `close` waits
    for what is written, `abandon` does not.

    Args:
        calibration: gives the file and the bound; None where nothing is kept.
        failed: is called with a sentence when the file cannot be written; the next frames are served.
    """

    def __init__(
        self,
        calibration: Callable[[], tuple[CalibrationFile, PartBound] | None],
        failed: Callable[[str], None],
    ) -> None:
        super().__init__('calibration')
        self._calibration = calibration
        self._tell = failed
        self._learnt = 0

    def end_frame(self) -> None:
        """Called after each frame; keeps the state after some."""
        self._learnt += 1
        if self._learnt % KEPT_FRAMES == 0:
            self.keep()

    def keep(self) -> None:
        """Keeps the state as it is now; does not wait."""
        calibration = self._calibration()
        if calibration is None:
            return
        file, bound = calibration
        state = bound.state()

        def write() -> None:
            try:
                file.save(state)
            except (OSError, ForeignFile) as error:
                self._tell(f'calibration_file cannot be written: {error}')

        self.submit(write)


_SHARED: weakref.WeakValueDictionary[object, Executor] = weakref.WeakValueDictionary()
_SHARING = threading.Lock()


def _shared_executor(options: NetworkOptions | None) -> Executor:
    """That of the other detectors of the same network, which is in its memory, or a new one; see `_is_unused`."""
    key = options and network_key(
        options.model, options.device, options.engine, options.threads, options.classes
    )
    with _SHARING:
        executor = _SHARED.get(key)
        if executor is None or not executor.owners or executor.left_behind or executor.fault:
            executor = Executor()
            if key:
                _SHARED[key] = executor
        executor.owners += 1
        return executor


def _is_unused(executor: Executor) -> bool:
    """Said once by each detector that has done with it: whether it is to be closed."""
    with _SHARING:
        executor.owners -= 1
        return not executor.owners


class DeadlineDetector:
    """A network, loaded and warm, with all that its frames are decided by.

    Args:
        model: a shipped network's name, such as `street`; a file of weights of this package, multi-path, elastic or
            classifier; a `set.yaml`; an exported detector (ONNX, OpenVINO IR, TensorFlow Lite);
            `package.module:callable`; a network (`engines.segment_run.Network`); or options that name one of these.
            A `Task` is taken as it is.
        min_score: objects and classes of a lower score are in no answer, but that of coasted objects goes on to fall;
            in [0, 1].
        classes: of an exported detector whose file does not name them, see `NetworkOptions`.
        rules: how images are answered, in the place of `min_score`; None: see `detect` and `stream`.
        priority: `off`, or `auto` for what the detector node asks of the kernel for the threads that compute and
            answer, see `ThreadPriority`.
        executor: its threads; detectors that share one run on one thread, the earliest deadline first. None: that of
            the detectors of the same file, device, engine and number of threads. These share the network in memory;
            each has its tracks, bounds and deadlines.
        measures: where there is no latency profile, measure a coarse one in some 10 s, and keep it; else refuse that.
        prepare: see `load_task`.

    Attributes:
        loaded: the network with its task, device and calibration.

    Raises:
        DeadlinePerceptionError: a part is missing, damaged, or belongs to another network or device.
        ValueError: a number is out of its range.
    """

    def __init__(
        self,
        model: str | Path | Network | NetworkOptions | Task = DEFAULT_MODEL,
        *,
        min_score: float = 0.3,
        classes: str | Sequence[str] = (),
        rules: FrameRules | None = None,
        priority: str = 'off',
        executor: Executor | None = None,
        measures: bool = True,
        prepare: Callable[[Path], None] | None = None,
    ) -> None:
        ThreadPriority(
            priority, lock_memory=False
        )  # refuses a mode that is none before a network is loaded
        self._rules = rules or FrameRules(min_score)
        self._priority = priority
        self._spares_next_image = rules is None
        options = None if isinstance(model, Task) else _options(model, classes)
        self._executor = executor or _shared_executor(options)
        self._owns_executor = executor is None
        self._pipeline: FramePipeline | None = None
        self._hung: FramePipeline | None = None  # released, with a frame that did not come out
        self._stream: DetectionStream | None = None  # that is open
        self._own_stream: DetectionStream | None = None  # of `detect`
        self._keeper: CalibrationKeeper | None = None
        self._opening = threading.RLock()
        self._closed = False
        self._at_work: list[FramePipeline | CalibrationKeeper] = []  # of the client at hand
        self._process = os.getpid()
        self._awaiting = ThreadPoolExecutor(MOST_AWAITED, 'adetect')
        self._places = threading.BoundedSemaphore(MOST_AWAITED)  # of images that are awaited
        try:
            if isinstance(model, Task):
                self.loaded = LoadedTask.of(model)
            elif options is not None:
                images = None
                if measures:
                    images = _street_views
                    prepare = prepare or partial(prepare_aloud, threads=options.threads)
                self.loaded = self._executor.do(
                    lambda: load_task(
                        options,
                        share_folder() / 'models',
                        images=images,
                        prepare=prepare,
                        networks=self._executor.networks,
                    )
                )
        except BaseException:
            if self._owns_executor and _is_unused(self._executor):
                self._executor.close(0.0)  # a load that is interrupted may never end
            raise
        # That nobody has received yet.
        self._notices = [*self.loaded.notices, *self.loaded.degraded]
        self._dropped = weakref.finalize(
            self, _end_dropped, self._executor, self._owns_executor, self._at_work, self._process
        )
        self._dropped.atexit = False  # then `end_with_program` is called
        close_at_end(self, Turn.DETECTOR)

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the labels of its results mean."""
        return tuple(self.loaded.task.network.class_names)

    def detect(
        self,
        image_bgr: np.ndarray,
        budget_ms: float | None,
        *,
        stamp_ns: int = 0,
        age_ms: float = 0.0,
    ) -> Answer:
        """Answers an image. Blocks until then, which is by the deadline; see `DetectionStream.detect`.

        An image without a stamp is one of its own: its answer holds its own objects, or none where they are not in
        time; late, where nothing was promised: no path's bound fits, or bounds rest on no frames yet, as of the first
        eight images. Those with stamps are taken for one camera's: tracks of earlier ones take the place of a result
        that is late.

        Raises:
            ValueError: image or budget cannot be used, or a stream is open.
            StreamClosed: the detector is closed, or this process is a fork of its own.
            NoAnswer: the threads that answer have ended.
        """
        self._check_process()
        with self._opening:
            if self._own_stream is None:
                self._own_stream = self.stream(rules=self._rules)
            stream = self._own_stream
        is_alone = is_count(stamp_ns) and stamp_ns == 0
        return stream.detect(
            image_bgr, budget_ms, stamp_ns=stamp_ns, age_ms=age_ms, is_alone=is_alone
        )

    async def adetect(
        self,
        image_bgr: np.ndarray,
        budget_ms: float | None,
        *,
        stamp_ns: int = 0,
        age_ms: float = 0.0,
    ) -> Answer:
        """The same for asyncio: waits without holding up its loop, where at most `MOST_AWAITED` images may wait.

        Raises:
            QueueFull: as many do.
            ValueError, StreamClosed, NoAnswer: as `detect`.
        """
        import asyncio  # which the nodes do without

        self._check_process()
        if not self._places.acquire(blocking=False):
            raise QueueFull(f'{MOST_AWAITED} images are awaited, expected less for a further one')
        call = partial(self.detect, image_bgr, budget_ms, stamp_ns=stamp_ns, age_ms=age_ms)
        try:
            answer = self._awaiting.submit(call)
        except RuntimeError as error:
            self._places.release()
            raise StreamClosed('the detector is closed, expected it to be open') from error
        answer.add_done_callback(lambda _: self._places.release())  # also where it was cancelled
        return await asyncio.wrap_future(answer)

    def answers(
        self,
        frames: Iterable[np.ndarray],
        budget_ms: float | None,
        *,
        rate_hz: float | None = None,
    ) -> Iterator[Answer]:
        """Answers the images of one camera, one after the other, each before the next one is taken; see `detect`.

        Args:
            frames: uint8 BGR `[H, W, 3]` each.
            budget_ms: of each.
            rate_hz: of a recording, whose images are so far apart, > 0; None: live, at the time when they come.
        """
        if rate_hz is not None and not number_or_nan(rate_hz) > 1e-9:
            raise ValueError(f'rate is {told_value(rate_hz)} Hz, expected more than 1e-9, or None')
        with self.stream(rules=self._rules) as stream:
            for number, image_bgr in enumerate(frames, 1):
                stamp_ns = time.time_ns() if rate_hz is None else round(1e9 * number / rate_hz)
                yield stream.detect(image_bgr, budget_ms, stamp_ns=stamp_ns)

    def stream(
        self,
        on_answer: Callable[[Answer], None] = lambda answer: None,
        *,
        rules: FrameRules | None = None,
        on_late_record: Callable[[JobRecord], None] = lambda record: None,
    ) -> DetectionStream:
        """Opens a stream of images, which is a context that closes it; until then the detector takes no others.

        Args:
            on_answer, on_late_record: see `DetectionStream`.
            rules: None: those of the detector, or such that a frame under the policy `frontier` ends before the next
                image where it can.

        Raises:
            ValueError: a stream is open.
            StreamClosed: the detector is closed.
        """
        self._check_process()
        stream = DetectionStream(self.loaded.task, on_answer, on_late_record)
        if rules is None:
            rules = self._rules
            if self._spares_next_image and self.loaded.options.policy == 'frontier':
                rules = replace(rules, spare_next_image=True)
        with self._opening:
            if self._own_stream is not None:
                self.halt()
            # Threads know it by a proxy: they keep neither it nor its detector alive, which are dropped together.
            pipeline = self.open(weakref.proxy(stream), rules)
            self._stream = stream
            stream.pipeline = pipeline
            stream.executor = self._executor
            stream.close = lambda: self._pipeline is pipeline and self.halt()
            while self._notices:
                stream.on_notice(self._notices.pop(0))
        return stream

    # --- for clients with images and results of their own, such as the node ---

    def open(
        self,
        client: FrameClient,
        rules: FrameRules,
        *,
        priority: ThreadPriority | None = None,
        prepare: Callable[[], None] = lambda: None,
        collects_garbage: bool = False,
    ) -> FramePipeline:
        """Starts to answer the images of a client, until `halt`.

        Args:
            client: whose images are answered.
            rules: how.
            priority: of the threads that compute and answer; None: that of the detector.
            prepare, collects_garbage: see `Executor.start`.

        Raises:
            ValueError: another client's are being answered.
            StreamClosed: the detector or its executor is closed.
            DetectorHangs: the network still hangs in a frame of the client before.
        """
        self._check_process()
        with self._opening:
            if self._closed or self._executor.mailbox.closed:
                raise StreamClosed(
                    'the detector or its executor is closed, expected both to be open'
                )
            if self._pipeline is not None:
                raise ValueError(
                    'a stream of this detector is open, expected it to be closed first'
                )
            if self.hangs or self._executor.hanging:
                raise DetectorHangs('the network still hangs in a frame, expected it to have ended')
            with self._executor.opening:
                if self._executor.watchdog is None:
                    self._executor.start(
                        priority or ThreadPriority(self._priority, lock_memory=False),
                        lambda error: client.on_failure(error),
                        prepare=prepare,
                        collects_garbage=collects_garbage,
                    )
                keeper = None
                if self.loaded.calibration_file:
                    here = weakref.ref(self)
                    keeper = CalibrationKeeper(
                        lambda: _calibration(here()), lambda words: client.on_notice(words)
                    )
                    self._at_work.append(keeper)
                self._keeper = keeper
                self._pipeline = self._executor.open(
                    self.loaded.task, client, rules, None if keeper is None else keeper.end_frame
                )
            self._at_work.append(self._pipeline)
            return self._pipeline

    def halt(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Answers no more; first waits some seconds for the image at work. Returns whether that came out. What the
        calibration has learnt is kept where a file for it was named."""
        if words_of_fork(self._process):
            return True
        with self._opening:
            pipeline = self._pipeline
            if pipeline is None:
                return True
            streams = self._own_stream, self._stream  # the image at work is theirs until it ends
            self._pipeline = self._own_stream = self._stream = None
            is_free = self._executor.release(pipeline, timeout_s)
            if self._owns_executor:
                self._executor.stop_unused()
            self._hung = None if is_free else pipeline
            del streams
            if self._keeper is not None:
                self._keeper.keep()
                self._keeper.close(timeout_s)
                self._keeper = None
            self._at_work.clear()
            return is_free

    def close(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Halts, and ends the threads of this detector; a second call does nothing, nor one in a fork."""
        if words_of_fork(self._process):
            return
        with self._opening:
            was_closed = self._closed
            self._closed = True
            self._awaiting.shutdown(wait=False)
            self._dropped.detach()
            self.halt(timeout_s)
            if self._owns_executor and not was_closed and _is_unused(self._executor):
                self._executor.close(0.0 if self.hangs else timeout_s)

    def end_with_program(self, until_s: float) -> None:
        """See `Owner`: the image at work is aborted."""
        if words_of_fork(self._process):
            return
        for part in list(self._at_work):
            if isinstance(part, FramePipeline):
                part.stop()
        if self._opening.acquire(timeout=max(0.0, until_s - time.monotonic())):
            try:
                self.close(_END_TIMEOUT_S)
            finally:
                self._opening.release()

    def _check_process(self) -> None:
        words = words_of_fork(self._process)
        if words:
            raise StreamClosed(words)

    @property
    def hangs(self) -> bool:
        """The network did not return from a frame of a client before, and has not yet."""
        return self._hung is not None and self._hung in self._executor.mailbox.at_work

    @property
    def fault(self) -> str:
        """Which thread does not do its work any more, while images are answered; empty when all do."""
        if self._keeper is not None and self._keeper.fault:
            return 'the thread that keeps the calibration ended'
        return self._executor.fault

    @property
    def priority(self) -> ThreadPriority:
        """What the kernel was asked for."""
        return self._executor.priority

    def __enter__(self) -> DeadlineDetector:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _calibration(
    detector: DeadlineDetector | None,
) -> tuple[CalibrationFile, PartBound] | None:
    if detector is None or detector.loaded.calibration_file is None:
        return None
    return detector.loaded.calibration_file, detector.loaded.task.times.whole


def _end_dropped(
    executor: Executor,
    owns_executor: bool,
    at_work: Sequence[FramePipeline | CalibrationKeeper],
    process: int,
) -> None:
    """Ends the threads of a detector that nobody has any more, on a thread of its own: the garbage collector calls
    this wherever it is, also while a lock is held."""
    if words_of_fork(process) or not (owns_executor or at_work):
        return

    def end() -> None:
        for part in list(at_work):
            if isinstance(part, CalibrationKeeper):
                part.abandon()
            else:
                executor.release(part, 0.0)
        if owns_executor and _is_unused(executor):
            executor.abandon()

    _thread.start_new_thread(end, ())  # no `threading.Thread`, whose own lock may be held
    warnings.warn(
        'a DeadlineDetector was dropped without close(); use it as a context', ResourceWarning
    )


def _options(
    model: str | Path | Network | NetworkOptions, classes: str | Sequence[str]
) -> NetworkOptions:
    if isinstance(model, NetworkOptions):
        return replace(model, classes=classes) if classes else model
    if not isinstance(model, (str, Path, Network)):
        raise ValueError(
            f'model is {model!r}, expected a name, a file, a network, options of one, or a task'
        )
    return NetworkOptions(str(model) if isinstance(model, Path) else model, classes=classes)


def _street_views() -> Sequence[np.ndarray]:
    """Parts of the photograph that ships, at a camera's size, to measure on where there is no profile."""
    photograph = load_image(share_folder() / 'config' / 'photograph.jpg')
    height, width = photograph.shape[:2]
    parts = (
        photograph,
        photograph[:, ::-1],
        photograph[height // 4 :],
        photograph[:, width // 4 :],
    )
    return [cv2.resize(np.ascontiguousarray(part), _CAMERA_SIZE) for part in parts]
