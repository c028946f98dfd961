"""Chunks that claim to be small and are not, and those that claim to be larger than any recorder makes them."""

import subprocess

import lz4.frame
import pytest
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.records import Chunk, DataEnd, Footer, Header
from mcap.writer import MCAP0_MAGIC

from deadline_perception.core.child_command import code_command
from deadline_perception.extras.data.bag_compression import MOST_CHUNK_BYTES, decompressed

COMPRESS = {'zstd': zstandard.compress, 'lz4': lz4.frame.compress, '': bytes}


@pytest.mark.parametrize('compression', ['zstd', 'lz4'])
def test_no_more_is_taken_apart_than_was_stated(compression):
    data = COMPRESS[compression](bytes(10_000_000))
    assert len(data) < 100_000 and len(decompressed(data, compression, 1000)) == 1001


@pytest.mark.parametrize('compression', COMPRESS)
def test_a_chunk_is_taken_apart(compression):
    data = COMPRESS[compression](b'messages' * 1000)
    assert decompressed(data, compression, 8000) == b'messages' * 1000
    if compression == 'zstd':  # several frames are one chunk
        assert decompressed(data + data, compression, 16_000) == b'messages' * 2000


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


@pytest.fixture(scope='module')
def bomb() -> bytes:
    """A zstd frame of two gigabytes of zeros, some tens of kilobytes."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    return b''.join(compressor.compress(bytes(2**24)) for _ in range(128)) + compressor.flush()


@pytest.mark.slow
@pytest.mark.parametrize('stated, is_whole', [(2**31, True), (1000, False)])
def test_a_bag_that_becomes_gigabytes_takes_little_memory(tmp_path, bomb, stated, is_whole):
    records = RecordBuilder()
    Header(profile='', library='').write(records)
    Chunk(
        compression='zstd',
        data=bomb,
        message_start_time=0,
        message_end_time=1,
        uncompressed_crc=0,
        uncompressed_size=stated,
    ).write(records)
    if is_whole:
        DataEnd(0).write(records)
        Footer(0, 0, 0).write(records)
    (tmp_path / 'bag.mcap').write_bytes(
        MCAP0_MAGIC + records.end() + (MCAP0_MAGIC if is_whole else b'')
    )
    assert (tmp_path / 'bag.mcap').stat().st_size < 400_000
    done = subprocess.run(
        code_command(f"""
from pathlib import Path
from deadline_perception.extras.data.bag_file import BagError, BagFile
try:
    print(BagFile(Path({str(tmp_path / 'bag.mcap')!r})).topics)
except BagError as error:
    print(error)
# Of this program alone: ru_maxrss counts what the process that started it had.
print(next(int(line.split()[1]) // 1024 for line in open('/proc/self/status') if line.startswith('VmHWM')))
"""),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert 'cannot be read as a ROS 2 bag' in done.stdout, done.stderr
    assert int(done.stdout.splitlines()[-1]) < 900
