"""What can be read of a bag that was not finished: after a power cut, of a killed recorder, of a cut copy."""

from __future__ import annotations

import io
import re
import shutil
import sqlite3
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import zstandard
from mcap.data_stream import ReadDataStream, RecordBuilder
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    MessageIndex,
    Schema,
    Statistics,
)
from mcap.writer import MCAP0_MAGIC
from rosbags.rosbag2 import ReaderError, storage_mcap

from deadline_perception.core.untrusted_file import check_kind
from deadline_perception.extras.data.bag_compression import MOST_CHUNK_BYTES
from deadline_perception.extras.data.bag_limits import (
    limit_rosbags,
    limited_records,
    most_bytes,
    most_records,
    step_counter,
)

_DAMAGE = (
    McapError,
    ReaderError,
    zstandard.ZstdError,
    ValueError,
    LookupError,
    RuntimeError,
    OverflowError,
    MemoryError,
    struct.error,
)
_TABLES = (
    'schema',
    'metadata',
    'topics',
    'message_definitions',
    'messages',
)  # of rosbag2, all its versions
# Columns in words alone: such a statement computes nothing and names no other file.
_INDEX = re.compile(
    r'CREATE (UNIQUE )?INDEX\s+[\w"\'`\[\]]+\s+ON\s+[\w\s"\'`\[\]]+\([\w\s,"\'`\[\]]+\)',
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    rf'CREATE TABLE\s+["\'`]?({"|".join(_TABLES)})["\'`]?\s*\([\w\s,]+\)', re.IGNORECASE
)
_FORBIDDEN = (
    sqlite3.SQLITE_ATTACH,
    sqlite3.SQLITE_DETACH,
    sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_CREATE_TRIGGER,
    sqlite3.SQLITE_CREATE_VTABLE,
    sqlite3.SQLITE_FUNCTION,
)


class IncompleteMcap:
    """An mcap file as rosbags takes a path, but with a new index behind its last whole chunk; the file stays as it is.

    Args:
        file: where it lies.
        most: bytes that its chunks may have once decompressed; what comes behind is not read.

    Attributes:
        messages: number of messages up to there.

    Raises:
        OSError: the file cannot be read.
        FileRefused: it is no ordinary file.
    """

    def __init__(self, file: Path, most: int | None = None) -> None:
        self._file = file
        self.suffix, self.stem, self.name = file.suffix, file.stem, file.name
        check_kind(file)
        limit_rosbags()
        with file.open('rb') as stream:
            size = file.stat().st_size
            with limited_records([most_records(size)]):
                index = _Index(stream, size, most_bytes(size) if most is None else most)
        self.messages, self._size, self._end = index.messages, index.end_byte, index.as_bytes()

    def exists(self) -> bool:
        return self._file.exists()

    def is_dir(self) -> bool:
        return False

    def open(self, mode: str = 'rb') -> BinaryIO:
        """The file's whole chunks and the new index, as one stream."""
        return io.BufferedReader(_Joined(self._file.open(mode), self._size, self._end))


class _Joined(io.RawIOBase):
    """The beginning of a file, with other bytes behind it."""

    def __init__(self, stream: BinaryIO, size: int, end: bytes) -> None:
        self._stream, self._size, self._end, self._at = stream, size, end, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = (
            offset
            + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size + len(self._end)}[
                whence
            ]
        )
        return self._at

    def readinto(self, buffer: memoryview) -> int:
        """Fills the buffer from the file, then from the bytes behind it; returns how many it took, 0 at the end."""
        if self._at < self._size:
            self._stream.seek(self._at)
            data = self._stream.read(min(len(buffer), self._size - self._at))
        else:
            data = self._end[self._at - self._size :][: len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _records(stream: BinaryIO, size: int) -> Iterator[tuple[int, int, int]]:
    """Code, place and length of each whole record, the stream standing at its content; ends at the first cut one."""
    at = stream.tell()
    while size - at >= 9:
        code, length = struct.unpack('<BQ', stream.read(9))
        if code == 0 or code == Opcode.DATA_END or at + 9 + length > size:
            return
        yield code, at, length
        at += 9 + length
        stream.seek(at)


class _Index:
    """What the end of an mcap file says of its content, gathered from the content itself."""

    def __init__(self, stream: BinaryIO, size: int, most: int) -> None:
        self._bytes_left = most
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, Channel] = {}
        self._counts: Counter[int] = Counter()
        self._chunks: list[ChunkIndex] = []
        self._last: dict[
            int, MessageIndex
        ] = {}  # of the last chunk: what is in the file behind it may be cut
        self._loose = False  # messages outside of chunks
        self._times_ns = (2**63, 0)
        self.end_byte = len(MCAP0_MAGIC)
        try:
            if stream.read(self.end_byte) != MCAP0_MAGIC:
                size = 0
            for code, at, length in _records(stream, size):
                self._take(stream, code, at, length)
                if code != Opcode.MESSAGE_INDEX:
                    self.end_byte = at + 9 + length
        except _DAMAGE:  # what follows is damaged, which is where this ends
            pass
        self.messages = self._counts.total()

    def _take(self, stream: BinaryIO, code: int, at: int, length: int) -> None:
        if code == Opcode.CHUNK:
            self._take_chunk(Chunk.read(_data(stream, length)), at, length)
        elif code == Opcode.MESSAGE_INDEX and self._chunks:
            chunk = self._chunks[-1]
            chunk.message_index_offsets[struct.unpack('<H', stream.read(2))[0]] = at
            chunk.message_index_length += 9 + length
        else:
            self._loose |= self._take_content(stream, code, length) is not None

    def _take_chunk(self, chunk: Chunk, at: int, length: int) -> None:
        facts = chunk.compression, chunk.uncompressed_size, chunk.uncompressed_crc
        self._bytes_left -= chunk.uncompressed_size
        if self._bytes_left < 0:
            raise ValueError('more than such a file may hold once decompressed')
        content = storage_mcap.decompress(chunk.data, *facts)
        size, stream, found = len(content), io.BytesIO(content), {}
        for code, inner_at, inner_length in _records(stream, size):
            message = self._take_content(stream, code, inner_length)
            if message is not None:
                found.setdefault(message[0], MessageIndex(message[0], [])).records.append(
                    (message[1], inner_at)
                )
        self._last = found
        self._chunks.append(
            ChunkIndex(
                chunk_length=9 + length,
                chunk_start_offset=at,
                compression=chunk.compression,
                compressed_size=len(chunk.data),
                message_end_time=chunk.message_end_time,
                message_index_length=0,
                message_index_offsets={},
                message_start_time=chunk.message_start_time,
                uncompressed_size=size,
            )
        )

    def _take_content(self, stream: BinaryIO, code: int, length: int) -> tuple[int, int] | None:
        """Takes what a chunk may hold; channel and time of a message."""
        if code == Opcode.SCHEMA:
            schema = Schema.read(_data(stream, length))
            self._schemas[schema.id] = schema
        elif code == Opcode.CHANNEL:
            channel = Channel.read(_data(stream, length))
            self._channels[channel.id] = channel
        elif code == Opcode.MESSAGE:
            channel_id, _, time_ns = struct.unpack('<HIQ', stream.read(14))
            self._counts[channel_id] += 1
            self._times_ns = min(self._times_ns[0], time_ns), max(self._times_ns[1], time_ns)
            return channel_id, time_ns
        return None

    def as_bytes(self) -> bytes:
        """The end of the file: indexes of the last chunk's messages, and the summary."""
        end = RecordBuilder()
        if self._chunks:
            chunk = self._chunks[-1]
            chunk.message_index_offsets.clear()
            for channel_id, index in self._last.items():
                chunk.message_index_offsets[channel_id] = self.end_byte + end.count
                index.write(end)
            chunk.message_index_length = end.count
        DataEnd(0).write(end)
        summary_start = 0
        if not self._loose:  # else whoever reads the file has to look through all of it
            summary_start = self.end_byte + end.count
            statistics = Statistics(
                attachment_count=0,
                channel_count=len(self._channels),
                channel_message_counts=self._counts,
                chunk_count=len(self._chunks),
                message_count=self.messages,
                message_start_time=self._times_ns[0],
                message_end_time=self._times_ns[1],
                metadata_count=0,
                schema_count=len(self._schemas),
            )
            for record in (
                *self._schemas.values(),
                *self._channels.values(),
                *self._chunks,
                statistics,
            ):
                record.write(end)
        Footer(summary_start=summary_start, summary_offset_start=0, summary_crc=0).write(end)
        return end.end() + MCAP0_MAGIC


def _data(stream: BinaryIO, length: int) -> ReadDataStream:
    if length > MOST_CHUNK_BYTES:
        raise ValueError(f'a record of {length} bytes, expected at most {MOST_CHUNK_BYTES}')
    return ReadDataStream(io.BytesIO(stream.read(length)))


def salvage_sqlite(file: Path, folder: Path) -> Path:
    """Copies all rows that can be read, those in a journal beside the file included, into a new file.

    Of a file that lacks more than its last pages, that may be none: the page that says where the rows are can be late.
    Only tables that rosbag2 makes are copied, and of the statements that made them only those that name columns: what
    else the file holds of SQL is not executed.

    Args:
        file: a .db3 file; it stays as it is.
        folder: for the copy, with room for twice the file.

    Raises:
        sqlite3.Error: not even its tables are known.
        OSError: it cannot be copied.
        FileRefused: it is no ordinary file.
    """
    copied = []
    for journal in ('', '-wal', '-journal'):
        if Path(f'{file}{journal}').exists():
            check_kind(Path(f'{file}{journal}'))
            copied.append(folder / f'cut_{file.name}{journal}')
            shutil.copy(f'{file}{journal}', copied[-1])
    with (
        closing(sqlite3.connect(folder / f'cut_{file.name}')) as source,
        closing(sqlite3.connect(folder / file.name)) as target,
    ):
        source.execute(
            'PRAGMA writable_schema = ON'
        )  # or a file that is shorter than it says is refused as a whole
        source.execute('PRAGMA trusted_schema = OFF')
        bytes_left = file_bytes = sum(part.stat().st_size for part in copied)
        if sys.version_info >= (3, 11):
            source.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_CHUNK_BYTES)
        source.set_progress_handler(step_counter(file_bytes, 10_000), 10_000)
        source.text_factory = lambda raw: raw.decode(errors='replace')
        for database in (source, target):
            database.set_authorizer(
                lambda act, *_: sqlite3.SQLITE_DENY if act in _FORBIDDEN else sqlite3.SQLITE_OK
            )
        for name, statement in _plain_tables(source).items():
            target.execute(statement)
            try:
                for row in source.execute(f'SELECT * FROM "{name}"'):
                    bytes_left -= sum(len(v) for v in row if isinstance(v, (bytes, str)))
                    if bytes_left < 0:  # pages that are listed again and again
                        break
                    target.execute(
                        f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(row))})', row
                    )
            except sqlite3.DatabaseError:  # the rest of this table is not there
                pass
        target.commit()
    return folder / file.name


def computing_statement(database: sqlite3.Connection) -> str | None:
    """The name of what a database would compute as it is read; None of one with rows alone, as rosbag2 makes them."""
    for kind, name, statement in database.execute('SELECT type, name, sql FROM sqlite_master'):
        words = str(statement).strip()
        if kind == 'table' and str(name).lower() not in _TABLES:  # of which nothing is read
            is_plain = words.upper().startswith('CREATE TABLE ')
        elif kind == 'table':
            is_plain = _STATEMENT.fullmatch(words) is not None
        else:
            is_plain = kind == 'index' and (
                statement is None or _INDEX.fullmatch(words) is not None
            )
        if not is_plain:
            return str(name)
    return None


def _plain_tables(database: sqlite3.Connection) -> dict[str, str]:
    """The statements that made the tables of a bag, by their names, of those that are safe to execute."""
    found = {}
    for name, statement in database.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
    ):
        made = _STATEMENT.fullmatch(str(statement).strip())
        if made and made[1] == name:
            found[name] = statement
    return found
