"""Files that were made to harm their reader, of every kind that the package reads; the same ones in every run."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice, repeat
from pathlib import Path

import cv2
import numpy as np
import torch
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.records import Chunk
from rosbags.rosbag2 import StoragePlugin
from safetensors.torch import save

from deadline_perception.engines.segment_store import FORMAT as SEGMENTS_FORMAT
from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.timing.calibration import FORMAT, BoundCalibrator
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.recent_times import RecentTimes, StartRatio
from parts.hostile_bags import hostile_bags
from parts.hostile_detectors import ESCAPE, damaged_models, odd_detectors, odd_networks

BOMB = 'a0: &a0 [x, x]\n' + ''.join(f'a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n' for n in range(1, 30))
MARK = 'code_was_run'  # a file that code in a hostile file would make
_FLIPS = 8
_GENERATED = (
    'CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, '
    'timestamp INTEGER NOT NULL, data BLOB GENERATED ALWAYS AS ({}) VIRTUAL)'
)
_ADDED = "INSERT INTO sqlite_master VALUES ('table', ?, ?, 0, ?)"
_REPLACED = "UPDATE sqlite_master SET sql = ? WHERE name = 'messages'"
_SEARCH = "instr(zeroblob(20000000), zeroblob(10000000) || 'x')"


@dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
        kind: of reader.
        name: what is wrong with it.
        file: where it lies.
    """

    kind: str
    name: str
    file: Path


class _Touch:
    """Makes the mark where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __reduce__(self):
        return os.system, (f'touch {self._place / MARK}',)


_ANY_GROUP = 54_321


def all_cases(folder: Path, weights: Path, of_each: int | None = None) -> list[Case]:
    """Writes all files, or some of each kind.

    Args:
        folder: for them, empty.
        weights: a detector's; its table of qualities lies beside it.
        of_each: at most so many of each kind and format.
    """
    found = []
    for kind, suffix, make in (
        ('set', '.yaml', _sets),
        ('tasks', '.yaml', _tasks),
        ('mapping', '.yaml', _mappings),
        ('mapping', '.json', _json_mappings),
        ('classes', '.txt', _class_lists),
        ('coco', '.json', _annotations),
        ('profile', '.json', _profiles),
        ('quality', '.json', lambda place: _qualities(weights)),
        ('segments', '.json', _segments),
        ('weights', '.safetensors', lambda place: _weights(weights)),
        ('elastic', '.safetensors', _elastic),
        ('pth', '.pth', _pickles),
        ('bag', '.mcap', _mcap),
        ('bag', '.db3', _sqlite),
        ('image', '.png', lambda place: _images()),
        ('message', '.png', lambda place: _images()),
        ('video', '.avi', _videos),
        ('onnx', '.onnx', lambda place: damaged_models()),
        ('detector', '.onnx', lambda place: odd_detectors()),
        ('network', '.xml', odd_networks),
        ('speeds', '.csv', _speeds),
        ('calibration', '.json', _calibrations),
    ):
        place = folder / f'{kind}{suffix[1:]}'
        place.mkdir()
        own = list(islice(make(place), of_each))
        whole = (
            _write(place, kind, suffix, number, name, content)
            for number, (name, content) in enumerate(own)
        )
        found += islice(chain(whole, _damaged(place, kind, suffix, own[0][1])), of_each)
    return found + list(_shared_segments(folder / 'segmentsjson'))


def _shared_segments(place: Path) -> Iterator[Case]:
    """Prepared segments, which are code, where somebody else may have written them."""
    for name, mode, changed in (
        ('that everybody may write', 0o777, 'folder'),
        ('that a group may write', 0o770, 'folder'),
        ('whose manifest everybody may write', 0o666, 'manifest'),
        ('whose manifest a group may write', 0o660, 'manifest'),
    ):
        file = place / name.replace(' ', '_') / 'segments.json'
        file.parent.mkdir()
        file.write_text((place / '00' / 'segments.json').read_text())
        target = file if changed == 'manifest' else file.parent
        if os.geteuid() == 0:  # whose own group is root's
            os.chown(target, 0, _ANY_GROUP)
        target.chmod(mode)
        yield Case('segments', f'a folder {name}', file)


def _write(
    place: Path, kind: str, suffix: str, number: int, name: str, content: bytes | str
) -> Case:
    file = _file(place, kind, suffix, f'{number:02}')
    file.write_bytes(
        content if isinstance(content, bytes) else content.encode('utf-8', 'surrogatepass')
    )
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
    rng = random.Random(f'{kind}{suffix}')
    contents = {
        'empty': b'',
        'noise': rng.randbytes(5000),
        'zeros': bytes(100_000),
        'half': whole[: len(whole) // 2],
        'one byte short': whole[:-1],
        'twice': whole * 2,
        'control characters': ESCAPE.encode() * 20,
        'nested': b'[' * 200_000,
        'digits': b'9' * 100_000,
        'UTF-16': 'text'.encode('utf-16') * 100,
    }
    for number in range(_FLIPS):
        content = bytearray(whole)
        for _ in range(1 + len(content) // 200):
            content[rng.randrange(min(len(content), 4000))] = rng.randrange(256)
        contents[f'bytes changed {number}'] = bytes(content)
    for number, (name, content) in enumerate(contents.items()):
        yield _write(place, kind, suffix, 100 + number, name, content)
    pipe = _file(place, kind, suffix, 'pipe')
    os.mkfifo(pipe)
    yield Case(kind, 'a pipe', pipe)
    device = _file(place, kind, suffix, 'device')
    device.symlink_to('/dev/zero')
    yield Case(kind, 'a device without end', device)
    folder = _file(place, kind, suffix, 'folder')
    folder.mkdir()
    yield Case(kind, 'a folder', folder)


_MODEL = '{name: a, kind: onnx, file: a.onnx, classes: [car]}'


def _sets(place: Path) -> Iterator[tuple[str, str]]:
    yield 'as it should be', f'format: 1\nmodels: [{_MODEL}]'
    for where in (
        'format: *a29\nmodels: []',
        'format: 1\nmodels: *a29',
        'format: 1\nmodels: [*a29]',
        'format: 1\nclasses: *a29\nmodels: [{name: a, kind: onnx, file: b, classes: [c]}]',
        'format: 1\nmodels: [{name: *a29, kind: onnx, file: b}]',
        'format: 1\nmodels: [{name: a, kind: onnx, file: *a29, classes: [c]}]',
    ):
        yield f'aliases in {where[:40]!r}', BOMB + where
    for field in (
        'path: 5',
        'mean: [1' + '0' * 400 + ', 0, 0]',
        'input_size: [8192, 1' + '0' * 25 + ']',
        'memory_mb: .nan',
        'classes: ["\\e[2J"]',
        'kept_paths: [[1]]',
        'mean: [.nan, .nan, .nan]',
        'colour: "\\e[2J"',
    ):
        text = f'format: 1\nmodels: [{_MODEL[:-1]}, {field}}}]'
        yield field[:30], text.replace(', classes: [car], classes', ', classes')
    yield 'code', f'format: 1\nmodels: !!python/object/apply:os.system ["touch {place / MARK}"]'
    yield 'base 60', 'format: ' + ':'.join(['1'] * 4000) + '.5'
    yield 'a merge key', BOMB + '<<: {a: 1}'
    many = _MODEL.replace('[car]', f'[{"x, " * 300_000}y]')
    yield '400,000 classes', f'format: 1\nmodels: [{many}]'


def _tasks(place: Path) -> Iterator[tuple[str, str]]:
    yield 'as it should be', 'tasks: {a: {model: compact, periods_ms: [100]}}'
    for field in (
        'periods_ms: [1.0e-300]',
        'periods_ms: [1.0e+300]',
        'periods_ms: [.inf]',
        'levels: 1000000000000',
        'weight: .nan',
        'image_topic: "a b ${HOME}"',
        'image_topic: "\\e[2J"',
        'device: "\\e[2J"',
        '"\\e[2J": 1',
    ):
        more = '' if field.startswith('periods') else 'periods_ms: [100], '
        yield field[:30], f'tasks: {{a: {{model: compact, {more}{field}}}}}'
    for where in (
        'tasks: *a29',
        'tasks: {a: *a29}',
        'tasks: {a: {model: *a29, periods_ms: [1]}}',
        'tasks: {a: {model: x, periods_ms: *a29}}',
        'tasks: {*a29 : 1}',
    ):
        yield f'aliases in {where!r}', BOMB + where
    yield 'a name with controls', 'tasks: {"\\e[2J": {model: compact, periods_ms: [100]}}'
    yield 'code', f'tasks: !!python/object/apply:os.system ["touch {place / MARK}"]'
    rows = (f'  a{n}: {{model: x, periods_ms: [1]}}\n' for n in range(20_000))
    yield '20,000 tasks', 'tasks:\n' + ''.join(rows)


def _mappings(place: Path) -> Iterator[tuple[str, str]]:
    yield 'as it should be', 'car: vehicle\ntree: null'
    yield 'aliases', BOMB + 'car: *a29'
    yield 'code', f'car: !!python/object/apply:os.system ["touch {place / MARK}"]'
    yield 'controls', 'car: "\\e[2J"\n"\\e]0;x": car'


def _json_mappings(place: Path) -> Iterator[tuple[str, str]]:
    yield 'as it should be', '{"car": "vehicle"}'
    yield 'a key twice', '{"car": "vehicle", "car": "bike"}'
    yield 'controls', json.dumps({ESCAPE: ESCAPE})


def _class_lists(place: Path) -> Iterator[tuple[str, str]]:
    yield 'as it should be', 'car\nbike\n'
    yield 'a million', 'x\n' * 400_000
    yield 'controls', f'car\n{ESCAPE}\n'


def _annotations(place: Path) -> Iterator[tuple[str, str]]:
    cv2.imwrite(str(place / 'a.jpg'), np.full((20, 30, 3), 80, np.uint8))

    whole_image = {'id': 1, 'file_name': 'a.jpg', 'width': 30, 'height': 20}
    box = {'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [1, 2, 3, 4]}

    def coco(image=(), annotation=(), category=()) -> str:
        images, annotations = [{**whole_image, **dict(image)}], [{**box, **dict(annotation)}]
        categories = [{'id': 1, 'name': 'car', **dict(category)}]
        content = {'images': images, 'annotations': annotations, 'categories': categories}
        return json.dumps(content)

    yield 'as it should be', coco()
    for name, value in (
        ('file_name', ESCAPE),
        ('file_name', '../../../etc/passwd'),
        ('file_name', '/dev/zero'),
        ('width', 10**9),
        ('width', 'x'),
        ('id', ESCAPE),
        ('file_name', ['a']),
        ('height', None),
    ):
        yield f'image {name} {value!r:.20}', coco(image={name: value})
    for name, value in (
        ('bbox', [10**400] * 4),
        ('bbox', [1e308] * 4),
        ('bbox', ESCAPE),
        ('category_id', ESCAPE),
        ('image_id', ESCAPE),
        ('bbox', [float('nan')] * 4),
        ('iscrowd', []),
    ):
        yield f'annotation {name} {value!r:.20}', coco(annotation={name: value})
    for name, value in (('name', ESCAPE), ('name', 'x' * 10**6), ('id', [1])):
        yield f'category {name} {value!r:.20}', coco(category={name: value})
    yield 'deep', '{"images": ' + '[' * 5000 + ']' * 5000 + '}'


def _profiles(place: Path) -> Iterator[tuple[str, str]]:
    content = {'format': 2, 'network_hash': 'ab', 'segments': {}, 'paths': {}, 'facts': {}}
    yield 'almost one', json.dumps(content)
    for name, value in (
        ('format', 10**29),
        ('segments', [ESCAPE]),
        ('facts', ESCAPE),
        ('segments', None),
        ('network_hash', ESCAPE * 1000),
        ('paths', {ESCAPE: 1e308}),
    ):
        yield f'{name} {value!r:.20}', json.dumps({**content, name: value})
    yield 'a key twice', '{"format": 2, "format": 1}'


def _qualities(weights: Path) -> Iterator[tuple[str, str]]:
    content = json.loads(weights.with_suffix('.quality.json').read_text())
    yield 'as it should be', json.dumps(content)
    first = next(iter(content['paths']))
    for value in (float('nan'), 1e308, -1, ESCAPE, None, [], 10**29):
        paths = {**content['paths'], first: {'ap': value}}
        yield f'AP {value!r:.20}', json.dumps({**content, 'paths': paths})
    yield 'a path of controls', json.dumps({**content, 'paths': {ESCAPE: {'ap': 0.3}}})


def _segments(place: Path) -> Iterator[tuple[str, str]]:
    record = {'form': '8 bit', 'error_db': 30.0, 'time_ms': 1.0, 'eager_ms': 2.0}
    record |= {'file': 'a.blob', 'sha256': 'ff', 'reason': ''}
    content = {'format': SEGMENTS_FORMAT, 'origin': {'network': '00'}, 'done': ['stem']}
    content |= {'failed': [], 'attempt': '', 'segments': {'stem': record}}
    yield 'without its file', json.dumps(content)
    for name, value in (
        ('file', '../../../etc/passwd'),
        ('file', '/dev/zero'),
        ('reason', ESCAPE),
        ('form', ESCAPE),
    ):
        segments = {'stem': {**record, name: value}}
        yield f'{name} {value!r:.20}', json.dumps({**content, 'segments': segments})
    yield 'origin of controls', json.dumps({**content, 'origin': {'network': ESCAPE}})


def _speeds(place: Path) -> Iterator[tuple[str, str]]:
    head = 'stamp_s,speed_mps\n'
    yield 'as it should be', head + ''.join(f'{number},{number}\n' for number in range(500))
    for name, row in (
        ('NaN', '0,nan'),
        ('infinite', 'inf,1'),
        ('a speed of 400 digits', f'0,{"9" * 400}'),
        ('a row of controls', f'0,{ESCAPE}'),
        ('a quote without end', f'0,"{"x" * 2_000_000}'),
        ('a row of a million values', '0,' * 1_000_000),
        ('zeros in the text', '0,\0'),
    ):
        yield name, f'{head}{row}\n'
    yield 'backwards', f'{head}1,1\n0,1\n'
    yield 'a million rows', head + '1,1\n' * 1_000_000


def _calibrations(place: Path) -> Iterator[tuple[str, str]]:
    bound = PartBound(BoundCalibrator(0.01, 0.05, 0.02), RecentTimes(0.01, StartRatio(0.0, 0.1)))
    content = {'format': FORMAT, 'origin': {'profile': 'a'}, **bound.state()}
    yield 'as it should be', json.dumps(content)
    for key, kept in content.items():
        for name, value in (
            ('NaN', float('nan')),
            ('huge', 1e300),
            ('text', ESCAPE),
            ('null', None),
            ('nested', [[[kept]]]),
            ('a long list', [1.0] * 1_000_000),
        ):
            yield f'{key}: {name}', json.dumps({**content, key: value})


def _safetensors(header: object, rest: bytes = b'') -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, 'little') + text + rest


def _weights(weights: Path) -> Iterator[tuple[str, bytes]]:
    whole = weights.read_bytes()
    size = int.from_bytes(whole[:8], 'little')
    header = json.loads(whole[8 : 8 + size])
    facts = header.pop('__metadata__')
    yield 'as it should be', whole
    for name, change in (
        ('config', {'stem_channels': 10**9}),
        ('config', {'input_size': [32 * 10**6] * 2}),
        ('config', {'skip_groups': [[1] * 50_000, [], [], []]}),
        ('class_names', ['n'] * 200_000),
        ('class_names', [ESCAPE]),
        ('config', ESCAPE),
        ('kind', ESCAPE),
    ):
        value = {**json.loads(facts['config']), **change} if isinstance(change, dict) else change
        text = value if isinstance(value, str) else json.dumps(value)
        changed = {**header, '__metadata__': {**facts, name: text}}
        yield f'{name} {change!r:.30}', _safetensors(changed, whole[8 + size :])
    yield 'a header of 2^60 bytes', (2**60).to_bytes(8, 'little')
    tensor = {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]}
    yield 'tensors of 2^62 values', _safetensors({'a': {**tensor, 'shape': [2**62]}}, bytes(4))
    yield 'tensors that overlap', _safetensors({'a': tensor, 'b': tensor}, bytes(4))


def _elastic(place: Path) -> Iterator[tuple[str, bytes]]:
    source_of = {'model': 'resnet18', 'class_names': ['a', 'b'], 'input_size': [64, 64]}
    source_of |= {'mean': [0, 0, 0], 'deviation': [1, 1, 1]}
    facts = {'format': 1, 'settings': [0.5, 1.0]}
    (place / 'payload.py').write_text(f'open({str(place / MARK)!r}, "w")\n')

    def elastic(source=(), **more) -> bytes:
        content = {**facts, **more, 'source': {**source_of, **dict(source)}}
        return save({'a': torch.zeros(3)}, {'elastic': json.dumps(content)})

    yield 'without its weights', elastic()
    for name, value in (
        ('model', 'os:abort'),
        ('model', 'builtins:exit'),
        ('model', 'payload:run'),
        ('model', 'vit_h_14'),
        ('model', 'regnet_y_128gf'),
        ('model', 'deeplabv3_resnet50'),
        ('model', ESCAPE),
        ('model', 5),
        ('input_size', [20_000, 20_000]),
        ('input_size', ['x', 1]),
        ('class_names', ['n'] * 10**6),
        ('class_names', [ESCAPE]),
        ('mean', [float('nan')] * 3),
        ('deviation', 'abc'),
        (ESCAPE, 1),
    ):
        yield f'{name} {value!r:.25}', elastic(source={name: value})
    yield '200,000 settings', elastic(settings=[n / 2e5 for n in range(1, 200_001)])
    yield 'nested', save({'a': torch.zeros(1)}, {'elastic': '[' * 100_000})


def _pickled(content: object, **options) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream, **options)
    return stream.getvalue()


def _pickles(place: Path) -> Iterator[tuple[str, bytes]]:
    yield 'as it should be', _pickled({'a': torch.zeros(10)})
    yield 'code', _pickled(_Touch(place))
    yield 'code in a state dict', _pickled({'state_dict': {'a': _Touch(place)}})
    yield 'code in the old format', _pickled(_Touch(place), _use_new_zipfile_serialization=False)
    yield 'a module', _pickled(torch.nn.Linear(2, 2))
    yield 'an expanded view', _pickled({'a': torch.ones(1).expand(10**6, 10**5)})
    yield 'integer names', _pickled({3: torch.ones(1)})
    yield 'names of controls', _pickled({ESCAPE: torch.ones(1)})
    yield 'sparse', _pickled({'a': torch.eye(3).to_sparse()})
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(_pickled({'a': torch.zeros(2**26)}))) as old,
        zipfile.ZipFile(stream, 'w', zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    yield 'compressed 256 MiB', stream.getvalue()
    deep: list = []
    for _ in range(60):
        deep = [deep]
    yield 'nested', _pickled(deep)


def _drive_bag(place: Path, plugin: StoragePlugin) -> Path:
    from rosbags.rosbag2 import Writer

    from deadline_perception.extras.data.message_definitions import message_types

    folder = place / 'whole'
    with Writer(folder, version=8, storage_plugin=plugin) as writer:
        types = message_types()
        connection = writer.add_connection('/word', 'std_msgs/msg/String', typestore=types)
        for number in range(20):
            message = types.types['std_msgs/msg/String'](f'word {number}')
            writer.write(connection, number, types.serialize_cdr(message, 'std_msgs/msg/String'))
    return next(file for file in folder.iterdir() if file.suffix in ('.mcap', '.db3'))


def _record(kind: bytes, content: bytes) -> bytes:
    return kind + len(content).to_bytes(8, 'little') + content


def _mcap(place: Path) -> Iterator[tuple[str, bytes]]:
    file = place / 'drive.mcap'
    write_bag(render_drive(0.5, seed=1), file)
    yield 'as it should be', file.read_bytes()
    file.unlink()
    magic = b'\x89MCAP0\r\n'
    head = magic + _record(b'\x01', bytes(8))
    end = _record(b'\x0f', bytes(4)) + _record(b'\x02', bytes(20)) + magic
    compressor = zstandard.ZstdCompressor(level=19).compressobj()
    bomb = b''.join(compressor.compress(bytes(2**24)) for _ in range(128)) + compressor.flush()
    for stated in (1000, 2**31, 2**62):
        records = RecordBuilder()
        Chunk(
            compression='zstd',
            data=bomb,
            message_start_time=0,
            message_end_time=1,
            uncompressed_crc=0,
            uncompressed_size=stated,
        ).write(records)
        chunk = records.end()
        yield f'2 GiB in a chunk that states {stated}', head + chunk + end
        yield f'the same, cut off {stated}', head + chunk
    for claim in (2**31, 2**60, 2**62, 2**63):
        record = b'\x06' + claim.to_bytes(8, 'little') + bytes(100)
        yield f'a record of {claim} bytes', head + record
    yield from hostile_bags()


def _sqlite(place: Path) -> Iterator[tuple[str, bytes]]:
    whole = _drive_bag(place, StoragePlugin.SQLITE3)
    yield 'as it should be', whole.read_bytes()
    endless = (
        'CREATE VIEW messages AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS '
        'id, 1 AS topic_id, x AS timestamp, x AS data FROM c'
    )
    for name, statement in (
        ('attaches a file', f"ATTACH DATABASE '{place / MARK}' AS p"),
        ('a view without end', endless),
        ('makes a table', 'CREATE TABLE t AS SELECT 1'),
        ('no SQL', ESCAPE),
        ('quotes', 'CREATE TABLE "a""; DROP" (x)'),
        ('a virtual table', 'CREATE VIRTUAL TABLE v USING fts5(x)'),
        ('a generated column of 1 GB a row', _GENERATED.format('zeroblob(999000000)')),
        ('a generated column of long searches', _GENERATED.format(_SEARCH)),
    ):
        for instead in (False, True):
            copy = shutil.copy(whole, place / 'copy.db3')
            with closing(sqlite3.connect(copy)) as database:
                database.execute('PRAGMA writable_schema = ON')
                if instead:
                    database.execute(_REPLACED, (statement,))
                else:
                    database.execute(_ADDED, (name, name, statement))
                database.commit()
            where = ' in the place of the messages' if instead else ''
            yield f'{name}{where}', Path(copy).read_bytes()


def _png(width: int, height: int, *, rows: int = 10_000_000, texts: int = 0) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        size, checksum = (struct.pack('>I', n) for n in (len(data), zlib.crc32(kind + data)))
        return size + kind + data + checksum

    fold, blocks = zlib.compressobj(), repeat(bytes(10_000_000), rows // 10_000_000)
    return (
        b'\x89PNG\r\n\x1a\n'
        + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0))
        + chunk(b'zTXt', b'a\0\0' + zlib.compress(b'a' * 7_900_000)) * texts
        + chunk(b'IDAT', b''.join(map(fold.compress, blocks)) + fold.flush())
        + chunk(b'IEND', b'')
    )


def _images() -> Iterator[tuple[str, bytes]]:
    yield 'as it should be', cv2.imencode('.png', np.full((20, 30, 3), 80, np.uint8))[1].tobytes()
    for width, height in ((30_000, 30_000), (2**31 - 1, 1), (2**31 - 1, 2**31 - 1), (0, 0)):
        yield f'{width} x {height} px', _png(width, height)
    yield '1,000 texts of 8 MB', _png(8, 8, texts=1000)
    yield '4 GB behind the last pixel', _png(8, 8, rows=4 * 10**9)
    jpeg = cv2.imencode('.jpg', np.zeros((16, 16, 3), np.uint8))[1].tobytes()
    at = jpeg.find(b'\xff\xc0')
    yield 'a JPEG that states 65,500 px', jpeg[: at + 5] + b'\x3e\x80\xff\xdc' + jpeg[at + 9 :]
    yield 'a TIFF', cv2.imencode('.tiff', np.zeros((20_000, 20_000), np.uint8))[1].tobytes()
    grey, slowly = np.zeros((8000, 8000), np.uint8), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
    large = cv2.imencode('.jpg', grey, slowly)[1].tobytes()
    scan = large.rfind(b'\xff\xda')
    yield 'a JPEG of 90 scans', large[:scan] + large[scan:-2] * 90 + large[-2:]
    yield 'a JPEG that ends within a length', jpeg[: at + 19] + b'\xff\xc4'
    yield 'a JPEG of 65,535 px', b'\xff\xd8\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x03' + bytes(20)


def _videos(place: Path) -> Iterator[tuple[str, bytes]]:
    file = place / 'whole.avi'
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*'MJPG'), 10.0, (64, 48))
    for shade in range(5):
        writer.write(np.full((48, 64, 3), shade * 40, np.uint8))
    writer.release()
    yield 'as it should be', file.read_bytes()
    for name, at, value in (('frames', 48, 2**31 - 1), ('rate', 32, 0), ('width', 64, 2**31 - 1)):
        content = bytearray(file.read_bytes())
        content[at : at + 4] = struct.pack('<I', value)
        yield f'another {name}', bytes(content)
