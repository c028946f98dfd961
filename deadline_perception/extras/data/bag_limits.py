"""The budget of a bag: what its files may become of bytes, records, topics and steps of SQL while they are read.

rosbags reads whatever the files ask for. `limit_rosbags` has it read within these limits, for every storage alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO
from urllib.parse import quote

import apsw
from rosbags.highlevel import anyreader
from rosbags.interfaces import (
    Connection,
    MessageDefinition,
    MessageDefinitionFormat,
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import metadata, reader, storage_mcap, storage_sqlite3
from rosbags.typesys import TypesysError

from deadline_perception.core.errors import printable
from deadline_perception.core.untrusted_file import MIB
from deadline_perception.extras.data.bag_compression import MOST_CHUNK_BYTES, decompressed
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.extras.plain_yaml import parse_yaml

MOST_METADATA_BYTES = 2**18  # of metadata.yaml
MOST_TOPICS = 10_000
_MOST_OVERLAPPING_BYTES = 2**29  # of chunks that are open at once, because their times overlap
_MOST_DEFINITION_BYTES = 2**16  # of one message's type
_MOST_DEFINITIONS_BYTES = 4 * MIB  # of all that differ
_MOST_PARSED_BYTES = MIB  # of those; some seconds and hundreds of MB
_ENCODINGS = ('ros2msg', 'ros2idl', 'omgidl', '')  # of message definitions, that rosbags knows
_UNDEFINED = MessageDefinition(MessageDefinitionFormat.NONE, '')
_BETWEEN_PARTS = '=' * 80 + '\n'  # of a definition in IDL
_STEPS_AT_ONCE = 100_000
_LATCHED = re.compile(r'\bdurability["\']?\s*:\s*["\']?(?:1\b|transient_local\b)', re.IGNORECASE)
# Bytes of the files that are being opened, before they are decompressed.
_opened_bytes: ContextVar[int] = ContextVar('opened_bytes', default=2**40)
# Whether each definition of the bag that is being opened is one, as far as they are parsed.
_parsed: ContextVar[dict[MessageDefinition, bool]] = ContextVar('parsed')
# What is left of `most_records` to the one who goes through a bag now.
_records_left: ContextVar[list[int]] = ContextVar('records_left')


def most_bytes(file_bytes: int) -> int:
    """That all chunks and messages of a bag may have once decompressed; black images become a thousandth."""
    return 2**30 + 1000 * file_bytes


def most_records(file_bytes: int) -> int:
    """That all chunks may hold: the times and numbers of messages differ, so each takes more than a byte."""
    return 100_000 + file_bytes


def _most_steps(file_bytes: int) -> int:
    """That SQLite may take for one question: some seconds, and hundreds for each row that a file can hold."""
    return 200_000_000 + 20 * file_bytes


@contextmanager
def limited_records(left: list[int]) -> Iterator[None]:
    """Takes the records of the chunks that are decompressed meanwhile from what is left, one number."""
    token = _records_left.set(left)
    try:
        yield
    finally:
        _records_left.reset(token)


@contextmanager
def limited_rosbags(file_bytes: int) -> Iterator[None]:
    """Opens bags within the budget that files of so many bytes have."""
    limit_rosbags()
    token, definitions = _opened_bytes.set(file_bytes), _parsed.set({})
    try:
        yield
    finally:
        _opened_bytes.reset(token)
        _parsed.reset(definitions)


@lru_cache(maxsize=1)
def limit_rosbags() -> None:
    """Has rosbags decompress, parse and list within the limits of this module."""
    for compression in ('zstd', 'lz4'):
        storage_mcap.DECOMPRESSORS[compression] = lambda data, size, compression=compression: (
            _decompressed_chunk(data, compression, size)
        )
    # As much of a zstd module as rosbags uses, for messages that are compressed one by one.
    reader.zstd = SimpleNamespace(decompress=decompressed_message)
    reader.YAML = lambda typ: SimpleNamespace(load=parse_metadata)
    for module in (metadata, reader, storage_mcap, storage_sqlite3):
        module.parse_qos = latched_alone
    defined = storage_mcap.get_msgdef
    storage_mcap.get_msgdef = lambda schema: defined(
        schema if schema is None or schema.encoding in _ENCODINGS else None
    )
    for name in ('get_types_from_msg', 'get_types_from_idl'):
        setattr(anyreader, name, _limited_parser(getattr(anyreader, name)))
    reader.Reader.STORAGE_PLUGINS['.mcap'] = LimitedMcapReader
    reader.Reader.STORAGE_PLUGINS['.db3'] = LimitedSqliteReader
    reader.DirectoryReader.STORAGE_PLUGINS['mcap'] = LimitedMcapReader
    reader.DirectoryReader.STORAGE_PLUGINS['sqlite3'] = LimitedSqliteReader


@lru_cache(maxsize=2)
def parse_metadata(text: str) -> object:
    """What the description of a bag folder holds.

    Raises:
        FileRefused: it is more than settings, see `plain_yaml`.
        ValueError: it is too large.
    """
    if len(text) > MOST_METADATA_BYTES:
        raise ValueError(
            f'metadata.yaml has {len(text)} characters, expected at most {MOST_METADATA_BYTES}'
        )
    return parse_yaml(text)


def latched_alone(profiles: object) -> list[Qos]:
    """Whether messages were kept for late comers, the one thing that is asked of offered qualities of service.

    Recorders and converters write them in many ways, whole or in parts; nothing else of them is read.
    """
    text = profiles if isinstance(profiles, str) else str(profiles)
    if not _LATCHED.search(text):
        return []
    never = QosTime(0, 0)
    return [
        Qos(
            QosHistory.UNKNOWN,
            0,
            QosReliability.UNKNOWN,
            QosDurability.TRANSIENT_LOCAL,
            never,
            never,
            QosLiveliness.UNKNOWN,
            never,
            False,
        )
    ]


class LimitedMcapReader(storage_mcap.McapReader):
    """See the module; also reads files that have an index of chunks, but none of the messages in them."""

    def __init__(self, path: object) -> None:
        super().__init__(path)
        self._file_bytes = _opened_bytes.get()

    def _open(self) -> None:
        super()._open()
        self.connections = _checked(self.connections)
        _check_chunks(self.chunks, self._file_bytes)
        for chunk in self.chunks:
            if not chunk.message_index_offsets:  # any channel may be there
                chunk.channel_count.update((channel.id, 1) for channel in self.connections)

    def read_index(self) -> None:
        super().read_index()
        if self.statistics is None and any(not c.message_index_offsets for c in self.chunks):
            self.chunks.clear()  # without a number of messages anywhere, the file has to be looked through

    def meta_scan(self) -> None:
        _check_expansion(self.bio, self.data_start, self.data_end, self._file_bytes)
        with limited_records([most_records(self._file_bytes)]):
            super().meta_scan()

    def messages(
        self, connections: Collection[Connection], start: int | None = None, stop: int | None = None
    ) -> Generator[tuple[Connection, int, bytes], None, None]:
        messages, left = (
            super().messages(connections, start, stop),
            [most_records(self._file_bytes)],
        )
        while True:
            with limited_records(left):
                message = next(messages, None)
            if message is None:
                return
            yield message


class LimitedSqliteReader(storage_sqlite3.Sqlite3Reader):
    """See the module."""

    def __init__(self, path: Path) -> None:
        # rosbags puts it into a URI as it is, where `#`, `?` and `%` would mean something else.
        super().__init__(Path(quote(str(path))))
        self._file_bytes = _opened_bytes.get()

    def open(self) -> None:
        apsw.connection_hooks.append(self._limit)
        try:
            super().open()
        finally:
            apsw.connection_hooks.remove(self._limit)
        self.connections = _checked(self.connections)

    def messages(
        self, connections: Collection[Connection], start: int | None = None, stop: int | None = None
    ) -> Generator[tuple[Connection, int, bytes], None, None]:
        self._limit(self.dbconn)
        yield from super().messages(connections, start, stop)

    def _limit(self, connection: apsw.Connection) -> None:
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, MOST_CHUNK_BYTES)
        connection.set_progress_handler(step_counter(self._file_bytes), _STEPS_AT_ONCE)


def step_counter(file_bytes: int, steps_at_once: int = _STEPS_AT_ONCE) -> Callable[[], bool]:
    """What SQLite calls every so many steps; ends what takes more than files of so many bytes can need."""
    left = _most_steps(file_bytes)

    def count() -> bool:
        nonlocal left
        left -= steps_at_once
        return left < 0

    return count


def _checked(connections: list[Connection]) -> list[Connection]:
    """The topics, without definitions that cannot be parsed or go beyond the limit, where those of known types
    come first: other topics of the bag do without."""
    if len(connections) > MOST_TOPICS:
        raise ValueError(f'{len(connections)} topics, expected at most {MOST_TOPICS}')
    for name in (text for one in connections for text in (one.topic, one.msgtype)):
        if not isinstance(name, str):  # a database may have anything there
            raise ValueError(f'topic or type {printable(name, 60)}, expected a text')
    size = sum(len(text) for text in {connection.msgdef.data for connection in connections})
    if size > _MOST_DEFINITIONS_BYTES:
        raise ValueError(
            f'message definitions of {size} characters, expected at most {_MOST_DEFINITIONS_BYTES}'
        )
    parsed, known = _parsed.get({}), message_types().fielddefs
    left = _MOST_PARSED_BYTES - sum(len(definition.data) for definition in parsed)
    for one in sorted(connections, key=lambda one: one.msgtype not in known):
        if one.msgdef not in parsed:
            left -= len(one.msgdef.data)
            parsed[one.msgdef] = left >= 0 and _is_parsed(one)
    return [one if parsed[one.msgdef] else one._replace(msgdef=_UNDEFINED) for one in connections]


def _is_parsed(connection: Connection) -> bool:
    form, text = connection.msgdef
    is_in_parts = text.startswith(f'{_BETWEEN_PARTS}IDL: ')
    parts = text.split(_BETWEEN_PARTS)[1:] if is_in_parts else [text]
    try:
        if form is MessageDefinitionFormat.MSG:
            anyreader.get_types_from_msg(text, connection.msgtype)
        for part in parts if form is MessageDefinitionFormat.IDL else ():
            anyreader.get_types_from_idl(part.partition('\n')[2] if is_in_parts else part)
    except TypesysError:
        return False
    return True


def _check_chunks(chunks: list[storage_mcap.ChunkInfo], file_bytes: int) -> None:
    """An index may list one chunk many times: each would be decompressed anew, and all be kept."""
    end = 0
    for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_start_offset):
        if chunk.chunk_start_offset < end:
            raise ValueError(f'two chunks overlap at byte {chunk.chunk_start_offset}')
        end = chunk.chunk_start_offset + 49 + len(chunk.compression) + chunk.compressed_size
    _check_sum((chunk.uncompressed_size for chunk in chunks), file_bytes)
    begins_and_ends = sorted(
        (time, size)
        for chunk in chunks
        for time, size in (
            (min(chunk.message_start_time, chunk.message_end_time), chunk.uncompressed_size),
            (max(chunk.message_start_time, chunk.message_end_time) + 1, -chunk.uncompressed_size),
        )
    )
    at_once = 0
    for _, size in begins_and_ends:
        at_once += size
        if at_once > _MOST_OVERLAPPING_BYTES:
            raise ValueError(
                f'{at_once} bytes of chunks at the same time, expected at most '
                f'{_MOST_OVERLAPPING_BYTES}'
            )


def _check_expansion(stream: BinaryIO, start: int, end: int, file_bytes: int) -> None:
    stream.seek(start)
    sizes = []
    while stream.tell() + 9 <= end:
        at = stream.tell()
        head = stream.read(33)
        length = int.from_bytes(head[1:9], 'little')
        if head[0] == 0x06:
            sizes.append(int.from_bytes(head[25:33], 'little'))
        if at + 9 + length > end:
            break
        stream.seek(at + 9 + length)
    _check_sum(sizes, file_bytes)
    stream.seek(start)


def _check_sum(sizes: Iterable[int], file_bytes: int) -> None:
    size = sum(sizes)
    if size > most_bytes(file_bytes):
        raise ValueError(
            f'its {file_bytes} bytes state {size} bytes once decompressed, expected at most '
            f'{most_bytes(file_bytes)}'
        )


def _decompressed_chunk(data: bytes, compression: str, size: int) -> bytes:
    content = decompressed(data, compression, size)
    left = _records_left.get([most_records(len(data))])
    at = 0
    while at < len(content):
        at += 9 + int.from_bytes(content[at + 1 : at + 9], 'little')
        left[0] -= 1
        if left[0] < 0:
            raise ValueError('its chunks hold more records than bytes')
    return content


def decompressed_message(data: bytes) -> bytes:
    """A message that was compressed by itself.

    Raises:
        ValueError: it is too large.
        zstandard.ZstdError: it is damaged.
    """
    content = decompressed(data, 'zstd')
    if len(content) > MOST_CHUNK_BYTES:
        raise ValueError(f'a message of more than {MOST_CHUNK_BYTES} bytes')
    return content


def _limited_parser(parse: Callable) -> Callable:
    """A parser of message definitions that remembers the last ones, which every topic of a type repeats."""
    parse = lru_cache(maxsize=MOST_TOPICS)(parse)

    def limited(text: str, *name: str) -> dict:
        if len(text) > _MOST_DEFINITION_BYTES:
            raise ValueError(
                f'a message definition of {len(text)} characters, expected at most '
                f'{_MOST_DEFINITION_BYTES}'
            )
        return parse(text, *name)

    return limited
