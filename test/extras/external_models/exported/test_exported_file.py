import resource
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('openvino')

from exported_files import SIZE, exported  # noqa: E402

from deadline_perception.extras.external_models.exported.exported_file import (  # noqa: E402
    read_exported,
    with_size,
)
from deadline_perception.extras.external_models.exported.memory import peak_bytes  # noqa: E402
from deadline_perception.extras.external_models.exported.model_error import ModelError  # noqa: E402
from deadline_perception.extras.external_models.exported.stated_facts import StatedFacts  # noqa: E402

ROWS = {'output0': np.zeros((1, 20, 6), np.float32)}
PUBLIC = Path(__file__).parents[5] / 'shared' / 'data' / 'public_models'


def test_what_ultralytics_writes_into_a_file_is_read(tmp_path):
    facts = {
        'names': "{0: 'car', 1: 'traffic light'}",
        'imgsz': '[384, 640]',
        'stride': '32',
        'task': 'detect',
    }
    read = read_exported(exported(tmp_path / 'net.xml', ROWS, size=(None, None), facts=facts))
    assert read.stated == StatedFacts(('car', 'traffic light'), (384, 640))
    assert read.is_open and read.size == (None, None) and read.layers == 'float'
    assert [str(output) for output in with_size(read, (384, 640), Path('net.xml'))] == [
        'output0 [1, 20, 6]'
    ]


def test_inputs_that_tell_sizes_become_constants(tmp_path):
    read = read_exported(
        exported(tmp_path / 'net.xml', ROWS, further={'orig_target_sizes': ((1, 2), 'i64')})
    )
    with_size(read, SIZE, Path('net.xml'))
    assert [value.get_any_name() for value in read.model.inputs] == ['images']


@pytest.mark.parametrize(
    ('further', 'said'),
    [
        ({'tokens': ((1, 77), 'i64')}, r'input tokens \[1, 77\] is not known'),
        ({'second': ((1, 3, 64, 96), 'f32')}, r'input second \[1, 3, 64, 96\] is not known'),
    ],
)
def test_other_inputs_are_refused(tmp_path, further, said):
    read = read_exported(exported(tmp_path / 'net.xml', ROWS, further=further))
    with pytest.raises(ModelError, match=said):
        with_size(read, SIZE, Path('net.xml'))


@pytest.mark.parametrize(
    ('name', 'content', 'said'),
    [
        ('none.onnx', None, 'none.onnx does not exist'),
        ('net.pt', b'x', 'expected a file that ends with .onnx, .xml'),
        ('net.onnx', b'no model', 'net.onnx cannot be read by OpenVINO'),
        ('net.tflite', b'no model', 'cannot be read'),
        ('net.tflite', b'\0\0\0\0TFL3' + b'\xff' * 50, 'cannot be read as a TensorFlow Lite file'),
    ],
)
def test_files_that_are_no_detector_are_refused(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=said) as error:
        read_exported(tmp_path / name)
    assert str(error.value).isprintable()


def test_an_input_without_pixels_is_refused(tmp_path):
    from openvino import Model, PartialShape, Type, save_model
    from openvino import opset13 as ops

    image = ops.parameter(PartialShape([1, 3, 0, 0]), Type.f32, name='images')
    save_model(Model([ops.result(ops.relu(image))], [image]), tmp_path / 'empty.xml')
    with pytest.raises(ModelError, match='has 0 x 0 px, expected 1 to 8192 px a side'):
        read_exported(tmp_path / 'empty.xml')


def looping(rounds, value, ops, inner=0):
    """A value doubled so often; in each round as often as a loop within says."""
    from openvino import Model, Type

    inside, on = ops.parameter([1, 3, 8, 8], Type.f32), ops.constant(np.array(True))
    doubled = ops.add(inside, inside)
    if inner:
        doubled = looping(ops.constant(np.int64(inner)), inside.output(0), ops).get_node()
    loop = ops.loop(rounds, ops.constant(np.array(True)))
    loop.set_function(Model([doubled, on], [inside]))
    loop.set_special_body_ports([-1, 1])
    loop.set_merged_input(inside, value, doubled.output(0))
    return loop.get_iter_value(doubled.output(0), -1)


def of_pixels(image, ops):
    """As many rounds as the pixels add up to."""
    axes = ops.constant(np.arange(4))
    return ops.convert(ops.reduce_sum(image, axes, keep_dims=False), 'i64')


@pytest.mark.parametrize(
    ('make', 'said'),
    [
        (lambda image, ops: ops.constant(np.int64(2**62)), 'loop of 4611686018427387904 rounds'),
        (lambda image, ops: ops.constant(np.int64(-1)), 'loop without end'),
        (
            lambda image, ops: ops.add(*[ops.constant(np.int64(2**60))] * 2),
            'loop of 2305843009213693952 rounds',
        ),
        (of_pixels, 'loop whose number of rounds is computed'),
        (lambda image, ops: ops.add(*[ops.constant(np.int64(5))] * 2), None),
    ],
)
@pytest.mark.parametrize('where', ['top', 'branch'])
def test_a_loop_without_few_stated_rounds_is_refused_before_it_runs(tmp_path, make, said, where):
    from openvino import Model, Type, save_model
    from openvino import opset13 as ops

    image = ops.parameter([1, 3, 8, 8], Type.f32, name='images')
    if where == 'top':
        found = looping(make(image, ops), image.output(0), ops)
    else:
        one, other = (ops.parameter([1, 3, 8, 8], Type.f32) for _ in range(2))
        looped = ops.result(looping(make(one, ops), one.output(0), ops))
        passed = ops.result(ops.relu(other))
        branch = ops.if_op(ops.constant(np.array(True)))
        branch.set_then_body(Model([looped], [one]))
        branch.set_else_body(Model([passed], [other]))
        branch.set_input(image.output(0), one, other)
        found = branch.set_output(looped, passed)
    save_model(Model([ops.result(found)], [image]), tmp_path / 'loop.xml')
    if said is None:
        read_exported(tmp_path / 'loop.xml')
        return
    with pytest.raises(ModelError, match=f'{said}, expected at most 100000 stated rounds'):
        read_exported(tmp_path / 'loop.xml')


@pytest.mark.parametrize(('inner', 'fits'), [(300, True), (400, False)])
def test_rounds_of_a_loop_within_a_loop_multiply(tmp_path, inner, fits):
    from openvino import Model, Type, save_model
    from openvino import opset13 as ops

    image = ops.parameter([1, 3, 8, 8], Type.f32, name='images')
    found = looping(ops.constant(np.int64(300)), image.output(0), ops, inner)
    save_model(Model([ops.result(found)], [image]), tmp_path / 'nested.xml')
    if fits:
        read_exported(tmp_path / 'nested.xml')
        return
    with pytest.raises(ModelError, match='has a loop of 120000 rounds, expected at most 100000'):
        read_exported(tmp_path / 'nested.xml')


def broadcast(file, length, side=8, body=False):
    """An image spread over layers of so many values."""
    from openvino import Model, PartialShape, Type, save_model
    from openvino import opset13 as ops

    image = ops.parameter(PartialShape([1, 3, side, side]), Type.f32, name='images')
    total = ops.reduce_sum(image, ops.constant(np.arange(4)), keep_dims=False)
    if body:
        inside, other = (ops.parameter([], Type.f32) for _ in range(2))
        wide = ops.broadcast(inside, ops.constant(np.int64([length])))
        spread = ops.result(ops.reduce_sum(wide, ops.constant(np.int64([0])), keep_dims=False))
        passed = ops.result(ops.relu(other))
        branch = ops.if_op(ops.constant(np.array(True)))
        branch.set_then_body(Model([spread], [inside]))
        branch.set_else_body(Model([passed], [other]))
        branch.set_input(total.output(0), inside, other)
        found = branch.set_output(spread, passed)
    else:
        wide = ops.broadcast(total, ops.constant(np.int64([length])))
        found = ops.reduce_sum(ops.relu(wide), ops.constant(np.int64([0])), keep_dims=False)
    save_model(Model([ops.result(found)], [image]), file, compress_to_fp16=False)
    assert file.stat().st_size < 10_000
    return file


@pytest.mark.parametrize('body', [False, True])
def test_layers_of_gigabytes_are_refused_before_they_are_allocated(tmp_path, body):
    file = broadcast(tmp_path / 'wide.xml', 2_000_000_000, body=body)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match='wide.xml take (8|16).0 GB at once.*most 4.3'):
        read_exported(file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before_kb + 500_000
    read_exported(broadcast(tmp_path / 'fine.xml', 1_000_000, body=body))


LENGTHS = {
    'pixels': of_pixels,
    'pixels in a branch': of_pixels,
    'the shape': lambda image, ops: ops.gather(
        ops.shape_of(image), ops.constant(np.int64(2)), ops.constant(np.int64(0))
    ),
    'a count': lambda image, ops: ops.reduce_sum(
        ops.convert(ops.greater(image, ops.constant(np.float32(0.5))), 'i64'),
        ops.constant(np.arange(4)),
        keep_dims=False,
    ),
    'a count times a thousand': lambda image, ops: ops.multiply(
        LENGTHS['a count'](image, ops), ops.constant(np.int64(1000))
    ),
}


@pytest.mark.parametrize('of', LENGTHS)
def test_a_layer_as_long_as_pixels_say_is_refused(tmp_path, of):
    from openvino import Model, Type, save_model
    from openvino import opset13 as ops

    def spread(given):
        length = ops.unsqueeze(LENGTHS[of](given, ops), ops.constant(np.int64([0])))
        wide = ops.broadcast(ops.constant(np.float32(1)), length)
        most = ops.reduce_sum(wide, ops.constant(np.int64([0])), keep_dims=False)
        return ops.add(given, most)

    image = ops.parameter([1, 3, 8, 8], Type.f32, name='images')
    if 'branch' in of:
        one, other = (ops.parameter([1, 3, 8, 8], Type.f32) for _ in range(2))
        long, passed = ops.result(spread(one)), ops.result(ops.relu(other))
        branch = ops.if_op(ops.constant(np.array(True)))
        branch.set_then_body(Model([long], [one]))
        branch.set_else_body(Model([passed], [other]))
        branch.set_input(image.output(0), one, other)
        found = branch.set_output(long, passed)
    else:
        found = spread(image)
    save_model(Model([ops.result(found)], [image]), tmp_path / 'long.xml')
    read = read_exported(tmp_path / 'long.xml')
    if of in ('the shape', 'a count'):
        with_size(read, (8, 8), tmp_path / 'long.xml')
        return
    with pytest.raises(ModelError, match='a layer Broadcast whose length is computed from the pix'):
        with_size(read, (8, 8), tmp_path / 'long.xml')


def test_the_size_of_an_open_input_counts(tmp_path):
    from openvino import Model, PartialShape, Type, save_model
    from openvino import opset13 as ops

    image = ops.parameter(PartialShape([1, 3, -1, -1]), Type.f32, name='images')
    many = ops.concat([image] * 32, 1)
    save_model(Model([ops.result(ops.relu(many))], [image]), tmp_path / 'open.xml')
    for size in ((640, 640), (8192, 8192)):
        read = read_exported(tmp_path / 'open.xml')
        if size == (640, 640):
            with_size(read, size, tmp_path / 'open.xml')
            continue
        with pytest.raises(ModelError, match='GB at once, expected at most 4.3 GB'):
            with_size(read, size, tmp_path / 'open.xml')


def test_values_that_are_needed_no_longer_take_nothing():
    from openvino import Model, Type
    from openvino import opset13 as ops

    image = ops.parameter([1, 3, 8, 8], Type.f32)
    value = image
    for _ in range(10):
        value = ops.relu(value)
    assert peak_bytes(Model([value], [image])) == 2 * 3 * 8 * 8 * 4
    kept = ops.concat([ops.relu(image) for _ in range(10)], 1)
    assert peak_bytes(Model([kept], [image])) >= 20 * 3 * 8 * 8 * 4


@pytest.mark.skipif(not PUBLIC.is_dir(), reason='needs the public detectors')
def test_a_real_tflite_file_is_decoded_by_its_layers():
    file = PUBLIC / 'ssd_mobilenet_v1_coco_quant.tflite'
    read = read_exported(file)
    outputs = with_size(read, (300, 300), file)
    expected = ['boxes [1, 1917, 4]', 'class_scores [1, 1917, 90]']
    assert [str(output) for output in outputs] == expected
    assert (read.layers, read.by_planes) == ('8 bit', False)


def test_a_model_of_single_images_as_torchvision_exports_them_takes_a_batch_of_one(tmp_path):
    from openvino import Model, PartialShape, Type, save_model
    from openvino import opset13 as ops

    image = ops.parameter(PartialShape([3, -1, -1]), Type.f32, name='images')
    image.output(0).set_names({'images'})
    shown = ops.reshape(ops.reduce_mean(image, np.int64([0, 1, 2]), True), np.int64([1, 1]), False)
    boxes = ops.concat([shown, shown, shown, shown], 1)
    save_model(Model([ops.result(boxes)], [image]), tmp_path / 'single.xml')
    read = read_exported(tmp_path / 'single.xml')
    assert (read.by_planes, read.size) == (True, (None, None))
    with_size(read, SIZE, tmp_path / 'single.xml')
    (value,) = read.model.inputs
    assert (value.get_any_name(), list(value.get_shape())) == ('images', [1, 3, *SIZE])
