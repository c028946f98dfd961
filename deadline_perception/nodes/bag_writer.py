"""Writes messages to a bag on a thread of its own, so that whoever receives them never waits for the disk."""
from __future__ import annotations

import os
import queue
import shutil
import threading
from pathlib import Path

from rosbags.rosbag2 import StoragePlugin, Writer, WriterError

from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.nodes.bag_types import define


class RecordingFailed(DeadlinePerceptionError):
    """A bag cannot be begun or went wrong while it was written."""


class BagWriter:
    """Takes messages from any thread and writes them in the order in which they came.

    What is being written lies in a hidden folder beside the bag and gets the bag's name when it is closed.

    Args:
        file: a name that ends with `.mcap` gives one file, any other a bag folder with metadata.
        store: rosbags type store; it learns the definitions of types that it lacks.

    Raises:
        RecordingFailed: the name is taken, or the folder cannot be written.
    """

    def __init__(self, file: Path, store) -> None:
        self._file = file
        self._store = store
        self._part = file.with_name(f'.{file.name}.{os.getpid()}.part')
        if file.exists():
            raise RecordingFailed(f'{file} exists already, expected a new name for the recording')
        try:
            self._part.mkdir(parents=True)
        except OSError as error:
            raise RecordingFailed(f'{file} cannot be written: {error.strerror}') from error
        self._folder = self._part / file.name
        self._writer = Writer(self._folder, version=8, storage_plugin=StoragePlugin.MCAP)
        self._writer.open()
        self._connections: dict[str, object] = {}
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self.written: dict[str, int] = {}
        self.dropped = 0
        self.failure = ''
        self._thread = threading.Thread(target=self._run, name='bag writer', daemon=True)
        self._thread.start()

    def add_topic(self, topic: str, msgtype: str) -> None:
        """Announces a topic; to be called before its first message. Blocks for milliseconds.

        Raises:
            MessageTypeError: the type's definition is not found.
        """
        define(self._store, msgtype)
        self.written[topic] = 0
        self._queue.put((topic, msgtype, None))

    def put(self, topic: str, received_ns: int, raw: bytes) -> None:
        """Hands over a serialised message. Never blocks."""
        self._queue.put((topic, received_ns, raw))

    @property
    def waiting(self) -> int:
        """Messages not written yet."""
        return self._queue.qsize()

    def close(self) -> None:
        """Writes what is waiting, finishes the bag and gives it its name. Blocks.

        Raises:
            RecordingFailed: something was not written; the message says what and where the rest is.
        """
        self._queue.put(None)
        self._thread.join()
        try:
            self._writer.close()
            written = self._folder / f'{self._folder.name}.mcap' if self._file.suffix == '.mcap' else self._folder
            written.rename(self._file)
        except (OSError, WriterError) as error:
            raise RecordingFailed(f'recording {self._file} cannot be finished: {error}; what was written is in '
                                  f'{self._part}') from error
        shutil.rmtree(self._part, ignore_errors=True)
        if self.failure:
            raise RecordingFailed(f'recording {self._file} lacks {self.dropped} messages: {self.failure}')

    def _run(self) -> None:
        while True:
            entry = self._queue.get()
            if entry is None:
                return
            topic, what, raw = entry
            try:
                if raw is None:
                    self._connections[topic] = self._writer.add_connection(topic, what, typestore=self._store)
                else:
                    self._writer.write(self._connections[topic], what, raw)
                    self.written[topic] += 1
            except (OSError, WriterError, KeyError) as error:
                self.failure = self.failure or f'{topic}: {error}'
                self.dropped += raw is not None
