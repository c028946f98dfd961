"""Files that were not finished: what of them is read, byte for byte, by the readers of mcap and SQLite themselves."""

import sqlite3
from contextlib import closing

import pytest

from deadline_perception.extras.data.incomplete_bag import salvage_sqlite


def salvaged(tmp_path, commands):
    """What is salvaged of a bag of three rows after commands on its list of tables, which may name a place to write."""
    (tmp_path / 'out').mkdir(parents=True)
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
    """A file whose list of tables was written by hand: SQL that opens or makes another file, or never ends; also under
    the name of a table of rosbag2."""
    insert = "INSERT INTO sqlite_master VALUES ('table', ?, ?, 0, ?)"
    evil = statement, "CREATE TABLE p.t AS SELECT 'touch here' AS x"
    commands = [(insert, f'evil{number}', f'evil{number}', sql) for number, sql in enumerate(evil)]
    assert salvaged(tmp_path, commands) == (['messages'], [0, 1, 2])
    update = 'UPDATE sqlite_master SET sql = ?', statement
    assert salvaged(tmp_path / 'other', [update]) == ([], [])
