"""The threads behind the networks of a device: one that computes, and watchdogs that answer in its place. Free of ROS."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, Protocol, TypeVar

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.runtime.end_of_program import Turn, close_at_end, words_of_fork
from deadline_perception.runtime.mailbox import Mailbox
from deadline_perception.runtime.pipeline import FrameClient, FramePipeline, FrameRules
from deadline_perception.runtime.resident_networks import ResidentNetworks
from deadline_perception.runtime.status import hanging
from deadline_perception.runtime.task import Task
from deadline_perception.runtime.watchdog import Watchdog, tell
from deadline_perception.system.kernel_thread import name_thread
from deadline_perception.system.priority import Role, ThreadPriority

Result = TypeVar('Result')
_SIGNAL_WAIT_S = 0.2
# Garbage of one frame takes 0.1 ms to find, of some 0.2 ms, and all since the start up to 26 ms: rarely, and always
# between two frames.
_FULL_COLLECTION_FRAMES = 2000
_MIDDLE_COLLECTION_FRAMES = 20


class _ProgramEnds(BaseException):
    """Raised in a thread whose program ends, so that it comes out of what it does."""


class Runner(Protocol):
    """Whose items an executor has in its mailbox: a `FramePipeline`, or a task of a `NetworkScheduler`.

    Attributes:
        busy_since_ms: since when the worker has had an item of it; None while it has none.
        closing: it takes no further items, and is stopped once those that it has are done.
    """

    busy_since_ms: float | None
    closing: bool

    def process(self, item: Any) -> None:
        """Takes one item to its end, on the worker."""

    def stop(self) -> None:
        """From now on nothing is answered, and what is at work ends as soon as it can."""


class _Calls:
    """Work other than frames, which the worker takes from the mailbox like a frame."""

    busy_since_ms = None  # a load may take its time

    def process(self, item: tuple[Future[object], Callable[[], object]]) -> None:
        """Does a call for whoever waits for it."""
        future, call = item
        try:
            future.set_result(call())
        except BaseException as error:  # handed to whoever asked
            future.set_exception(error)


class Executor:
    """One thread that runs everything that touches a network, because OpenMP threads and GPU handles belong to a
    thread, and between `start` and `stop` a watchdog. Several runners share it: of the released jobs, that of the
    earliest deadline goes first.

    The thread is a daemon: a network that hangs cannot keep the process alive.

    Args:
        name: of the thread, also for the kernel, and of those that it starts.

    Attributes:
        mailbox: where jobs wait for the worker.
        networks: that it runs, each once.
        owners: detectors that close it together.
        opening: held by who starts it, or stops it because it has no runners.
        watchdog: None while stopped.
        priority: of the threads that compute and answer, while started.
        process: that has its threads.
    """

    def __init__(self, name: str = 'inference') -> None:
        self._name = name
        self.mailbox: Mailbox[Any, Any] = Mailbox()  # of runners, and of `_Calls`
        self.networks = ResidentNetworks()
        self.opening = threading.RLock()
        self.owners = 0
        self._runners: dict[Runner, Callable[[], None] | None] = {}
        self._collects_garbage = False
        self._frames = 0
        self.watchdog: Watchdog | None = None
        self.priority = ThreadPriority('off')
        self._failed: Callable[[BaseException], None] = lambda error: None
        self._prepare: Callable[[], None] = lambda: None
        self.process = os.getpid()
        self._threads = weakref.WeakSet[threading.Thread]()
        self.relieve_worker()  # there is none yet
        close_at_end(self, Turn.THREADS)

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Does a call on the worker, between two jobs. What it raises, `Future.result` raises; a RuntimeError where
        the executor is closed before its turn comes, or in a fork of its process."""
        if self.left_behind:
            raise RuntimeError(self.left_behind)
        future: Future[Result] = Future()
        if self.mailbox.put(_Calls(), (future, call), now_ms()) is not None:
            raise RuntimeError('the executor is closed, expected it to be open')
        return future

    def do(self, call: Callable[[], Result]) -> Result:
        """Does a call on the worker, between two jobs, and waits for what it returns or raises.

        It waits in short steps: a signal that comes just before the main thread sleeps, or to another thread, does not
        wake it, and its handler runs only when it wakes.

        Raises:
            RuntimeError: the executor is closed, or was while the call waited.
        """
        future = self.submit(call)
        while not wait([future], _SIGNAL_WAIT_S).done:
            pass
        return future.result()

    def start(
        self,
        priority: ThreadPriority,
        on_failure: Callable[[BaseException], None],
        *,
        prepare: Callable[[], None] = lambda: None,
        collects_garbage: bool = False,
    ) -> None:
        """Raises the worker, and starts a watchdog.

        Args:
            priority: of the threads.
            on_failure: receives what goes wrong in either for which no frame answers.
            prepare: called on each of these threads before its first frame, so that this does not wait for it.
            collects_garbage: Python's collector is off meanwhile, and runs between frames: looking through everything
                would pause a frame for tens of ms. What is alive now is not looked at. For a process of its own.
        """

        def begin_watch() -> None:
            priority.raise_thread(Role.WATCHDOG)
            prepare()

        # A thread that returns from a network operation waits so long, by default 5 ms, for one that runs Python meanwhile.
        sys.setswitchinterval(0.0005)
        self._failed = on_failure
        self._prepare = prepare
        self.watchdog = Watchdog(on_failure, prepare=begin_watch)
        if self.priority is not priority:  # which may have raised another worker
            self.priority.restore()
        self.priority = priority
        self.do(lambda: priority.raise_thread(Role.INFERENCE))
        self.do(prepare)
        self._collects_garbage = collects_garbage
        if collects_garbage:
            gc.collect()
            gc.freeze()
            gc.disable()

    def open(
        self,
        task: Task,
        client: FrameClient,
        rules: FrameRules,
        after_frame: Callable[[], None] | None = None,
    ) -> FramePipeline:
        """A pipeline whose frames this executor runs, until it is stopped.

        Args:
            task: loaded by `do`.
            client: whose images are answered.
            rules: how.
            after_frame: called on the worker after each of its frames; None where there is nothing to do.
        """
        assert self.watchdog is not None, 'the executor is started first'
        pipeline = FramePipeline(task, client, rules, self.mailbox, self.watchdog)
        self.admit(pipeline, after_frame)
        return pipeline

    def admit(self, runner: Runner, after_job: Callable[[], None] | None = None) -> None:
        """From now on, and until it is released, what belongs between two jobs is done after each of a runner."""
        self._runners[runner] = after_job

    def release(self, runner: Runner, timeout_s: float) -> bool:
        """Answers no more images of a runner; first waits so long for the last ones, but for that of a callback which
        asks for this. Returns whether they came out."""
        runner.closing = True
        if threading.get_ident() == self._worker.ident:
            timeout_s = 0.0
        is_free = self.mailbox.wait_until_idle(runner, timeout_s)
        self.mailbox.discard(runner)
        runner.stop()
        self._runners.pop(runner, None)
        return is_free

    def relieve_worker(self) -> None:
        """Leaves a job that hangs to its thread, which ends when it comes back; another one does all others."""
        self._worker = threading.Thread(target=self._serve, name=self._name, daemon=True)
        self._threads.add(self._worker)
        self._worker.start()

    def stop(self, timeout_s: float) -> bool:
        """Releases all runners, lowers the worker and ends the watchdog. Returns whether every image came out."""
        if self.watchdog is None:
            return True
        is_free = all([self.release(runner, timeout_s) for runner in list(self._runners)])
        self.watchdog.stop()
        self.watchdog = None
        self.priority.restore()
        if self._collects_garbage:
            gc.enable()
            gc.unfreeze()
            self._collects_garbage = False
        return is_free

    def stop_unused(self) -> None:
        """Stops where there is no runner."""
        with self.opening:
            if not self._runners:
                self.stop(0.0)

    def close(self, timeout_s: float = 3.0) -> bool:
        """Stops, and ends the thread once its calls are done; waits so long. Returns whether it has ended, and every
        image came out. In a fork of its process there is no thread to end."""
        if self.left_behind:
            return True
        is_free = self.stop(timeout_s) and self.wait_until_idle(timeout_s)
        self._close_mailbox()
        if threading.current_thread() is not self._worker:
            self._worker.join(timeout_s)
        return is_free and not self._worker.is_alive()

    def abandon(self) -> None:
        """Aborts all and lets the threads end, without waiting for them."""
        for runner in list(self._runners):
            runner.closing = True
            runner.stop()
        self._close_mailbox()
        watchdog = self.watchdog
        if watchdog is not None:
            watchdog.dismiss()

    def end_with_program(self, until_s: float) -> None:
        """See `Owner`: what is at work is aborted; a thread that goes on with something else is interrupted."""
        if self.left_behind:
            return
        self.abandon()
        threads = [*self._threads, *(self.watchdog.threads if self.watchdog else ())]
        if not _join(threads, (time.monotonic() + until_s) / 2):
            for thread in threads:
                if thread.is_alive():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_ProgramEnds)
                    )
            _join(threads, until_s)

    def _close_mailbox(self) -> None:
        for runner, item in self.mailbox.close():
            if isinstance(runner, _Calls):
                item[0].set_exception(
                    RuntimeError('the executor was closed before the turn of this call came')
                )

    @property
    def left_behind(self) -> str:
        """Why nothing is done here, in a fork of the process that has its threads; empty elsewhere."""
        return words_of_fork(self.process)

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def wait_until_idle(self, timeout_s: float | None = None) -> bool:
        """Blocks until no frame waits or is at work, at most so long. Returns whether that is so."""
        return self.mailbox.wait_until_idle(timeout_s=timeout_s)

    @property
    def fault(self) -> str:
        """Which thread does not do its work any more; empty when all do. One that hangs loses its priority."""
        if not self._worker.is_alive():
            return f'the {self._name} thread ended'
        hangs = self.hanging
        if hangs:
            self.priority.step_down()  # the machine belongs to those that do something
            return (self.watchdog and self.watchdog.fault) or hangs
        return '' if self.watchdog is None else self.watchdog.fault

    @property
    def hanging(self) -> str:
        """Why a frame does not come out, also one of a runner that was released; empty while all do."""
        runners = (*self._runners, *self.mailbox.at_work)
        return next(filter(None, (hanging(runner.busy_since_ms) for runner in runners)), '')

    def _serve(self) -> None:
        me = threading.current_thread()
        name_thread(me.name)
        try:
            self.priority.raise_thread(Role.INFERENCE)
            self._prepare()
        except BaseException as error:  # a permission that is refused; jobs run all the same
            tell(self._failed, error)
        serve(
            self.mailbox,
            lambda error: self._failed(error),
            self._after_item,
            lambda: self._worker is me,
        )

    def _after_item(self, runner: Runner) -> None:
        if runner not in self._runners:  # a call, or a job of a runner that is no more
            return
        self.priority.between_frames()
        after_job = self._runners.get(runner)
        if after_job is not None:
            after_job()
        if self._collects_garbage:
            self._frames += 1
            gc.collect(
                2
                if self._frames % _FULL_COLLECTION_FRAMES == 0
                else 1
                if self._frames % _MIDDLE_COLLECTION_FRAMES == 0
                else 0
            )


def serve(
    mailbox: Mailbox[Runner, Any],
    failed: Callable[[BaseException], None],
    after: Callable[[Runner], None] = lambda runner: None,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Takes items of one runner or several, that of the earliest deadline first, until the mailbox is closed. Blocks.

    Args:
        mailbox: with items of some runners.
        failed: receives whatever goes wrong all the same; the next item is served.
        after: called after each with its runner.
        goes_on: this thread is to take another item.
    """
    while goes_on() and not mailbox.closed:
        taken = mailbox.take()
        if taken is None:
            continue
        runner, item = taken
        try:
            runner.process(item)
            after(runner)
        except BaseException as error:  # the outermost frame: it ends with the mailbox alone,
            tell(failed, error)  # also where a client calls sys.exit()
        finally:
            mailbox.done(runner)
            del taken, runner, item


def _join(threads: Sequence[threading.Thread], until_s: float) -> bool:
    """Waits for threads until a time of `time.monotonic`. Returns whether all have ended."""
    me = threading.current_thread()
    for thread in threads:
        if thread is not me:
            thread.join(max(0.0, until_s - time.monotonic()))
    return not any(thread.is_alive() for thread in threads if thread is not me)
