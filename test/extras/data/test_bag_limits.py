"""Small bags that would become gigabytes, millions of records, or endless work of SQLite or of a parser."""

import sqlite3
import struct
from contextlib import closing, nullcontext

import pytest
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.records import Channel, Chunk, ChunkIndex, DataEnd, Footer, Schema, Statistics
from mcap.writer import MCAP0_MAGIC, IndexType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from deadline_perception.extras.data import bag_limits
from deadline_perception.extras.data.bag_file import BagError, BagFile
from deadline_perception.extras.data.message_definitions import message_types

STRING = 'std_msgs/msg/String'
HEAD = MCAP0_MAGIC + b'\x01' + struct.pack('<QI', 12, 4) + b'ros2' + bytes(4)
WORD = b'\0\x01\0\0\x02\0\0\0a\0'


def bag(folder, words='012', compression=None):
    """A sqlite3 bag of words."""
    types = message_types()
    writer = Writer(folder / 'bag', version=8, storage_plugin=StoragePlugin.SQLITE3)
    if compression:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        topic = writer.add_connection('/word', STRING, typestore=types)
        for number, word in enumerate(words):
            data = types.serialize_cdr(types.types[STRING](word), STRING)
            writer.write(topic, number, data)
    return folder / 'bag'


def message(data=WORD):
    body = struct.pack('<HIQQ', 1, 0, 0, 0) + data
    return b'\x05' + struct.pack('<Q', len(body)) + body


def records(*given):
    builder = RecordBuilder()
    for one in given:
        one.write(builder)
    return builder.end()


def mcap(
    content,
    messages,
    *,
    written=1,
    listed=1,
    qos=None,
    apart=0,
    index=True,
    definition=b'string data',
):
    """A file of a chunk that is written and listed in its index so often, there each `apart` ns later."""
    metadata = {} if qos is None else {'offered_qos_profiles': qos}
    schema = Schema(id=1, name=STRING, encoding='ros2msg', data=definition)
    channel = Channel(1, '/word', 'cdr', metadata, 1)
    data = zstandard.compress(content, 3)
    chunk = records(Chunk('zstd', data, 1, 0, 0, len(content)))
    body = HEAD + records(schema, channel)
    begin = len(body)
    body += chunk * written + records(DataEnd(0))
    if not index:
        return body + records(Footer(0, 0, 0)) + MCAP0_MAGIC
    rows = []
    for number in range(listed):
        at, time_ns = begin + len(chunk) * (number % written), apart * number
        place = time_ns + 1, 15 + 16 * messages, {1: at + len(chunk)}, time_ns
        rows.append(ChunkIndex(len(chunk), at, 'zstd', len(data), *place, len(content)))
    count = messages * listed
    known = Statistics(0, 1, {1: count}, listed, count, 1, 0, 0, 1)
    start = len(body)
    return body + records(schema, channel, *rows, known, Footer(start, 0, 0)) + MCAP0_MAGIC


AS_STRING = (STRING, 'ros2msg', b'string data')


def write_words(file, *topics, **form):
    """A message of each topic in turn, a ns later each; a topic is its name, type, and form and text of the type."""
    with file.open('wb') as stream:
        writer = McapWriter(stream, **form)
        channels = {}
        writer.start('ros2')
        for number, (topic, *schema) in enumerate(topics):
            if topic not in channels:
                schema_id = writer.register_schema(*schema)
                channels[topic] = writer.register_channel(topic, 'cdr', schema_id)
            writer.add_message(channels[topic], number, WORD, number)
        writer.finish()


def read(file):
    with closing(BagFile(file)) as bag:
        messages = bag.messages({topic.name for topic in bag.topics})
        return [bag.parse(raw, kind).data for _, kind, _, raw in messages]


@pytest.mark.parametrize('apart', [0, 10])
def test_an_index_that_lists_one_chunk_often_is_not_believed(tmp_path, apart):
    """Each would be decompressed for itself; the chunk is read once, as by who never saw the index."""
    (tmp_path / 'a.mcap').write_bytes(mcap(message() * 5, 5, listed=300, apart=apart))
    assert read(tmp_path / 'a.mcap') == ['a'] * 5


@pytest.mark.parametrize('index', [True, False])
@pytest.mark.parametrize('record', [message(), b'\x0f' + bytes(8)])
def test_more_records_than_bytes_are_refused(tmp_path, index, record):
    content = record * (150_000_000 // len(record) // 10)
    (tmp_path / 'a.mcap').write_bytes(mcap(content, 1, index=index))
    with pytest.raises(BagError, match='cannot be read|is damaged'):
        read(tmp_path / 'a.mcap')


@pytest.mark.parametrize('index', [True, False])
def test_chunks_that_become_gigabytes_together_are_refused(tmp_path, index, monkeypatch):
    monkeypatch.setattr(bag_limits, 'most_bytes', lambda file_bytes: 1000 * file_bytes)
    filler = b'\x0f' + struct.pack('<Q', 9_999_991) + bytes(9_999_991)
    content = mcap(filler, 0, written=20, listed=20, apart=1, index=index)
    (tmp_path / 'a.mcap').write_bytes(content)
    with pytest.raises(BagError, match='cannot be read as a ROS 2 bag and holds no whole message: '
                                       'its [0-9]+ bytes state 200000000 bytes'):  # fmt: skip
        BagFile(tmp_path / 'a.mcap')


@pytest.mark.parametrize(
    'spans, words',
    [
        ([(10 * number, 10 * number + 10) for number in range(5)], None),
        ([(0, 10)] * 3, '300 bytes of chunks at the same time.*most 250'),
        ([(10, -5)] * 3, 'at the same time'),
    ],
)
def test_large_chunks_at_the_same_time_are_refused(monkeypatch, spans, words):
    monkeypatch.setattr(bag_limits, '_MOST_OVERLAPPING_BYTES', 250)
    chunks = [
        bag_limits.storage_mcap.ChunkInfo(*span, 100 * number, 90, {}, 0, '', 1, 100, {})
        for number, span in enumerate(spans)
    ]
    with pytest.raises(ValueError, match=words) if words else nullcontext():
        bag_limits._check_chunks(chunks, 500)


def test_messages_that_become_gigabytes_together_are_refused(tmp_path, monkeypatch):
    folder = bag(tmp_path, ['a' * 2_000_000] * 100, CompressionMode.MESSAGE)
    monkeypatch.setattr(bag_limits, 'most_bytes', lambda file_bytes: 1000 * file_bytes)
    with pytest.raises(BagError, match='is damaged: its messages have more than [0-9]+ bytes'):
        read(folder)


@pytest.mark.slow
def test_a_compressed_file_that_becomes_gigabytes_is_refused(tmp_path):
    compressor = zstandard.ZstdCompressor().compressobj()
    parts = [MCAP0_MAGIC, *[bytes(2**24)] * 72]
    (tmp_path / 'a.mcap.zstd').write_bytes(
        b''.join(map(compressor.compress, parts)) + compressor.flush()
    )
    with pytest.raises(BagError, match='has [0-9]+ bytes and becomes more than'):
        BagFile(tmp_path / 'a.mcap.zstd')


MERGE = '- &a0 {x: 1}\n' + ''.join(
    f'- &a{n} {{<<: [{", ".join([f"*a{n - 1}"] * 4)}], y{n}: 1}}\n' for n in range(1, 25)
)


@pytest.mark.parametrize(
    'text, latched',
    [
        ('', False),
        ('not: [yaml', False),
        (MERGE, False),
        ('- {history: 1, depth: 1}\n' * 200_000, False),
        ('- history: 3\n  depth: 1\n  durability: 2\n', False),
        ('- {"durability": "transient_local"}', True),
        ('- history: keep_last\n  durability: volatile\n- durability: transient_local', True),
    ],
)
def test_of_qualities_of_service_only_durability_is_looked_for(tmp_path, text, latched):
    (tmp_path / 'a.mcap').write_bytes(mcap(message() * 2, 2, qos=text))
    with closing(BagFile(tmp_path / 'a.mcap')) as bag:
        assert [topic.latched for topic in bag.topics] == [latched]
    assert read(tmp_path / 'a.mcap') == ['a', 'a']


@pytest.mark.parametrize('definition', [b'string data\n' * 10_000, b'string a\n' + b'#' * 100_000])
def test_a_long_message_definition_is_refused(tmp_path, definition):
    (tmp_path / 'a.mcap').write_bytes(mcap(message(), 1, definition=definition))
    with pytest.raises(BagError, match='a message definition of [0-9]+ characters'):
        read(tmp_path / 'a.mcap')


@pytest.mark.parametrize(
    'form, definition',
    [
        ('protobuf', b'\x0a\x03abc'),
        ('jsonschema', b'{}'),
        ('ros2idl', b'broken {'),
        ('ros2idl', b'=' * 80 + b'\nIDL: a_msgs/msg/B\nbroken {'),
        ('ros2msg', b'no definition'),
        ('ros2msg', b'int32 x\n' * 8000),
    ],
)
def test_a_definition_of_no_use_costs_its_own_topic_alone(tmp_path, monkeypatch, form, definition):
    monkeypatch.setattr(bag_limits, '_MOST_PARSED_BYTES', 1000)
    other = ('/other', 'a_msgs/msg/B', form, definition)
    write_words(tmp_path / 'a.mcap', other, ('/word', *AS_STRING))
    with closing(BagFile(tmp_path / 'a.mcap')) as found:
        assert [topic.name for topic in found.topics] == ['/other', '/word']
        ((_, kind, _, raw),) = found.messages(['/word'])
        assert found.parse(raw, kind).data == 'a'
        ((_, kind, _, raw),) = found.messages(['/other'])
        with pytest.raises(BagError, match='holds a damaged a_msgs/msg/B'):
            found.parse(raw, kind)


def test_too_many_topics_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bag_limits, 'MOST_TOPICS', 3)
    write_words(tmp_path / 'a.mcap', *((f'/{number}', *AS_STRING) for number in range(4)))
    with pytest.raises(BagError, match='4 topics, expected at most 3'):
        read(tmp_path / 'a.mcap')


def test_a_long_description_is_not_parsed_and_its_messages_are_read(tmp_path, monkeypatch):
    folder = bag(tmp_path)
    with (folder / 'metadata.yaml').open('a') as facts:
        facts.write('# \n' * 100_000)
    monkeypatch.setattr(bag_limits, 'parse_yaml', None)
    assert read(folder) == ['0', '1', '2']


def changed(folder, *statements, words='012', without=''):
    """The database of a bag after these statements, where the table of topics is defined without a word."""
    (file,) = bag(folder, words).glob('*.db3')
    with closing(sqlite3.connect(file)) as database:
        (text,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'topics'").fetchone()
        database.execute('ALTER TABLE topics RENAME TO before')
        database.execute(text.replace(without, ''))
        database.execute('INSERT INTO topics SELECT * FROM before')
        database.execute('DROP TABLE before')
        for statement in statements:
            database.execute(statement)
        database.commit()
    return file


COLUMNS = 'id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL'


@pytest.mark.parametrize(
    'name, statement',
    [
        ('messages', f'CREATE TABLE messages({COLUMNS}, x BLOB, '
                     'data BLOB GENERATED ALWAYS AS (zeroblob(999000000)))'),
        ('topics', 'CREATE TABLE topics(id INTEGER PRIMARY KEY, x TEXT, type TEXT, '
                   'serialization_format TEXT, offered_qos_profiles TEXT, type_description_hash '
                   'TEXT, name TEXT AS (hex(zeroblob(400000000))))'),
        ('timestamp_idx', 'CREATE INDEX timestamp_idx ON messages (timestamp) WHERE instr(data, 1)'),
    ],
)  # fmt: skip
def test_what_a_database_would_compute_is_refused(tmp_path, name, statement):
    update = f"UPDATE sqlite_master SET sql = '{statement}' WHERE name = '{name}'"
    file = changed(tmp_path, 'PRAGMA writable_schema = ON', update)
    try:
        assert read(file) == ['0', '1', '2']  # salvaged without it
    except BagError as error:
        assert f'holds {name}, which is no plain table of rows' in str(error)


def test_tables_written_in_other_ways_those_of_others_and_any_name_of_the_file_are_taken(tmp_path):
    file = changed(
        tmp_path,
        'CREATE TABLE notes (text VARCHAR(20) CHECK (length(text) > 1))',
        'CREATE INDEX "by topic" ON "messages" ("topic_id" ASC, [timestamp])',
        'ANALYZE',
    )
    assert read(file) == ['0', '1', '2']
    assert read(file.rename(tmp_path / 'a#b?c%41 d%20e.db3')) == ['0', '1', '2']


@pytest.mark.parametrize(
    'change',
    [
        'topics SET name = NULL',
        "topics SET name = x'ff'",
        'topics SET type = NULL',
        "messages SET timestamp = 'a'",
        'messages SET data = 5',
        "messages SET data = 'a'",
    ],
)
def test_values_of_another_type_are_refused_in_a_line(tmp_path, change):
    update = f'UPDATE {change} WHERE id = 1'
    file = changed(tmp_path, update, without=' NOT NULL')
    with pytest.raises(BagError) as caught, closing(BagFile(file)) as found:
        list(found.messages(['/word']))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize('journal', [False, True])
def test_rows_that_multiply_are_ended(tmp_path, journal, monkeypatch):
    """Topics of one number each: every message would come once for each of them."""
    monkeypatch.setattr(bag_limits, '_most_steps', lambda file_bytes: 1_000_000)
    again = ['INSERT INTO topics SELECT * FROM topics'] * 12
    file = changed(tmp_path, *again, words=['a'] * 300, without='PRIMARY KEY')
    if journal:
        file.with_name(f'{file.name}-journal').write_bytes(b'none')
    with pytest.raises(BagError, match='cannot be read as a ROS 2 bag|is damaged'):
        read(file)


def test_messages_that_are_not_compressed_though_the_description_says_so(tmp_path):
    folder = bag(tmp_path)
    facts = folder / 'metadata.yaml'
    text = facts.read_text().replace("compression_mode: ''", 'compression_mode: message')
    facts.write_text(text.replace("compression_format: ''", 'compression_format: zstd'))
    with pytest.raises(BagError, match='zstd'):
        read(folder)


@pytest.mark.parametrize('index_types', [IndexType.ALL, IndexType.CHUNK, IndexType.NONE])
@pytest.mark.parametrize('statistics', [True, False])
def test_an_index_of_chunks_without_one_of_messages_is_read(tmp_path, index_types, statistics):
    form = {'chunk_size': 100, 'index_types': index_types, 'use_statistics': statistics}
    topics = [(name, *AS_STRING) for name in ('/word', '/other')]
    write_words(tmp_path / 'a.mcap', *topics * 10, **form)
    with closing(BagFile(tmp_path / 'a.mcap')) as file:
        assert [time_ns for _, _, time_ns, _ in file.messages({'/word'})] == list(range(0, 20, 2))
        assert [time_ns for _, _, time_ns, _ in file.messages({'/word'}, 4, 7)] == [4, 6]
