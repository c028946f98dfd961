"""Exported networks that are damaged, or no detector that can be used: ONNX files, written byte by byte."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ESCAPE = '\x1b]0;title\x07\x1b[2J\x9b31m\u202e'
_FLOAT, _INT64, _BOOL = 1, 7, 9  # types of ONNX's tensors
_INT, _GRAPH = 2, 5  # of its attributes


def damaged_models() -> Iterator[tuple[str, bytes]]:
    """Files of one operator, by what is wrong with them."""
    yield 'no detector', _of_one_operator()
    for shape in ((1, 3, 10**6, 10**6), (1, 3, -5, -5), (1, 3, 0, 0), (), (1,) * 60):
        yield f'input {shape!r:.30}', _of_one_operator(shape)
    for operator in (ESCAPE, 'NoSuchOperator', 'If'):
        yield f'operator {operator!r:.20}', _of_one_operator(operator=operator)
    yield 'an output of controls', _of_one_operator(name=ESCAPE)
    for version in (0, 99, -5):
        yield f'version {version}', _of_one_operator(version=version)
    weight = b''.join(_field(1, 2**31) for _ in range(3)) + _field(2, _FLOAT) + _field(8, 'w')
    yield 'weights without values', _of_one_operator(inside=_field(5, weight))
    outside = (
        _field(1, 4)
        + _field(2, _FLOAT)
        + _field(8, 'w')
        + _field(14, 1)
        + _field(13, _field(1, 'location') + _field(2, '../../../../etc/passwd'))
    )
    yield 'weights of another file', _of_one_operator(inside=_field(5, outside))


def odd_detectors() -> Iterator[tuple[str, bytes]]:
    """Whole files with one image as input; the first is a YOLO of one class, the others are no such detector."""
    yield 'as it should be', with_outputs({'output0': (1, 5, 100)})
    yield 'twenty classes where one is named', with_outputs({'output0': (1, 24, 100)})
    yield (
        'a thousand outputs',
        with_outputs({f'output{number}': (1, 10) for number in range(1000)}),
    )
    yield 'a classifier', with_outputs({'logits': (1, 1000)})
    yield 'a segmenter', with_outputs({'masks': (1, 21, 64, 64)})
    yield 'poses', with_outputs({'output0': (1, 56, 100)})
    yield 'scores without boxes', with_outputs({'scores': (1, 100, 80)})
    yield 'boxes without scores', with_outputs({'boxes': (1, 100, 4)})
    yield (
        'two images',
        with_outputs(
            {'output0': (1, 5, 100)}, {'images': (1, 3, 64, 64), 'second': (1, 3, 64, 64)}
        ),
    )
    yield 'sound', with_outputs({'output0': (1, 5, 100)}, {'images': (1, 16000)})
    yield 'sixteen colours', with_outputs({'output0': (1, 5, 100)}, {'images': (1, 16, 64, 64)})
    yield 'a batch of four', with_outputs({'output0': (4, 5, 100)}, {'images': (4, 3, 64, 64)})
    twice = 2 * _field(1, _expand(0, 'same'))
    yield 'a loop of 2 ** 62 rounds', _loop(2**62)
    yield 'a loop without end', _loop(-1)
    half = _field(1, 'half') + _field(1, 'half') + _field(2, 'rounds') + _field(4, 'Add')
    yield 'a loop whose rounds are a sum', _loop(2**61, 'half', _field(1, half))
    to_whole = _field(5, _field(1, 'to') + _field(3, _INT64) + _field(20, _INT))
    most = _mean('images').replace(b'mean', b'most')
    whole = _field(1, 'most') + _field(2, 'rounds') + _field(4, 'Cast') + to_whole
    yield (
        'a loop of as many rounds as the pixels say',
        _loop(0, 'none', _field(1, most) + _field(1, whole)),
    )
    yield 'outputs that are no numbers', with_outputs({'output0': (1, 5, 100)}, most=math.nan)
    yield (
        'outputs of one name',
        _graph(
            _field(1, _mean('images')) + twice + _shape(0, (1, 5, 100)),
            {'images': (1, 3, 64, 64)},
            {'same': (1, 5, 100)},
        ),
    )


def odd_networks(place: Path) -> Iterator[tuple[str, bytes]]:
    """Files of OpenVINO IR with their values beside them; the first is a YOLO of two classes."""
    import openvino
    from openvino import opset13 as ops

    image = ops.parameter([1, 3, 64, 64], openvino.Type.f32, name='images')
    rows = ops.reshape(image, np.int64([1, 6, 2048]), False)
    whole = place / 'whole.xml'

    def saved(value, names: str = '{0: "car", 1: "bike"}') -> bytes:
        model = openvino.Model([ops.result(value)], [image])
        model.set_rt_info(names, ['framework', 'names'])
        openvino.save_model(model, whole)
        return whole.read_bytes()

    loops = saved(_looping(image.output(0), 1000, 1000))
    wide = saved(ops.broadcast(ops.reduce_sum(rows, np.int64([0, 1, 2])), np.int64([2 * 10**9])))
    digits = saved(rows.output(0), f'{{"{"9" * 5000}": "car"}}')
    plain = saved(rows.output(0))
    for number in range(200):  # under the names that the files get
        (place / f'{number:02}.bin').write_bytes(whole.with_suffix('.bin').read_bytes())
    yield 'as it should be', plain
    yield 'a loop within a loop', loops
    yield 'a layer of 8 GB', wide
    yield 'a label of 5,000 digits', digits
    for name, offset, size in (('behind the end', 10**12, 24), ('without end', 0, 2**62)):
        content = plain.replace(b'offset="0"', b'offset="%d"' % offset, 1)
        yield f'values {name}', content.replace(b'size="24"', b'size="%d"' % size, 1)
    entities = b''.join(
        b'<!ENTITY a%d "%s">' % (number, b'&a%d;' % (number - 1) * 10) for number in range(1, 30)
    )
    for name, entity in (
        ('entities that multiply', b'<!ENTITY a0 "a">' + entities),
        ('a file as entity', b'<!ENTITY a29 SYSTEM "file:///dev/zero">'),
    ):
        head, _, body = plain.partition(b'<net name="')
        yield name, head + b'<!DOCTYPE net [' + entity + b']><net name="&a29;' + body


def _looping(value, rounds: int, inner: int = 0):
    """A value doubled so often; in each round as often as a loop within says."""
    import openvino
    from openvino import opset13 as ops

    inside, on = ops.parameter([1, 3, 64, 64], openvino.Type.f32), ops.constant(np.array(True))
    body = _looping(inside.output(0), inner) if inner else ops.add(inside, inside).output(0)
    loop = ops.loop(ops.constant(np.int64(rounds)), ops.constant(np.array(True)))
    loop.set_function(openvino.Model([body.get_node(), on], [inside]))
    loop.set_special_body_ports([-1, 1])
    loop.set_merged_input(inside, value, body)
    return loop.get_iter_value(body, -1)


def with_outputs(
    outputs: dict[str, tuple[int, ...]],
    inputs: dict[str, tuple[int, ...]] | None = None,
    most: float = 1.0,
) -> bytes:
    """Each output is the mean of the first input times values from 0 on, in a shape of its own."""
    inputs = inputs or {'images': (1, 3, 64, 64)}
    parts = [_field(1, _mean(next(iter(inputs))))]
    for number, (name, shape) in enumerate(outputs.items()):
        product = (
            _field(1, 'mean') + _field(1, f'values{number}') + _field(2, name) + _field(4, 'Mul')
        )
        values = np.linspace(0.0, most, math.prod(shape), dtype=np.float32).tobytes()
        sides = b''.join(_field(1, side) for side in shape)
        parts += [
            _field(1, product),
            _field(5, sides + _field(2, _FLOAT) + _field(8, f'values{number}') + _field(9, values)),
        ]
    return _graph(b''.join(parts), inputs, outputs)


def _of_one_operator(
    shape: tuple[int, ...] = (1, 3, 32, 32),
    operator: str = 'Relu',
    name: str = 'boxes',
    version: int = 13,
    inside: bytes = b'',
) -> bytes:
    node = _field(1, 'images') + _field(2, name) + _field(4, operator)
    return _graph(_field(1, node) + inside, {'images': shape}, {name: shape}, version)


def _graph(
    content: bytes,
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    version: int = 13,
) -> bytes:
    sides = [
        _field(number, _value(name, shape))
        for number, values in ((11, inputs), (12, outputs))
        for name, shape in values.items()
    ]
    graph = content + _field(2, 'g') + b''.join(sides)
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, '') + _field(2, version))


def _loop(rounds: int, name: str = 'rounds', before: bytes = b'') -> bytes:
    """A YOLO whose image passes through a loop first.

    Args:
        rounds: of the loop, or what they are computed of.
        name: of that number in the file.
        before: operators that compute `rounds`.
    """
    same = [
        _field(1, _field(1, given) + _field(2, name) + _field(4, 'Identity'))
        for given, name in (('on', 'still_on'), ('value', 'next'))
    ]
    sides = [
        _field(number, _value(name, shape, kind))
        for number, name, shape, kind in (
            (11, 'round', (), _INT64),
            (11, 'on', (), _BOOL),
            (11, 'value', (1, 3, 64, 64), _FLOAT),
            (12, 'still_on', (), _BOOL),
            (12, 'next', (1, 3, 64, 64), _FLOAT),
        )
    ]
    body = (
        _field(1, 'body')
        + _field(6, b''.join(same) + _field(2, 'body') + b''.join(sides))
        + _field(20, _GRAPH)
    )
    words = [_field(1, name) for name in ('rounds', 'true', 'images')] + [
        _field(2, 'looped'),
        _field(4, 'Loop'),
    ]
    constants = _field(
        5,
        _field(2, _INT64) + _field(8, name) + _field(9, (rounds % 2**64).to_bytes(8, 'little')),
    )
    constants += _field(5, _field(2, _BOOL) + _field(8, 'true') + _field(9, b'\x01'))
    parts = [
        constants,
        before,
        _field(1, b''.join(words) + _field(5, body)),
        _field(1, _mean('looped')),
        _field(1, _expand(0, 'output0')),
        _shape(0, (1, 5, 100)),
    ]
    return _graph(b''.join(parts), {'images': (1, 3, 64, 64)}, {'output0': (1, 5, 100)})


def _mean(name: str) -> bytes:
    flat = _field(1, 'keepdims') + _field(3, 0) + _field(20, _INT)
    return _field(1, name) + _field(2, 'mean') + _field(4, 'ReduceMean') + _field(5, flat)


def _expand(number: int, name: str) -> bytes:
    return _field(1, 'mean') + _field(1, f'shape{number}') + _field(2, name) + _field(4, 'Expand')


def _shape(number: int, shape: tuple[int, ...]) -> bytes:
    values = b''.join(side.to_bytes(8, 'little') for side in shape)
    return _field(
        5,
        _field(1, len(shape)) + _field(2, _INT64) + _field(8, f'shape{number}') + _field(9, values),
    )


def _value(name: str, shape: tuple[int, ...], kind: int = _FLOAT) -> bytes:
    sides = b''.join(_field(1, _field(1, side)) for side in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, sides)))


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    value, found = value % 2**64, bytearray()
    while True:
        value, low = value >> 7, value & 127
        found.append(low | (128 if value else 0))
        if not value:
            return bytes(found)
