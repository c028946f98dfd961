"""Changes of content that keep its form whole, so that readers get beyond the first check of it."""

import json
import random
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from functools import partial

import lz4.frame
import zstandard

_WHOLE = (0, -1, 1, 2**31, 2**63, 10**29, -(10**29))
_DECIMAL = (0.5, 1e308, -1e308, 1e-320, float('nan'), float('inf'))
_TEXTS = ('', 'a', 'x' * 5000, 'a\nb', '\0', '\u202e', '\ud800')
_PLACES = ('../../etc/passwd', '/dev/zero')
_SHAPES = ('{}', [], {}, [[]], [None], {'': None})
_ODD = (None, True, False, *_WHOLE, *_DECIMAL, *_TEXTS, *_PLACES, *_SHAPES)
_CODECS = {
    b'lz4': (lz4.frame.compress, lz4.frame.decompress),
    b'zstd': (
        zstandard.ZstdCompressor().compress,
        partial(zstandard.ZstdDecompressor().decompress, max_output_size=2**16),
    ),
}
_NOT_OF_THE_FORM = struct.error, sqlite3.Error, zstandard.ZstdError
_CHUNK, _HEAD = 0x06, 9
_MAGIC = b'\x89MCAP0\r\n'
Bytes = Callable[[bytes], bytes]


def mutated(form: str, content: bytes, rng: random.Random, change: Bytes) -> bytes:
    """Another content of that form (see `Reader`), or with bytes changed as the fuzzer does where it is not of it."""
    make = _FORMS.get(form)
    if make is None or rng.random() < 0.25:
        return change(content)
    try:
        return make(content, rng, change)
    except (ValueError, LookupError, RuntimeError, OverflowError, *_NOT_OF_THE_FORM):
        return change(content)


def _json(content: bytes, rng: random.Random, change: Bytes) -> bytes:
    text = json.dumps(_values(json.loads(content), rng, change))
    return text.encode('utf-8', 'surrogatepass')


def _values(content: object, rng: random.Random, change: Bytes) -> object:
    """Values with some of them replaced, removed, doubled or swapped; JSON within texts is changed too."""
    holder = {'': content}
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        parent, key = _place(holder, rng)
        act = rng.random()
        if act < 0.4:
            parent[key] = rng.choice(_ODD)
        elif act < 0.55 and parent is not holder:
            del parent[key]
        elif act < 0.7:
            other, name = _place(holder, rng)
            parent[key] = json.loads(json.dumps(other[name]))
        elif isinstance(parent[key], list) and parent[key] and act < 0.8:
            parent[key] = parent[key] * rng.choice((2, 3, 50))
        elif isinstance(parent[key], str):
            parent[key] = _text(parent[key], rng, change)
        elif isinstance(parent[key], (int, float)):
            parent[key] = parent[key] * rng.choice((-1, 2, 0.5, 1000)) + rng.choice((0, 1, -1))
        elif isinstance(parent[key], dict):
            parent[key][rng.choice(('a', '', 'x' * 300, '0'))] = rng.choice(_ODD)
        if '' not in holder:
            return None
    return holder['']


def _text(text: str, rng: random.Random, change: Bytes) -> str:
    if text[:1] in ('{', '['):
        return json.dumps(_values(json.loads(text), rng, change))
    return change(text.encode('utf-8', 'surrogatepass')).decode('utf-8', 'replace')


def _place(holder: dict, rng: random.Random) -> tuple:
    """Where one of the values lies, at any depth."""
    parent, key = holder, ''
    while (value := parent[key]) and isinstance(value, (dict, list)) and rng.random() < 0.85:
        parent = value
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    return parent, key


def _tensors(content: bytes, rng: random.Random, change: Bytes) -> bytes:
    size = int.from_bytes(content[:8], 'little')
    head = _json(content[8 : 8 + size], rng, change)
    return struct.pack('<Q', len(head)) + head + content[8 + size :]


def _mcap(content: bytes, rng: random.Random, change: Bytes) -> bytes:
    """Records changed, those within chunks too; lengths are right again."""
    return _MAGIC + _rearranged(content[len(_MAGIC) :], rng, change) + _MAGIC


def _rearranged(content: bytes, rng: random.Random, change: Bytes) -> bytes:
    """Records, of which one is removed, repeated, moved or changed."""
    records = _records(content)
    place, act = rng.randrange(len(records)), rng.random()
    code, data = records[place]
    if act < 0.1:
        del records[place]
    elif act < 0.25:
        records[place:place] = [records[place]] * rng.choice((1, 2, 50))
    elif act < 0.35:
        other = rng.randrange(len(records))
        records[place], records[other] = records[other], records[place]
    elif act < 0.8 and code == _CHUNK:
        records[place] = code, _chunk(data, rng, change)
    else:
        records[place] = code, change(data)
    return b''.join(struct.pack('<BQ', code, len(data)) + data for code, data in records)


def _records(content: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while len(content) - at > len(_MAGIC):
        code, length = struct.unpack_from('<BQ', content, at)
        found.append((code, content[at + _HEAD : at + _HEAD + length]))
        at += _HEAD + length
    if not found:
        raise ValueError('no record')
    return found


def _chunk(data: bytes, rng: random.Random, change: Bytes) -> bytes:
    size, _, length = struct.unpack_from('<QII', data, 16)
    name = data[32 : 32 + length]
    compress, decompress = _CODECS.get(name, (bytes, bytes))
    inner = _rearranged(decompress(data[40 + length :]) + bytes(len(_MAGIC)), rng, change)
    stated = len(inner) if rng.random() < 0.8 else rng.choice((0, size, 2**31, 2**62))
    inner = compress(inner)
    head = data[:16] + struct.pack('<QII', stated, 0, length) + name
    return head + struct.pack('<Q', len(inner)) + inner


def _sqlite(content: bytes, rng: random.Random, change: Bytes) -> bytes:
    """A value of a row, or the text of a table's definition, is another."""
    with closing(sqlite3.connect(':memory:')) as database:
        database.deserialize(content)
        tables = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        table, sql = rng.choice(tables.fetchall())
        column = rng.choice(database.execute(f'PRAGMA table_info("{table}")').fetchall())[1]
        rows = database.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall()
        if rows and rng.random() < 0.7:
            row, value = rng.choice(rows)
            if isinstance(value, str):
                value = change(value.encode()).decode('utf-8', 'replace')
            elif isinstance(value, bytes):
                value = change(value)
            else:
                value = rng.choice((None, 0, -1, 2**62, 'a', b'a', 0.5))
            database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (value, row))
        else:
            database.execute('PRAGMA writable_schema = ON')
            changed = change(sql.encode()).decode('utf-8', 'replace')
            database.execute('UPDATE sqlite_master SET sql = ? WHERE name = ?', (changed, table))
        database.commit()
        return bytes(database.serialize())


_FORMS = {'json': _json, 'tensors': _tensors, 'mcap': _mcap, 'sqlite': _sqlite}
