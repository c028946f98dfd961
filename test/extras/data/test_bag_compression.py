"""Chunks that claim to be small and are not, and those that claim to be larger than any recorder makes them."""

import lz4.frame
import pytest
import zstandard

from deadline_perception.extras.data.bag_compression import MOST_CHUNK_BYTES, decompressed

COMPRESS = {'zstd': zstandard.compress, 'lz4': lz4.frame.compress, '': bytes}


@pytest.mark.parametrize('compression', COMPRESS)
def test_a_chunk_is_taken_apart_as_far_as_was_stated(compression):
    data = COMPRESS[compression](b'messages' * 1000)
    assert decompressed(data, compression, 8000) == b'messages' * 1000
    if compression == 'zstd':  # several frames are one chunk
        assert decompressed(data + data, compression, 16_000) == b'messages' * 2000
    if compression:
        bomb = COMPRESS[compression](bytes(10_000_000))
        assert len(bomb) < 100_000 and len(decompressed(bomb, compression, 1000)) == 1001


@pytest.mark.parametrize(
    'compression, size, words',
    [
        ('zstd', MOST_CHUNK_BYTES + 1, 'expected at most'),
        ('bzip2', 5, "compression 'bzip2', expected"),
    ],
)
def test_what_is_beyond_reason_is_refused(compression, size, words):
    with pytest.raises(ValueError, match=words):
        decompressed(b'', compression, size)
