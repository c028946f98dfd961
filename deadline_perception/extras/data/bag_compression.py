"""Compressed parts of bags, taken apart within a stated size: some kilobytes can claim to be many gigabytes."""

from __future__ import annotations

import io

import lz4.frame
import zstandard

MOST_CHUNK_BYTES = (
    2**28
)  # of messages in one chunk; recorders begin a new one after some megabytes, or one message


def decompressed(data: bytes, compression: str, size: int = MOST_CHUNK_BYTES) -> bytes:
    """What was compressed, at most one byte more than it should have.

    Args:
        compression: as mcap files name it; empty for none.
        size: bytes that it should have.

    Raises:
        ValueError: the size is beyond reason, or there is no such compression.
        zstandard.ZstdError, RuntimeError: the data are damaged.
    """
    if size > MOST_CHUNK_BYTES:
        raise ValueError(f'a chunk of {size} bytes, expected at most {MOST_CHUNK_BYTES}')
    if compression == 'zstd':
        with zstandard.ZstdDecompressor().stream_reader(
            io.BytesIO(data), read_across_frames=True
        ) as stream:
            return stream.read(size + 1)
    if compression == 'lz4':
        return lz4.frame.LZ4FrameDecompressor().decompress(data, size + 1)
    if compression:
        raise ValueError(f'compression {compression[:40]!r}, expected zstd, lz4 or none')
    return data
