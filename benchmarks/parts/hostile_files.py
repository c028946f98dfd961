"""Files that were made to harm their reader, of every kind that the package reads; the same ones in every run.

Of each format one reader, and one file for each kind of harm: code that would run, a small file that becomes gigabytes,
sizes that lie, work without end, names of other files, and what a terminal obeys. What else can be wrong with a file, and
the other readers of YAML, JSON, text and images, are asked by the readers' tests and by `test/fuzz`.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import sqlite3
import struct
import zlib
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path

import cv2
import numpy as np
import torch
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.records import Chunk
from mcap.writer import MCAP0_MAGIC

from deadline_perception.engines.segment_store import FORMAT as SEGMENTS_FORMAT
from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.timing.calibration import FORMAT, BoundCalibrator
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.recent_times import RecentTimes, StartRatio

ESCAPE = '\x1b]0;title\x07\x1b[2J\x9b31m\u202e'
BOMB = 'a0: &a0 [x, x]\n' + ''.join(f'a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n' for n in range(1, 30))
MARK = 'code_was_run'  # a file that code in a hostile file would make
WHOLE = 'as it should be'
Named = Iterator[tuple[str, str | bytes]]


@dataclass(frozen=True)
class Case:
    """One file: the kind of its reader, and what is wrong with it."""

    kind: str
    name: str
    file: Path


def all_cases(
    folder: Path, weights: Path, only: Collection[str] = (), of_each: int | None = None
) -> list[Case]:
    """Writes all files into an empty folder, or some: of some kinds only, at most so many of each kind and format."""
    found = []
    for kind, suffix, make in (
        ('set', '.yaml', _sets),
        ('coco', '.json', _annotations),
        ('segments', '.json', _segments),
        ('weights', '.safetensors', lambda place: _weights(weights)),
        ('pth', '.pth', _pickles),
        ('bag', '.mcap', _mcap),
        ('bag', '.db3', _sqlite),
        ('image', '.png', _images),
        ('video', '.avi', _videos),
        ('network', '.xml', _networks),
        ('speeds', '.csv', _speeds),
        ('calibration', '.json', _calibrations),
    ):
        if only and kind not in only:
            continue
        place = folder / f'{kind}{suffix[1:]}'
        place.mkdir()
        own = list(islice(make(place), of_each))
        whole = (
            _write(place, kind, suffix, f'{number:02}', name, content)
            for number, (name, content) in enumerate(own)
        )
        found += islice(chain(whole, _damaged(place, kind, suffix, own[0][1])), of_each)
    return found


def _write(
    place: Path, kind: str, suffix: str, number: str, name: str, content: bytes | str
) -> Case:
    file = _file(place, kind, suffix, number)
    content = content if isinstance(content, bytes) else content.encode('utf-8', 'surrogatepass')
    file.write_bytes(content)
    return Case(kind, name, file)


def _file(place: Path, kind: str, suffix: str, name: str) -> Path:
    """Where a case lies; a manifest of segments has one name, in a folder of its own."""
    if kind == 'segments':
        (place / name).mkdir()
        return place / name / 'segments.json'
    return place / f'{name}{suffix}'


def _damaged(place: Path, kind: str, suffix: str, whole: bytes | str) -> Iterator[Case]:
    """What can be done to any file."""
    whole = whole if isinstance(whole, bytes) else whole.encode()
    contents = {
        'empty': b'',
        'noise': random.Random(f'{kind}{suffix}').randbytes(5000),
        'half': whole[: len(whole) // 2],
        'control characters': ESCAPE.encode() * 20,
        'nested': b'[' * 200_000,
        'digits': b'9' * 100_000,
    }
    for name, content in contents.items():
        yield _write(place, kind, suffix, name, name, content)
    pipe = _file(place, kind, suffix, 'pipe')
    os.mkfifo(pipe)
    yield Case(kind, 'a pipe', pipe)
    device = _file(place, kind, suffix, 'device')
    device.symlink_to('/dev/zero')
    yield Case(kind, 'a device without end', device)


def _sets(place: Path) -> Named:
    models = 'format: 1\nmodels: [{{name: a, kind: onnx, file: a.onnx, classes: {}}}]'
    yield WHOLE, models.format('[car]')
    yield 'aliases', BOMB + models.format('*a29')
    yield 'code', models.format(f'!!python/object/apply:os.system ["touch {place / MARK}"]')
    yield 'controls', models.format('"\\e[2J"')
    yield 'a long list', models.format(f'[{"x, " * 300_000}]')


def _annotations(place: Path) -> Named:
    cv2.imwrite(str(place / 'a.jpg'), np.full((20, 30, 3), 80, np.uint8))

    coco = {
        'images': [{'id': 1, 'file_name': 'a.jpg', 'width': 30, 'height': 20}],
        'annotations': [{'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [1, 2, 3, 4]}],
        'categories': [{'id': 1, 'name': 'car'}],
    }
    yield WHOLE, json.dumps(coco)
    for name, part, change in (
        ('a file without end', 'images', {'file_name': '/dev/zero'}),
        ('a size that lies', 'images', {'width': 10**9}),
        ('a box that lies', 'annotations', {'bbox': [10**400] * 4}),
        ('controls', 'categories', {'name': ESCAPE}),
    ):
        yield name, json.dumps({**coco, part: [coco[part][0] | change]})


def _segments(place: Path) -> Named:
    record = {'form': '8 bit', 'error_db': 30.0, 'time_ms': 1.0, 'eager_ms': 2.0}
    record |= {'file': 'a.blob', 'sha256': 'ff', 'reason': ''}
    content = {'format': SEGMENTS_FORMAT, 'origin': {'network': '00'}, 'done': ['stem']}
    content |= {'failed': [], 'attempt': '', 'segments': {'stem': record}}
    yield 'without its file', json.dumps(content)
    for name, change in (
        ('a file without end', {'file': '/dev/zero'}),
        ('controls', {'reason': ESCAPE}),
    ):
        yield name, json.dumps({**content, 'segments': {'stem': record | change}})


def _speeds(place: Path) -> Named:
    head = 'stamp_s,speed_mps\n'
    yield WHOLE, head + ''.join(f'{number},{number}\n' for number in range(500))
    yield 'a quote without end', f'{head}0,"{"x" * 2_000_000}\n'
    yield 'a million rows', head + '1,1\n' * 1_000_000
    yield 'controls', f'{head}0,{ESCAPE}\n'


def _calibrations(place: Path) -> Named:
    bound = PartBound(BoundCalibrator(0.01, 0.05, 0.02), RecentTimes(0.01, StartRatio(0.0, 0.1)))
    content = {'format': FORMAT, 'origin': {'profile': 'a'}, **bound.state()}
    yield WHOLE, json.dumps(content)
    for name, value in (('huge', 1e300), ('controls', ESCAPE), ('long', [1.0] * 1_000_000)):
        for key in ('recent', 'initial_log_factor'):
            yield f'{key}: {name}', json.dumps({**content, key: value})


def _safetensors(header: object, rest: bytes = b'') -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, 'little') + text + rest


def _weights(weights: Path) -> Named:
    whole = weights.read_bytes()
    size = int.from_bytes(whole[:8], 'little')
    header = json.loads(whole[8 : 8 + size])
    facts = header.pop('__metadata__')
    yield WHOLE, whole
    config = json.dumps(json.loads(facts['config']) | {'stem_channels': 10**9})
    for name, change in (('a huge network', {'config': config}), ('controls', {'kind': ESCAPE})):
        changed = {**header, '__metadata__': facts | change}
        yield name, _safetensors(changed, whole[8 + size :])
    yield 'a header of 2^60 bytes', (2**60).to_bytes(8, 'little')
    tensor = {'dtype': 'F32', 'shape': [2**62], 'data_offsets': [0, 4]}
    yield 'tensors of 2^62 values', _safetensors({'a': tensor}, bytes(4))


class _Touch:
    """Makes the mark where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __reduce__(self):
        return os.system, (f'touch {self._place / MARK}',)


def _pickles(place: Path) -> Named:
    def pickled(content: object, **options) -> bytes:
        stream = io.BytesIO()
        torch.save(content, stream, **options)
        return stream.getvalue()

    yield WHOLE, pickled({'a': torch.zeros(10)})
    yield 'code in a state dict', pickled({'state_dict': {'a': _Touch(place)}})
    yield 'code in the old format', pickled(_Touch(place), _use_new_zipfile_serialization=False)
    yield 'an expanded view', pickled({'a': torch.ones(1).expand(10**6, 10**5)})
    yield 'controls', pickled({ESCAPE: torch.ones(1)})


def _mcap(place: Path) -> Named:
    file = place / 'drive.mcap'
    write_bag(render_drive(0.5, seed=1), file)
    yield WHOLE, file.read_bytes()
    file.unlink()
    head = MCAP0_MAGIC + b'\x01' + (8).to_bytes(8, 'little') + bytes(8)
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    bomb = b''.join(compressor.compress(bytes(2**24)) for _ in range(128)) + compressor.flush()
    records = RecordBuilder()
    Chunk('zstd', bomb, 1, 0, 0, 1000).write(records)
    yield '2 GiB in a chunk that states 1,000 bytes', head + records.end()
    yield 'a record of 2^62 bytes', head + b'\x06' + (2**62).to_bytes(8, 'little') + bytes(100)
    yield 'millions of empty records', head + (b'\x7f' + bytes(8)) * 2_000_000


def _sqlite(place: Path) -> Named:
    bag = place / 'drive.db3'
    columns = 'id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB'
    endless = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)'
    view = f'{endless} SELECT x AS id, 1 AS topic_id, x AS timestamp, x AS data FROM c'
    for name, schema in (
        (WHOLE, f'TABLE messages({columns})'),
        ('a view without end', f'VIEW messages AS {view}'),
        ('a column of 1 GB a row', f'TABLE messages({columns} AS (zeroblob(999000000)))'),
        ('controls', f'TABLE messages({columns}, "{ESCAPE}" TEXT)'),
    ):
        bag.unlink(missing_ok=True)
        with closing(sqlite3.connect(bag)) as database:
            database.execute(
                'CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, '
                'serialization_format TEXT, offered_qos_profiles TEXT)'
            )
            database.execute(
                "INSERT INTO topics VALUES (1, '/a', 'std_msgs/msg/String', 'cdr', '')"
            )
            database.execute(f'CREATE {schema}')
            database.commit()
        yield name, bag.read_bytes()


@cache
def _png(width: int, height: int, blocks: int) -> bytes:
    """A grey image, and as many blocks of 10 MB of pixels, folded."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        size, checksum = (struct.pack('>I', n) for n in (len(data), zlib.crc32(kind + data)))
        return size + kind + data + checksum

    fold, size = zlib.compressobj(wbits=-15), struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0)
    block = fold.compress(bytes(10_000_000)) + fold.flush(zlib.Z_FULL_FLUSH)
    end = b'\x03\x00' + struct.pack('>HH', blocks * 10_000_000 % 65521, 1)  # Adler-32 of zeros
    chunks = ((b'IHDR', size), (b'IDAT', b'\x78\x9c' + block * blocks + end), (b'IEND', b''))
    return b'\x89PNG\r\n\x1a\n' + b''.join(chunk(*one) for one in chunks)


def _images(place: Path) -> Named:
    yield WHOLE, cv2.imencode('.png', np.full((20, 30, 3), 80, np.uint8))[1].tobytes()
    yield '30,000 x 30,000 px', _png(30_000, 30_000, 1)
    yield '4 GB behind the last pixel', _png(8, 8, 400)
    grey, slowly = np.zeros((8000, 8000), np.uint8), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
    large = cv2.imencode('.jpg', grey, slowly)[1].tobytes()
    scan = large.rfind(b'\xff\xda')
    yield 'a JPEG of 90 scans', large[:scan] + large[scan:-2] * 90 + large[-2:]


def _videos(place: Path) -> Named:
    file = place / 'whole.avi'
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*'MJPG'), 10.0, (64, 48))
    for shade in range(5):
        writer.write(np.full((48, 64, 3), shade * 40, np.uint8))
    writer.release()
    yield WHOLE, file.read_bytes()
    for name, at in (('frames', 48), ('width', 64)):
        content = bytearray(file.read_bytes())
        content[at : at + 4] = struct.pack('<I', 2**31 - 1)
        yield f'{name} that lie', bytes(content)


def _networks(place: Path) -> Named:
    """Of OpenVINO: a YOLO of two classes, one with a layer of 8 GB, and files that lie about their values or name other
    files."""
    shapes = 2048, 2 * 10**7, 2048, 2048, 2048
    whole, large, *_ = (_saved(place / f'{at:02}.xml', size) for at, size in enumerate(shapes))
    yield WHOLE, whole
    yield 'a layer of 8 GB', large
    lies = b'offset="0" size="%d"' % 2**62
    yield 'values without end', re.sub(rb'offset="0" size="\d+"', lies, whole, count=1)
    entities = b''.join(
        b'<!ENTITY a%d "%s">' % (number, b'&a%d;' % (number - 1) * 10) for number in range(1, 30)
    )
    head, _, body = whole.partition(b'<net name="')
    for name, entity in (
        ('entities that multiply', b'<!ENTITY a0 "a">' + entities),
        ('a file as entity', b'<!ENTITY a29 SYSTEM "file:///dev/zero">'),
    ):
        yield name, head + b'<!DOCTYPE net [' + entity + b']><net name="&a29;' + body


def _saved(file: Path, rows: int) -> bytes:
    """A network of one image with an output of so many rows, which follow it; its values stay beside it."""
    import openvino
    from openvino import opset13 as ops

    image = ops.parameter([1, 3, 64, 64], openvino.Type.f32, name='images')
    mean = ops.reduce_mean(image, np.int64([0, 1, 2, 3]))
    values = np.linspace(0.0, 1.0, rows, dtype=np.float32)
    output = ops.broadcast(ops.multiply(mean, values), np.int64((1, 6, rows)))
    model = openvino.Model([ops.result(output)], [image])
    model.set_rt_info('{0: "car", 1: "bike"}', ['framework', 'names'])
    openvino.save_model(model, file)
    return file.read_bytes()
