"""The messages of a bag in the order in which they were recorded, read ahead on a thread of its own."""
from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rosbags.highlevel import AnyReader

from deadline_perception.datasets.bag import damage_errors
from deadline_perception.datasets.message_definitions import message_types
from deadline_perception.errors import DeadlinePerceptionError

_READ_AHEAD = 32


class BagSourceError(DeadlinePerceptionError):
    """A bag that is missing, empty or damaged."""


@dataclass(frozen=True)
class BagTopic:
    """One topic of a bag.

    Attributes:
        name: as recorded.
        msgtype: such as `sensor_msgs/msg/Image`.
        count: number of messages.
        latched: its publisher kept messages for late comers.
    """

    name: str
    msgtype: str
    count: int
    latched: bool

    @property
    def is_image(self) -> bool:
        """Carries images, raw or compressed."""
        return self.msgtype in ('sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage')


class BagSource:
    """An open bag, mcap or sqlite3, a folder or a bare file.

    Args:
        file: the bag.

    Raises:
        BagSourceError: it is missing, empty or damaged.
    """

    def __init__(self, file: Path) -> None:
        if not file.exists():
            raise BagSourceError(f'bag {file} does not exist, expected a bag folder or an .mcap or .db3 file')
        self._file = file
        try:
            self._reader = AnyReader([file], default_typestore=message_types())
            self._reader.open()
            self.topics = tuple(BagTopic(c.topic, c.msgtype, c.msgcount, _is_latched(c))
                                for c in self._reader.connections)
        except damage_errors() as error:
            raise BagSourceError(f'bag {file} cannot be read, it may be cut off or no bag: {_one_line(error)}') from error
        if not any(topic.count for topic in self.topics):
            raise BagSourceError(f'bag {file} is empty, expected at least one message')

    @property
    def store(self):
        """The type store with the definitions of the bag's messages."""
        return self._reader.typestore

    def messages(self, names: set[str]) -> Iterator[tuple[str, str, int, bytes]]:
        """Topic, type, time of recording in ns and serialised message, in the order of the times.

        Raises:
            BagSourceError: the bag is damaged further on; the messages before that have been given.
        """
        ahead: queue.Queue = queue.Queue(_READ_AHEAD)
        stopped = threading.Event()
        thread = threading.Thread(target=self._read, args=(names, ahead, stopped), name='bag reader', daemon=True)
        thread.start()
        try:
            while True:
                entry = ahead.get()
                if entry is None:
                    return
                if isinstance(entry, BagSourceError):
                    raise entry
                yield entry
        finally:
            stopped.set()
            thread.join()

    def close(self) -> None:
        """Closes the file."""
        self._reader.close()

    def _read(self, names: set[str], ahead: queue.Queue, stopped: threading.Event) -> None:
        wanted = [c for c in self._reader.connections if c.topic in names]
        count, promised = 0, sum(c.msgcount for c in wanted)
        # In place until the end is known, so that whoever waits is told however this thread ends.
        entry: BagSourceError | None = BagSourceError(f'bag {self._file} could not be read to its end')
        try:
            for connection, time_ns, raw in self._reader.messages(wanted) if wanted else ():
                count += 1
                if not _offer((connection.topic, connection.msgtype, time_ns, raw), ahead, stopped):
                    return
        except damage_errors() as error:
            entry = BagSourceError(f'bag {self._file} is damaged: {_one_line(error)}')
        else:
            entry = None
            if count != promised:  # rosbags leaves out chunks that it cannot read
                entry = BagSourceError(f'bag {self._file} is damaged: it lists {promised} messages, {count} could be read')
        finally:
            _offer(entry, ahead, stopped)


def _offer(entry: object, ahead: queue.Queue, stopped: threading.Event) -> bool:
    while not stopped.is_set():
        try:
            ahead.put(entry, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False


def _is_latched(connection) -> bool:
    profiles = getattr(connection.ext, 'offered_qos_profiles', ())
    return any(getattr(profile.durability, 'name', '') == 'TRANSIENT_LOCAL' for profile in profiles)


def _one_line(error: Exception) -> str:
    return ' '.join(str(error).split()) or type(error).__name__
