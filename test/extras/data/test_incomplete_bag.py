"""Files that were not finished: what of them is read, byte for byte, by the readers of mcap and SQLite themselves."""

import io
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from mcap.writer import MCAP0_MAGIC, CompressionType, Writer

from deadline_perception.extras.data.incomplete_bag import IncompleteMcap, salvage_sqlite

COUNT, CHUNK_BYTES = 60, 1000


@pytest.fixture(scope='module')
def mcap(tmp_path_factory):
    """A whole file of two topics in several chunks, and where each chunk ends."""
    file = tmp_path_factory.mktemp('mcap') / 'whole.mcap'
    with file.open('wb') as stream:
        writer = Writer(stream, chunk_size=CHUNK_BYTES, compression=CompressionType.ZSTD)
        writer.start('ros2')
        schema = writer.register_schema('Word', 'ros2msg', b'string data')
        channels = [writer.register_channel(topic, 'cdr', schema) for topic in ('/even', '/odd')]
        for number in range(COUNT):
            data = f'{number:03} {"word " * 30}'.encode()
            writer.add_message(channels[number % 2], number, data, number)
        writer.finish()
    with file.open('rb') as stream:
        summary = make_reader(stream).get_summary()
    return file, [chunk.chunk_start_offset + chunk.chunk_length for chunk in summary.chunk_indexes]


def cut(mcap, tmp_path, size):
    file = tmp_path / 'cut.mcap'
    file.write_bytes(mcap[0].read_bytes()[:size])
    return file


def numbers(incomplete):
    with incomplete.open() as stream:
        messages = make_reader(stream, validate_crcs=True).iter_messages()
        return [int(message.data[:3]) for _, _, message in messages]


def test_a_chunk_whose_content_was_changed_ends_what_is_read(mcap, tmp_path):
    file, ends = mcap
    content = bytearray(file.read_bytes())
    content[ends[2] - 10] ^= 0xFF  # within the third chunk's compressed messages
    (tmp_path / 'bad.mcap').write_bytes(content)
    incomplete = IncompleteMcap(tmp_path / 'bad.mcap')
    whole = IncompleteMcap(cut(mcap, tmp_path, ends[1]))
    assert incomplete.messages == whole.messages > 0
    assert numbers(incomplete) == numbers(whole)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_file_and_new_index_are_one_stream_wherever_it_is_read(mcap, tmp_path_factory, data):
    incomplete = IncompleteMcap(cut(mcap, tmp_path_factory.mktemp('stream'), mcap[1][2] + 7))
    with incomplete.open() as stream:
        whole = stream.read()
        at = data.draw(st.integers(0, len(whole)))
        length = data.draw(st.integers(0, len(whole)))
        assert stream.seek(at) == at
        assert stream.read(length) == whole[at : at + length]
        assert stream.seek(-5, io.SEEK_END) == len(whole) - 5
        assert stream.read() == whole[-5:] == MCAP0_MAGIC[-5:]


# --- sqlite3 ---


def salvaged(tmp_path, commands):
    """What is salvaged of a bag of three rows after commands on its list of tables, which may name a place to write."""
    (tmp_path / 'out').mkdir()
    written = tmp_path / 'written'
    bag = tmp_path / 'bag.db3'
    with closing(sqlite3.connect(bag)) as connection:
        connection.execute('CREATE TABLE messages (id INTEGER PRIMARY KEY, data BLOB)')
        rows = [(row, b'x' * 500) for row in range(3)]
        connection.executemany('INSERT INTO messages VALUES (?, ?)', rows)
        connection.execute('PRAGMA writable_schema = ON')
        for command, *values in commands:
            connection.execute(command, [value.format(place=written) for value in values])
        connection.commit()
    with closing(sqlite3.connect(salvage_sqlite(bag, tmp_path / 'out'))) as connection:
        tables = [name for (name,) in connection.execute('SELECT name FROM sqlite_master')]
        query = 'SELECT id FROM messages ORDER BY id'
        found = [row for (row,) in connection.execute(query)] if tables else []
    assert not written.exists()
    return tables, found


@pytest.mark.parametrize(
    'statement',
    [
        "ATTACH DATABASE '{place}' AS p",
        'CREATE TABLE messages (id INTEGER DEFAULT (load_extension(1)))',
        'CREATE VIEW messages AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c',
    ],
)
def test_statements_of_the_file_are_not_executed(tmp_path, statement):
    """A file whose list of tables was written by hand: SQL that opens or makes another file, or never ends."""
    insert = "INSERT INTO sqlite_master VALUES ('table', ?, ?, 0, ?)"
    evil = statement, "CREATE TABLE p.t AS SELECT 'touch here' AS x"
    commands = [(insert, f'evil{number}', f'evil{number}', sql) for number, sql in enumerate(evil)]
    assert salvaged(tmp_path, commands) == (['messages'], [0, 1, 2])


def test_a_statement_under_the_name_of_a_table_of_rosbag2_is_not_executed_either(tmp_path):
    update = 'UPDATE sqlite_master SET sql = ?'
    assert salvaged(tmp_path, [(update, "ATTACH DATABASE '{place}' AS p")]) == ([], [])
