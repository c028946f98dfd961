"""Bags whole, cut off and damaged, as files of real recorders."""

import os
import sqlite3
import tempfile
from contextlib import closing
from types import SimpleNamespace

import pytest
import yaml
from backports.zstd import ZstdFile
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mcap.writer import Writer as McapWriter
from recorded_run import damaged
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
from deadline_perception.extras.data.bag import read_bag, write_bag
from deadline_perception.extras.data.bag_file import BagError, BagFile
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.extras.rendered_drive.drive import render_drive

ENDLESS = QosTime(2147483647, 4294967295)
LATCHED = Qos(
    QosHistory.KEEP_LAST,
    1,
    QosReliability.RELIABLE,
    QosDurability.TRANSIENT_LOCAL,
    ENDLESS,
    ENDLESS,
    QosLiveliness.AUTOMATIC,
    ENDLESS,
    False,
)
STRING = 'std_msgs/msg/String'


def word(text):
    types = message_types()
    return types.serialize_cdr(types.types[STRING](text), STRING)


def write(folder, times_ns, plugin=StoragePlugin.MCAP, qos=(), padding='', compression=None):
    writer = Writer(folder, version=8, storage_plugin=plugin)
    if compression:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        connections = [
            writer.add_connection(
                topic, STRING, typestore=message_types(), offered_qos_profiles=qos
            )
            for topic in ('/odd', '/even')
        ]
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


def test_a_compressed_file_that_was_cut_is_read_as_far_as_it_is_whole(tmp_path):
    whole = {'padding': 'x' * 1000, 'compression': CompressionMode.FILE}
    (part,) = write(tmp_path / 'packed', range(1, 2000), **whole).glob('*.zstd')
    part.write_bytes(part.read_bytes()[:-2000])
    assert 'was cut off' in times(part)[1]
    part.write_bytes(b'no zstd at all')
    with pytest.raises(BagError, match='cannot be read as a ROS 2 bag'):
        BagFile(part)


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


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match='none.mcap does not exist.*or .db3'):
        BagFile(tmp_path / 'none.mcap')


@pytest.mark.parametrize(
    'pipe, bag, words',
    [
        ('bag.mcap', 'bag.mcap', 'cannot be read as a ROS 2 bag: .*pipe'),
        ('bag.db3', 'bag.db3', 'cannot be read as a ROS 2 bag: .*pipe'),
        ('bag.mcap.zstd', 'bag.mcap.zstd', 'cannot be read as a ROS 2 bag: .*pipe'),
        ('bag.db3.zstd', '.', 'cannot be read as a ROS 2 bag: .*pipe'),
        ('other', '.', 'is no bag, expected a bag folder or an .mcap or .db3 file'),
    ],
)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, pipe, bag, words):
    os.mkfifo(tmp_path / pipe)
    with pytest.raises(BagError, match=words):
        BagFile(tmp_path / bag)


# --- cut off ---


@pytest.fixture(scope='module')
def many(tmp_path_factory):
    """mcap files of 2,000 messages in six chunks, one in the order of time and one not quite."""
    folder = tmp_path_factory.mktemp('many')
    order = [time_ns + 3 * (-1) ** time_ns for time_ns in range(10, 2010)]
    write(folder / 'plain', order, padding='x' * 3000)
    write(folder / 'packed', order, padding='x' * 3000, compression=CompressionMode.STORAGE)
    return SimpleNamespace(
        order=order,
        plain=(folder / 'plain/plain.mcap').read_bytes(),
        packed=(folder / 'packed/packed.mcap').read_bytes(),
    )


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(share=st.floats(0.0, 1.0), kind=st.sampled_from(['plain', 'packed']))
def test_a_cut_mcap_is_read_up_to_its_last_whole_chunk(tmp_path, many, share, kind):
    whole = getattr(many, kind)
    size = int(share * len(whole))
    (tmp_path / 'cut.mcap').write_bytes(whole[:size])
    try:
        read, ending = times(tmp_path / 'cut.mcap')
    except BagError as error:
        assert size < len(whole) / 5 and 'holds no whole message' in str(error)
        return
    assert read == sorted(many.order[: len(read)])
    assert len(read) >= (size / len(whole) - 0.2) * len(many.order)
    assert bool(ending) == (size < len(whole))
    if ending:
        assert (
            f'cut.mcap was cut off or damaged; the {len(read)} messages of its first 0.0 s are read'
            in ending
        )
        assert (tmp_path / 'cut.mcap').read_bytes() == whole[:size]


@pytest.mark.parametrize('cut_bytes', [1, 8, 20, 37, 60])
def test_an_mcap_without_the_very_end_of_its_index_lacks_nothing(tmp_path, many, cut_bytes):
    (tmp_path / 'cut.mcap').write_bytes(many.plain[:-cut_bytes])
    read, ending = times(tmp_path / 'cut.mcap')
    assert read == sorted(many.order) and ending


def test_an_mcap_without_chunks_is_read_up_to_its_last_whole_message(tmp_path):
    with (tmp_path / 'whole.mcap').open('wb') as stream:
        writer = McapWriter(stream, use_chunking=False)
        writer.start('ros2')
        schema = writer.register_schema(STRING, 'ros2msg', b'string data')
        channel = writer.register_channel('/odd', 'cdr', schema, {'offered_qos_profiles': ''})
        for time_ns in range(100):
            writer.add_message(channel, time_ns, word(f'{time_ns:03}'), time_ns)
        writer.finish()
    whole = (tmp_path / 'whole.mcap').read_bytes()
    (tmp_path / 'cut.mcap').write_bytes(whole[: whole.index(b'050')])
    assert times(tmp_path / 'cut.mcap')[0] == list(range(50))


def test_a_whole_bag_beside_a_folder_lacks_nothing(tmp_path):
    folder = write(tmp_path / 'bag', range(1, 4))
    (folder / 'plots').mkdir()
    assert times(folder) == ([1, 2, 3], '')


def change_description(folder, **facts):
    """Writes other facts into the description of a bag."""
    content = yaml.safe_load((folder / 'metadata.yaml').read_text())
    content['rosbag2_bagfile_information'].update(facts)
    (folder / 'metadata.yaml').write_text(yaml.safe_dump(content))


def test_a_bag_of_which_a_file_is_missing_says_what_is_lost(tmp_path):
    folder = write(tmp_path / 'bag', range(1, 5))
    change_description(folder, relative_file_paths=['bag.mcap', 'bag_1.mcap'], message_count=9)
    assert times(folder) == (
        [1, 2, 3, 4],
        'bag has 4 of the 9 messages that its metadata.yaml counts; the others are lost.',
    )


def test_a_folder_without_metadata_is_read_file_by_file(tmp_path, many):
    """As `ros2 bag record` leaves it when it is killed after some splits."""
    (tmp_path / 'bag').mkdir()
    later = write(tmp_path / 'later', range(3000, 3010)) / 'later.mcap'
    (tmp_path / 'bag/bag_0.mcap').write_bytes(later.read_bytes())
    (tmp_path / 'bag/bag_1.mcap').write_bytes(many.plain[: len(many.plain) // 2])
    read, ending = times(tmp_path / 'bag')
    assert read[:1] == [8] and read[-10:] == list(range(3000, 3010))
    assert ending.startswith('bag was cut off') and ending.endswith('what follows is lost.')


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


# --- damaged ---


def test_a_damaged_bag_gives_what_comes_before_the_damage(tmp_path):
    whole = (write(tmp_path / 'bag', range(1, 40_000)) / 'bag.mcap').read_bytes()
    (tmp_path / 'damaged.mcap').write_bytes(whole[:1_200_000] + bytes(400_000) + whole[1_600_000:])
    bag, read = BagFile(tmp_path / 'damaged.mcap'), []
    with pytest.raises(BagError, match='is damaged: it lists 39999 messages on /even.*be read'):
        read.extend(bag.messages({'/odd', '/even'}))
    assert 10_000 < len(read) < 39_999


@pytest.fixture(scope='module')
def drives(tmp_path_factory):
    folder = tmp_path_factory.mktemp('drives')
    drive = render_drive(seconds=0.6, rate_hz=5.0, seed=2, width=64, height=48)
    for name in ('a.mcap', 'b.mcap'):
        write_bag(drive, folder / name, compressed=name == 'b.mcap')
    write(folder / 'c', range(20), StoragePlugin.SQLITE3)
    return [folder / 'a.mcap', folder / 'b.mcap', folder / 'c/c.db3']


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1), number=st.integers(0, 2))
@example(seed=100_000_000, number=1)  # the definition of BoundingBox2D loses a field
def test_flipped_and_missing_bytes_give_a_named_error_or_a_bag(tmp_path, drives, seed, number):
    file = tmp_path / f'fuzzed{drives[number].suffix}'
    file.write_bytes(damaged(drives[number].read_bytes(), seed))
    try:
        bag = BagFile(file)
        for _, msgtype, _, raw in bag.messages([topic.name for topic in bag.topics]):
            bag.parse(raw, msgtype)
        bag.close()
        for frame in read_bag(file).frames:
            frame.load_bgr()
    except BagError as error:
        assert '\n' not in str(error)


def test_a_view_in_the_place_of_the_messages_is_not_computed(tmp_path):
    """It would give rows without end; whoever writes to the list of tables may call it a table."""
    file = next(write(tmp_path / 'bag', range(1, 4), StoragePlugin.SQLITE3).glob('*.db3'))
    with closing(sqlite3.connect(file)) as database:
        database.execute('DROP TABLE messages')
        database.execute(
            'CREATE VIEW messages AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) '
            'SELECT x AS id, 1 AS topic_id, x AS timestamp, x AS data FROM c'
        )
        database.execute('PRAGMA writable_schema = ON')
        database.execute("UPDATE sqlite_master SET type = 'table' WHERE name = 'messages'")
        database.commit()
    for bag in (file, file.parent):
        with pytest.raises(BagError, match='cannot be read as a ROS 2 bag'):
            BagFile(bag)


@pytest.mark.parametrize(
    'describe',
    [
        lambda file: file.write_text(
            'a: &a [x, x, x]\nb: &b [*a, *a, *a]\nrosbag2_bagfile_information: *b'
        ),
        lambda file: file.write_text('[' * 100_000),
        lambda file: (file.unlink(), os.mkfifo(file)),
        lambda file: change_description(file.parent, files='a'),
    ],
    ids=['aliases', 'nested deeply', 'pipe', 'files that are no list'],
)
def test_a_description_that_is_no_description_is_not_taken(tmp_path, describe):
    """The messages are read all the same, without it."""
    folder = write(tmp_path / 'bag', range(1, 4))
    describe(folder / 'metadata.yaml')
    assert times(folder)[0] == [1, 2, 3]
