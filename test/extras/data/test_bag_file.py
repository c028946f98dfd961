"""Bags whole, cut off and damaged, as files of real recorders."""

import os
import sqlite3
import tempfile
from contextlib import closing

import pytest
import yaml
from backports.zstd import ZstdFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rosbags.interfaces import (
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from deadline_perception.extras.data import bag_file
from deadline_perception.extras.data.bag_file import BagError, BagFile
from deadline_perception.extras.data.message_definitions import message_types

ENDLESS = QosTime(2147483647, 4294967295)
KEPT = QosHistory.KEEP_LAST, 1, QosReliability.RELIABLE, QosDurability.TRANSIENT_LOCAL
LATCHED = Qos(*KEPT, ENDLESS, ENDLESS, QosLiveliness.AUTOMATIC, ENDLESS, False)
STRING = 'std_msgs/msg/String'


def word(text):
    types = message_types()
    return types.serialize_cdr(types.types[STRING](text), STRING)


def write(folder, times_ns, plugin=StoragePlugin.MCAP, qos=(), padding='', compression=None):
    writer = Writer(folder, version=8, storage_plugin=plugin)
    if compression:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        form = {'typestore': message_types(), 'offered_qos_profiles': qos}
        connections = [writer.add_connection(topic, STRING, **form) for topic in ('/odd', '/even')]
        for time_ns in times_ns:
            writer.write(connections[1 - time_ns % 2], time_ns, word(f'{time_ns}{padding}'))
    return folder


def texts(bag, *span_ns):
    """Times and words of the messages."""
    messages = bag.messages(('/odd', '/even'), *span_ns)
    return [(time_ns, bag.parse(raw, kind).data) for _, kind, time_ns, raw in messages]


def times(file):
    """The times of all messages, and where the bag says that it ends."""
    with closing(BagFile(file)) as bag:
        return [time_ns for time_ns, _ in texts(bag)], bag.ending


@pytest.mark.parametrize(
    'plugin, compression',
    [
        (StoragePlugin.MCAP, None),
        (StoragePlugin.SQLITE3, None),
        (StoragePlugin.SQLITE3, CompressionMode.MESSAGE),
    ],
)
def test_messages_come_in_the_order_of_their_times(tmp_path, plugin, compression):
    folder = tmp_path / 'bag'
    expected = [(100, '100'), (201, '201'), (300, '300')]
    with closing(BagFile(write(folder, [300, 100, 201], plugin, compression=compression))) as bag:
        found = [(topic.name, topic.count, topic.is_image, topic.latched) for topic in bag.topics]
        assert found == [('/odd', 1, False, False), ('/even', 2, False, False)]
        assert texts(bag) == expected and texts(bag, 150, 300) == expected[1:2]
        assert list(bag.messages(set())) == [] and bag.ending == ''
    (folder / 'metadata.yaml').unlink()  # as of a killed recorder
    with closing(BagFile(folder)) as bag:
        assert texts(bag) == expected


@pytest.mark.parametrize('plugin', [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_a_bag_whose_files_are_compressed_is_read_as_folder_and_as_file(tmp_path, plugin):
    whole = {'qos': [LATCHED], 'compression': CompressionMode.FILE}
    folder = write(tmp_path / 'packed', range(1, 5), plugin, **whole)
    (part,) = folder.glob('*.zstd')
    for file in (folder, part):
        assert times(file) == ([1, 2, 3, 4], '')
        with closing(BagFile(file)) as bag:
            topics = {(topic.name, topic.count, topic.latched) for topic in bag.topics}
        assert topics == {('/odd', 2, True), ('/even', 2, True)}
    with ZstdFile(part) as stream:
        part.with_suffix('').write_bytes(stream.read())
    part.unlink()  # as `zstd -d --rm` leaves it, beside a description of compressed files
    assert times(folder) == ([1, 2, 3, 4], '')


def test_a_compressed_file_without_room_is_refused_with_the_command(tmp_path, monkeypatch):
    """A few kB can become as many GB as one likes; the disk is full for all."""
    folder = write(tmp_path / 'packed', range(1, 3), compression=CompressionMode.FILE)
    monkeypatch.setattr(bag_file, '_SPARE_BYTES', 1 << 60)
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path / 'temporary'))
    (tmp_path / 'temporary').mkdir()
    with pytest.raises(BagError, match='cannot be decompressed: .* has no room for it; .*`zstd -d'):
        BagFile(folder)
    assert not list((tmp_path / 'temporary').iterdir())


@pytest.mark.parametrize('name', ['bag.mcap', 'bag.db3', 'bag.txt', 'bag'])
@pytest.mark.parametrize('content', [b'', b'no bag', b'\x89MCAP0\r\n', b'SQLite format 3\0'])
def test_what_is_no_bag_is_refused_by_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BagError, match=f'{name} (cannot be read as a ROS 2 bag|is no bag)'):
        BagFile(tmp_path / name)


@pytest.mark.parametrize('pipe', ['bag.mcap', 'bag.db3', 'bag.mcap.zstd', 'other'])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, pipe):
    os.mkfifo(tmp_path / pipe)
    words = 'is no bag, expected' if pipe == 'other' else 'cannot be read as a ROS 2 bag: .*pipe'
    for bag in (tmp_path / pipe, tmp_path):
        with pytest.raises(BagError, match=words):
            BagFile(bag)


ORDER = [time_ns + 3 * (-1) ** time_ns for time_ns in range(10, 2010)]


@pytest.fixture(scope='module')
def many(tmp_path_factory):
    """mcap files of 2,000 messages in six chunks, one in the order of time and one not quite."""
    folder = tmp_path_factory.mktemp('many')
    for name, compression in (('plain', None), ('packed', CompressionMode.STORAGE)):
        write(folder / name, ORDER, padding='x' * 3000, compression=compression)
    return {file.stem: file.read_bytes() for file in folder.glob('*/*.mcap')}


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(share=st.floats(0.0, 1.0), kind=st.sampled_from(['plain', 'packed']))
def test_a_cut_mcap_is_read_up_to_its_last_whole_chunk(tmp_path, many, share, kind):
    whole = many[kind]
    size = int(share * len(whole))
    (tmp_path / 'cut.mcap').write_bytes(whole[:size])
    try:
        read, ending = times(tmp_path / 'cut.mcap')
    except BagError as error:
        assert size < len(whole) / 5 and 'holds no whole message' in str(error)
        return
    assert read == sorted(ORDER[: len(read)])
    assert len(read) >= (size / len(whole) - 0.2) * len(ORDER)
    assert bool(ending) == (size < len(whole))
    if ending:
        words = f'was cut off or damaged; the {len(read)} messages of its first 0.0 s are read'
        assert f'cut.mcap {words}' in ending
        assert (tmp_path / 'cut.mcap').read_bytes() == whole[:size]


def test_a_bag_of_which_a_file_is_missing_says_what_is_lost(tmp_path):
    folder = write(tmp_path / 'bag', range(1, 5))
    (folder / 'plots').mkdir()
    assert times(folder) == ([1, 2, 3, 4], '')
    content = yaml.safe_load((folder / 'metadata.yaml').read_text())
    facts = {'relative_file_paths': ['bag.mcap', 'bag_1.mcap'], 'message_count': 9}
    content['rosbag2_bagfile_information'].update(facts)
    (folder / 'metadata.yaml').write_text(yaml.safe_dump(content))
    words = 'bag has 4 of the 9 messages that its metadata.yaml counts; the others are lost.'
    assert times(folder) == ([1, 2, 3, 4], words)


def test_a_database_that_was_cut_gives_the_rows_before_or_one_error(tmp_path):
    rows = range(1, 2001)
    cut = tmp_path / 'cut.db3'
    folder = write(tmp_path / 'bag', rows, StoragePlugin.SQLITE3, padding='x' * 1000)
    whole = (folder / 'bag.db3').read_bytes()
    for share in (0.8, 0.99):
        part = whole[: int(share * len(whole))]
        cut.write_bytes(part)
        read, ending = times(cut)
        assert read == [*rows[: len(read)]] and len(read) > 2000 * (share - 0.1)
        assert 'cut.db3 was cut off' in ending and cut.read_bytes() == part
    cut.write_bytes(whole[: len(whole) // 3])  # without the page that says where the rows are
    with pytest.raises(BagError, match='cut.db3 cannot be read as a ROS 2 bag and holds no whole'):
        BagFile(cut)


def test_rows_that_lie_in_the_journal_of_a_killed_recorder_are_read(tmp_path):
    """As the storage profile "resilient" of `ros2 bag record` leaves them."""
    file = write(tmp_path / 'bag', range(1, 11), StoragePlugin.SQLITE3) / 'bag.db3'
    database = sqlite3.connect(file)
    database.execute('PRAGMA journal_mode = WAL')
    database.execute('INSERT INTO messages VALUES (11, 1, 11, ?)', (bytes(word('11')),))
    database.commit()
    left = tmp_path / 'left'
    left.mkdir()
    for part in (tmp_path / 'bag').glob('bag.db3*'):
        (left / part.name).write_bytes(part.read_bytes())
    database.close()
    assert (left / 'bag.db3-wal').stat().st_size > 0
    assert times(left / 'bag.db3')[0] == list(range(1, 12))
    assert (left / 'bag.db3-wal').stat().st_size > 0
