"""mcap files whose bytes rot, whose index lies, or whose texts and records are many, written record by record."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import zstandard
from mcap.data_stream import RecordBuilder
from mcap.records import Channel, Chunk, ChunkIndex, DataEnd, Footer, Schema, Statistics
from mcap.writer import MCAP0_MAGIC, CompressionType, Writer

_HEAD = MCAP0_MAGIC + b'\x01' + struct.pack('<Q', 12) + struct.pack('<I', 4) + b'ros2' + bytes(4)
_WORD = b'\0\x01\0\0\x02\0\0\0a\0'
_LONG = b'\0\x01\0\0' + struct.pack('<I', 2**25) + b'a' * (2**25 - 1) + b'\0'
_LISTED = 300
_MANY = 2_000_000


def hostile_bags() -> Iterator[tuple[str, bytes]]:
    """Each with what is wrong with it."""
    for kind in (CompressionType.ZSTD, CompressionType.LZ4):
        whole = _compressed(kind)
        chunk = whole.index(b'\x06', 60)
        for share in (4, 3, 2):
            place = chunk + 60 + len(whole) // (2 * share)
            flipped = bytes([whole[place] ^ 0x40])
            yield (
                f'a flipped byte {kind.name} {share}',
                whole[:place] + flipped + whole[place + 1 :],
            )
    for apart in (0, 1):
        yield f'one chunk listed often, {apart} apart', _bag(_message(_LONG), apart=apart)
    merged = 'a0: &a0 {x: 1}\n' + ''.join(
        f'a{number}: &a{number} {{<<: [*a{number - 1}, *a{number - 1}]}}\n'
        for number in range(1, 60)
    )
    rows = '- {durability: 1}\n' * 200_000
    for name, text in (('merge keys', merged), ('rows', rows), ('brackets', '[' * 100_000)):
        yield f'quality of service of {name}', _bag(_message(_WORD), 1, qos=text)
    yield 'millions of empty messages', _bag(_message(b'') * _MANY, 1)
    yield 'millions of empty records', _bag((b'\x7f' + bytes(8)) * _MANY, 1)
    yield 'the same without an index', _bag((b'\x7f' + bytes(8)) * _MANY, 0)


def _compressed(kind: CompressionType) -> bytes:
    stream = io.BytesIO()
    writer = Writer(stream, compression=kind)
    writer.start('ros2')
    schema = writer.register_schema('std_msgs/msg/String', 'ros2msg', b'string data')
    channel = writer.register_channel('/word', 'cdr', schema)
    for number in range(200):
        text = f'word {number * 7919 % 1000}'.encode() + b'\0'
        raw = b'\0\x01\0\0' + struct.pack('<I', len(text)) + text
        writer.add_message(channel, number, raw, number)
    writer.finish()
    return stream.getvalue()


def _message(data: bytes) -> bytes:
    body = struct.pack('<HIQQ', 1, 0, 0, 0) + data
    return b'\x05' + struct.pack('<Q', len(body)) + body


def _records(*given: object) -> bytes:
    builder = RecordBuilder()
    for one in given:
        one.write(builder)
    return builder.end()


def _bag(content: bytes, listed: int = _LISTED, *, apart: int = 0, qos: str = '') -> bytes:
    """A file of one chunk, which its index lists so often, each `apart` ns later; 0: it has no index."""
    schema = Schema(id=1, name='std_msgs/msg/String', encoding='ros2msg', data=b'string data')
    facts = {'offered_qos_profiles': qos}
    channel = Channel(1, '/word', 'cdr', facts, 1)
    data = zstandard.ZstdCompressor().compress(content)
    chunk = _records(
        Chunk(
            compression='zstd',
            data=data,
            message_start_time=0,
            message_end_time=1,
            uncompressed_crc=0,
            uncompressed_size=len(content),
        )
    )
    body = _HEAD + _records(schema, channel)
    at = len(body)
    body += chunk + _records(DataEnd(0))
    if not listed:
        return body + _records(Footer(0, 0, 0)) + MCAP0_MAGIC
    rows = [
        ChunkIndex(
            chunk_length=len(chunk),
            chunk_start_offset=at,
            compression='zstd',
            compressed_size=len(data),
            message_end_time=1 + apart * number,
            message_index_length=31,
            message_index_offsets={1: at + len(chunk)},
            message_start_time=apart * number,
            uncompressed_size=len(content),
        )
        for number in range(listed)
    ]
    known = Statistics(
        attachment_count=0,
        channel_count=1,
        channel_message_counts={1: listed},
        chunk_count=listed,
        message_count=listed,
        message_start_time=0,
        message_end_time=1,
        metadata_count=0,
        schema_count=1,
    )
    return body + _records(schema, channel, *rows, known, Footer(len(body), 0, 0)) + MCAP0_MAGIC
