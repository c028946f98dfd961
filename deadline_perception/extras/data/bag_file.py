"""One ROS 2 bag to read, whatever its storage and state: mcap or sqlite3, folder or bare file, whole or cut off."""

from __future__ import annotations

import shutil
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Collection, Generator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.untrusted_file import check_kind, read_text
from deadline_perception.extras.data.message_definitions import message_types

IMAGE_TYPES = ('sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage')
_STORAGE_ENDINGS = ('.mcap', '.db3')
_COMPRESSED_ENDING = (
    '.zstd'  # of a storage file that `ros2 bag record --compression-mode file` wrote
)
# Of a message that was compressed by itself (RFC 8878, section 3.1.1); none that is serialised begins so.
_COMPRESSED_START = b'\x28\xb5\x2f\xfd'
_SPARE_BYTES = 1 << 30  # on the disk for others, while such files are decompressed
_BLOCK_BYTES = 1 << 17


class BagError(DeadlinePerceptionError):
    """A bag cannot be read or written, or does not hold what is asked of it."""


@dataclass(frozen=True)
class BagTopic:
    """One topic of a bag, and how many messages it has; of a latched one the publisher kept them for late comers."""

    name: str
    msgtype: str
    count: int
    latched: bool

    @property
    def is_image(self) -> bool:
        return self.msgtype in IMAGE_TYPES

    @property
    def is_compressed(self) -> bool:
        return self.msgtype == IMAGE_TYPES[1]


class BagFile:
    """An open bag. One that ends without its index is read up to its last whole chunk.

    Args:
        file: a bag folder, or a bare .mcap or .db3 file; one that is compressed as a whole is decompressed beside the
            system's temporary files until it is closed.

    Attributes:
        file: as given.
        topics: in the order of the bag.
        ending: where a bag ends that was cut off, as a sentence; empty for a whole one.

    Raises:
        FileNotFoundError: there is no such file.
        BagError: nothing of it can be read.
    """

    def __init__(self, file: Path) -> None:
        if not file.exists():
            raise FileNotFoundError(
                f'bag {file} does not exist, expected a bag folder or an .mcap or .db3 file'
            )
        parts = (
            sorted(part for part in file.iterdir() if _is_storage(part))
            if file.is_dir()
            else [file]
        )
        self.file, self._open, self.ending = file, ExitStack(), ''
        if not parts or not _is_storage(parts[0]):
            raise BagError(f'{file} is no bag, expected a bag folder or an .mcap or .db3 file')
        self._file_bytes = sum(part.stat().st_size for part in parts)
        try:
            paths = [file]
            if any(part.suffix == _COMPRESSED_ENDING for part in parts):
                paths = parts = self._decompress(parts)
            if any(_has_journal(part) for part in parts):
                self._open_parts(parts)
            else:
                try:
                    self._open_reader(paths)
                except damage_errors() as error:
                    self._open_parts(parts, error)
            self.topics = self._topics()
        except BaseException as error:
            self._open.close()
            if isinstance(error, damage_errors()):
                raise BagError(
                    f'{file} cannot be read as a ROS 2 bag: {_one_line(error)}'
                ) from error
            raise

    def _open_reader(self, paths: list) -> None:
        from rosbags.highlevel import AnyReader

        from deadline_perception.extras.data.bag_limits import limited_rosbags

        for path in paths:
            _check(path)
        with limited_rosbags(self._file_bytes):
            self._reader = AnyReader(paths, default_typestore=message_types())
            self._reader.open()
        self._open.callback(self._reader.close)

    def _decompress(self, parts: list[Path]) -> list[Path]:
        """The parts with those that are compressed as files of a temporary folder, as far as they are whole."""
        from backports.zstd import ZstdError, ZstdFile

        from deadline_perception.extras.data.bag_limits import most_bytes

        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
        paths = [
            folder / part.stem if part.suffix == _COMPRESSED_ENDING else part for part in parts
        ]
        for part, path in zip(parts, paths):
            if path == part:
                continue
            check_kind(part)
            bytes_left = most_bytes(part.stat().st_size)
            with ZstdFile(part) as stream, path.open('wb') as out, suppress(ZstdError, EOFError):
                while block := stream.read(_BLOCK_BYTES):
                    bytes_left -= len(block)
                    if bytes_left < 0:
                        raise BagError(
                            f'{part} has {part.stat().st_size} bytes and becomes more than '
                            f'{most_bytes(part.stat().st_size)}, expected a bag'
                        )
                    if shutil.disk_usage(folder).free < _SPARE_BYTES + len(block):
                        raise BagError(
                            f'{part} cannot be decompressed: {folder.parent} has no room for it; on another '
                            f'disk, `zstd -d {part.name}` makes a file that is read as it is'
                        )
                    out.write(block)
        return paths

    def _open_parts(self, parts: list[Path], cause: Exception | None = None) -> None:
        """Without the description of the folder, which alone may be the cause; else what there is of the parts."""
        from deadline_perception.extras.data.bag_limits import most_bytes
        from deadline_perception.extras.data.incomplete_bag import IncompleteMcap, salvage_sqlite

        if cause is not None:
            with suppress(*damage_errors()):
                self._open_reader(parts)
                found, described = self._reader.message_count, self._described_messages()
                if found < described:
                    self.ending = (
                        f'{self.file.name} has {found} of the {described} messages that its metadata.yaml '
                        f'counts; the others are lost.'
                    )
                return
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
        salvaged = [
            IncompleteMcap(part, most_bytes(self._file_bytes))
            if part.suffix == '.mcap'
            else salvage_sqlite(part, folder)
            for part in parts
        ]
        readable = [
            part for part in salvaged if not isinstance(part, IncompleteMcap) or part.messages
        ]
        if readable:
            try:
                self._open_reader(readable)
            except damage_errors():  # of what was salvaged, which says less than the cause
                if cause is not None:
                    raise cause
                raise
        if not readable or not self._reader.message_count:
            raise BagError(
                f'{self.file} cannot be read as a ROS 2 bag and holds no whole message: '
                f'{_one_line(cause) if cause else "its journal has none"}'
            ) from cause
        self.ending = (
            f'{self.file.name} was cut off or damaged; the {self._reader.message_count} messages of its '
            f'first {self._reader.duration / 1e9:.1f} s are read, what follows is lost.'
        )

    def _described_messages(self) -> int:
        """How many the description counts; 0 where there is none that can be read."""
        with suppress(*damage_errors()):
            content = _description(self.file)
            return int(content['rosbag2_bagfile_information']['message_count'])
        return 0

    def _topics(self) -> tuple[BagTopic, ...]:
        found: dict[tuple[str, str], BagTopic] = {}
        for connection in self._reader.connections:
            key = connection.topic, connection.msgtype
            known = found.get(key, BagTopic(*key, 0, False))
            found[key] = BagTopic(
                *key, known.count + connection.msgcount, known.latched or _is_latched(connection)
            )
        return tuple(found.values())

    @property
    def store(self):
        """The type store with the definitions of the bag's messages."""
        return self._reader.typestore

    def messages(
        self, names: Collection[str], start_ns: int | None = None, stop_ns: int | None = None
    ) -> Generator[tuple[str, str, int, bytes], None, None]:
        """Topic, type, time of recording in ns and serialised message, in the order of the times.

        Raises:
            BagError: the bag is damaged further on; the messages before that have been given.
        """
        wanted = [
            connection for connection in self._reader.connections if connection.topic in names
        ]
        from deadline_perception.extras.data.bag_limits import decompressed_message, most_bytes

        count, bytes_left = 0, most_bytes(self._file_bytes)
        damage = damage_errors()  # now: it imports, which a program that ends cannot
        try:
            for connection, time_ns, raw in (
                self._reader.messages(wanted, start_ns, stop_ns) if wanted else ()
            ):
                if not (isinstance(time_ns, int) and isinstance(raw, bytes)):
                    raise ValueError(  # a database may have anything there
                        f'time {printable(time_ns, 60)} and a message of {type(raw).__name__}, '
                        f'expected a whole number and bytes'
                    )
                if raw.startswith(_COMPRESSED_START):  # which a lost description does not tell
                    raw = decompressed_message(raw)
                count += 1
                bytes_left -= len(raw)
                if bytes_left < 0:
                    raise ValueError(
                        f'its messages have more than {most_bytes(self._file_bytes)} bytes'
                    )
                yield connection.topic, connection.msgtype, time_ns, raw
        except damage as error:
            raise BagError(f'{self.file} is damaged: {_one_line(error)}') from error
        promised = sum(connection.msgcount for connection in wanted)
        if (
            start_ns is None and stop_ns is None and count != promised
        ):  # rosbags leaves out chunks that it cannot read
            raise BagError(
                f'{self.file} is damaged: it lists {promised} messages on {", ".join(sorted(names))}, '
                f'{count} could be read'
            )

    def parse(self, raw: bytes, msgtype: str) -> object:
        """The message in raw data.

        Raises:
            BagError: it is damaged.
        """
        try:
            return self._reader.deserialize(raw, msgtype)
        except damage_errors() as error:
            raise BagError(f'{self.file} holds a damaged {msgtype}: {_one_line(error)}') from error

    def stamp_ns(self, raw: bytes) -> int:
        """Stamp of a message that starts with a header, without parsing the rest of it.

        Raises:
            BagError: it is damaged.
        """
        try:
            seconds, nanoseconds = struct.unpack_from('<iI' if raw[1] & 1 else '>iI', raw, 4)
        except (IndexError, struct.error) as error:
            raise BagError(
                f'{self.file} holds a message of {len(raw)} bytes, expected one with a header'
            ) from error
        return seconds * 1_000_000_000 + nanoseconds

    def close(self) -> None:
        self._open.close()


def _is_storage(part: Path) -> bool:
    name = part.stem if part.suffix == _COMPRESSED_ENDING else part.name
    return Path(name).suffix in _STORAGE_ENDINGS


def damage_errors() -> tuple[type[Exception], ...]:
    """What reading a damaged file can raise inside rosbags: its own errors, and those of sizes and texts that lie."""
    import apsw
    import zstandard
    from backports.zstd import ZstdError
    from rosbags.highlevel import AnyReaderError
    from rosbags.rosbag2 import ReaderError
    from rosbags.serde import SerdeError
    from rosbags.typesys import TypesysError

    return (
        AnyReaderError,
        ReaderError,
        SerdeError,
        TypesysError,
        ZstdError,
        zstandard.ZstdError,
        zlib.error,
        apsw.Error,
        sqlite3.Error,
        AssertionError,
        struct.error,
        OSError,
        LookupError,
        ArithmeticError,
        ValueError,
        TypeError,
        AttributeError,
        SyntaxError,
        NameError,
        EOFError,
        MemoryError,
        RuntimeError,
    )


def _check(path) -> None:
    """Refuses what rosbags would not read within bounds: files that are none, a description that is more than settings,
    a database of more than tables, a bag compressed as a whole, which only the space on the disk would bound."""
    if not isinstance(path, Path):  # the beginning of a damaged file, which was read to its end
        return
    for part in path.iterdir() if path.is_dir() else (path,):
        if part.is_dir():  # of which rosbags reads nothing
            continue
        check_kind(part)
        if part.suffix == '.db3':
            _check_tables(part)
    if not path.is_dir():
        return
    content = _description(path)
    facts = content.get('rosbag2_bagfile_information') if isinstance(content, dict) else None
    if isinstance(facts, dict) and not isinstance(facts.get('files', []), list):
        raise ValueError('its description has no list of files')
    if isinstance(facts, dict) and str(facts.get('compression_mode')).lower() == 'file':
        raise ValueError('its files are compressed as a whole')


def _description(folder: Path) -> object:
    from deadline_perception.extras.data.bag_limits import MOST_METADATA_BYTES, parse_metadata

    return parse_metadata(read_text(folder / 'metadata.yaml', MOST_METADATA_BYTES))


def _check_tables(part: Path) -> None:
    from deadline_perception.extras.data.incomplete_bag import computing_statement

    with closing(sqlite3.connect(f'{part.resolve().as_uri()}?immutable=1', uri=True)) as database:
        computing = computing_statement(database)
    if computing is not None:
        raise ValueError(
            f'{part.name} holds {printable(computing, 60)}, which is no plain table of rows; expected '
            f'such tables alone'
        )


def _has_journal(part: Path) -> bool:
    """A database whose last changes lie in a file beside it, because whoever wrote it did not close it."""
    journals = (
        [Path(f'{part}{ending}') for ending in ('-wal', '-journal')]
        if part.suffix == '.db3'
        else []
    )
    return any(journal.exists() and journal.stat().st_size for journal in journals)


def _is_latched(connection) -> bool:
    profiles = getattr(connection.ext, 'offered_qos_profiles', ())
    return any(getattr(profile.durability, 'name', '') == 'TRANSIENT_LOCAL' for profile in profiles)


def _one_line(error: BaseException) -> str:
    return printable(error) or type(error).__name__
