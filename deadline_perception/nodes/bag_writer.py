"""Writes messages to an mcap file on a thread of its own, so that whoever receives them never waits for the disk."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mcap.writer import CompressionType, Writer
from rosbags.typesys.store import Typestore

from deadline_perception.core.errors import DeadlinePerceptionError

FLUSH_PERIOD_S = (
    0.5  # what a power cut or a killed recorder takes away at most, beside the disk's own delay
)
MOST_WAITING_BYTES = 64 * 2**20  # while the disk takes less than comes
_ENTRY_BYTES = 256  # of a message in the queue, beside its content


class RecordingFailed(DeadlinePerceptionError):
    """A bag cannot be begun or went wrong while it was written."""


class BagWriter:
    """Takes messages from any thread and writes them in the order in which they came.

    Where the disk takes less than comes, up to `MOST_WAITING_BYTES` wait; what comes meanwhile is dropped and counted.
    Whatever ends the process, what was written up to `FLUSH_PERIOD_S` before can be read. After a failure nothing more
    is written.

    Args:
        file: mcap file to write.
        store: rosbags type store.

    Raises:
        RecordingFailed: the name is taken or no mcap file's, or the file cannot be written.
    """

    def __init__(self, file: Path, store: Typestore) -> None:
        if file.suffix != '.mcap':
            raise RecordingFailed(
                f'{file} cannot be recorded to, expected a name that ends with .mcap'
            )
        self._file = file
        self._store = store
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._stream = file.open('xb')
        except FileExistsError as error:
            raise RecordingFailed(
                f'{error.filename} exists already, expected a new name for the recording'
            ) from error
        except OSError as error:
            raise RecordingFailed(f'{file} cannot be written: {error.strerror}') from error
        self._writer = Writer(self._stream, compression=CompressionType.NONE)
        self._channels: dict[str, int] = {}
        self._schemas: dict[str, int] = {}
        # What is to be done for each message or announced topic, and the bytes that wait for it.
        self._queue: queue.SimpleQueue[tuple[Callable[[], None], int] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # of the two numbers below that both threads change
        self._waiting_bytes = 0
        self.dropped = 0
        self.written: dict[str, int] = {}
        self.failure = ''
        self._is_closing = self._is_complete = False
        self._flushed_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name='bag writer', daemon=True)
        self._thread.start()

    def add_topic(self, topic: str, msgtype: str) -> None:
        """Announces a topic, of a type that the store knows; to be called before its first message."""
        self.written[topic] = 0
        self._queue.put((partial(self._announce, topic, msgtype), 0))

    def put(self, topic: str, received_ns: int, raw: bytes) -> None:
        """Hands over a serialised message, or drops it where too many bytes wait. Never waits for the disk."""
        size = len(raw) + _ENTRY_BYTES
        with self._lock:
            if self._waiting_bytes + size > MOST_WAITING_BYTES:
                self.dropped += 1
                return
            self._waiting_bytes += size
        self._queue.put((partial(self._write, topic, received_ns, raw), size))

    @property
    def waiting(self) -> int:
        """Messages not written yet."""
        return self._queue.qsize()

    def close(self) -> None:
        """Writes what is waiting and finishes the file. Blocks.

        Raises:
            RecordingFailed: something was not written; the message says what.
        """
        self._is_closing = True
        if self._thread.is_alive():
            self._queue.put(None)
        self._thread.join()
        if not self._is_complete:  # where it had no memory to begin, the thread ends without a word
            self._fail(RuntimeError('the thread that writes has ended'))
            self.dropped += self.waiting
        if self.failure or self.dropped:
            raise RecordingFailed(
                f'recording {self._file} lacks {self.dropped} messages: '
                f'{self.failure or "the disk took less than came"}'
            )

    def _run(self) -> None:
        self._attempt(partial(self._writer.start, 'ros2'))
        while not (self._is_closing and self._queue.empty()):
            try:
                self._take_next()
            except Exception as error:  # such as no memory: who closes waits for this thread
                self._fail(error)
        self._attempt(self._writer.finish)
        try:
            self._stream.close()
        except Exception as error:
            self._fail(error)
        self._is_complete = True

    def _take_next(self) -> None:
        """Does what waits first, or flushes the file where nothing does for a while."""
        wait_s = max(0.0, self._flushed_s + FLUSH_PERIOD_S - time.monotonic())
        try:
            entry = self._queue.get(timeout=wait_s)
        except queue.Empty:
            self._attempt(self._flush)
            self._flushed_s = time.monotonic()
            return
        if entry is not None:
            step, size = entry
            self._attempt(step)
            self._count(size)

    def _count(self, size: int) -> None:
        """Notes that a message of so many bytes, 0 for an announced topic, waits no longer."""
        if size:
            with self._lock:
                self._waiting_bytes -= size
                self.dropped += bool(self.failure)

    def _attempt(self, step: Callable[[], None]) -> None:
        """Does nothing after a failure: what follows a part of a chunk could not be read."""
        if not self.failure:
            try:
                step()
            except Exception as error:  # the outermost frame of the thread that writes
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or str(error) or type(error).__name__

    def _flush(self) -> None:
        self._writer.flush()
        os.fsync(self._stream.fileno())

    def _announce(self, topic: str, msgtype: str) -> None:
        if msgtype not in self._schemas:
            definition, _ = self._store.generate_msgdef(msgtype, ros_version=2)
            self._schemas[msgtype] = self._writer.register_schema(
                msgtype, 'ros2msg', definition.encode()
            )
        self._channels[topic] = self._writer.register_channel(
            topic, 'cdr', self._schemas[msgtype], {'offered_qos_profiles': ''}
        )

    def _write(self, topic: str, received_ns: int, raw: bytes) -> None:
        self._writer.add_message(
            self._channels[topic], log_time=received_ns, data=raw, publish_time=received_ns
        )
        self.written[topic] += 1
