import resource
from pathlib import Path

import numpy as np
import openvino
import pytest
from exported_files import SIZE, exported

from deadline_perception.extras.external_models.exported.exported_file import (
    read_exported,
    with_size,
)
from deadline_perception.extras.external_models.exported.model_error import ModelError

ops = openvino.opset13
ROWS = {'output0': np.zeros((1, 20, 6), np.float32)}
PUBLIC = Path(__file__).parents[5] / 'shared' / 'data' / 'public_models'


def test_other_inputs_are_refused(tmp_path):
    shapes = {'tokens': ((1, 77), 'i64'), 'second': ((1, 3, 64, 96), 'f32')}
    for name, shape in shapes.items():
        read = read_exported(exported(tmp_path / 'net.xml', ROWS, further={name: shape}))
        with pytest.raises(ModelError, match=rf'input {name} \[1, .*\] is not known'):
            with_size(read, SIZE, Path('net.xml'))


@pytest.mark.parametrize(
    'name, content, said',
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


def pixels(*shape):
    shape = openvino.PartialShape(list(shape or (1, 3, 8, 8)))
    return ops.parameter(shape, openvino.Type.f32, name='images')


def saved(file, result, image):
    """A file of a network, which gives one value of an image."""
    openvino.save_model(openvino.Model([ops.result(result)], [image]), file)
    return file


def in_branch(given, make):
    """What `make` gives of a value, computed in one of two branches."""
    one, other = (
        ops.parameter(given.get_output_partial_shape(0), openvino.Type.f32) for _ in range(2)
    )
    made = ops.result(make(one))
    passed = ops.result(ops.relu(other))
    branch = ops.if_op(ops.constant(np.array(True)))
    branch.set_then_body(openvino.Model([made], [one]))
    branch.set_else_body(openvino.Model([passed], [other]))
    branch.set_input(given.output(0), one, other)
    return branch.set_output(made, passed)


def looping(rounds, value, inner=0):
    """A value doubled so often; in each round as often as a loop within says."""
    inside, on = ops.parameter([1, 3, 8, 8], openvino.Type.f32), ops.constant(np.array(True))
    doubled = ops.add(inside, inside)
    if inner:
        doubled = looping(ops.constant(np.int64(inner)), inside).get_node()
    loop = ops.loop(rounds, ops.constant(np.array(True)))
    loop.set_function(openvino.Model([doubled, on], [inside]))
    loop.set_special_body_ports([-1, 1])
    loop.set_merged_input(inside, value.output(0), doubled.output(0))
    return loop.get_iter_value(doubled.output(0), -1)


def of_pixels(image):
    """As many rounds as the pixels add up to."""
    axes = ops.constant(np.arange(4))
    return ops.convert(ops.reduce_sum(image, axes, keep_dims=False), 'i64')


def of(rounds):
    return ops.constant(np.int64(rounds))


@pytest.mark.parametrize(
    'make, said',
    [
        (lambda x: looping(of(2**62), x), 'loop of 4611686018427387904 rounds'),
        (lambda x: looping(of(-1), x), 'loop without end'),
        (lambda x: looping(ops.add(of(2**60), of(2**60)), x), 'loop of 2305843009213693952 rounds'),
        (lambda x: looping(of_pixels(x), x), 'loop whose number of rounds is computed'),
        (lambda x: looping(ops.add(of(5), of(5)), x), None),
        # Rounds of a loop within a loop multiply.
        (lambda x: looping(of(300), x, 300), None),
        (lambda x: looping(of(300), x, 400), 'has a loop of 120000 rounds'),
    ],
)
@pytest.mark.parametrize('where', ['top', 'branch'])
def test_a_loop_without_few_stated_rounds_is_refused_before_it_runs(tmp_path, make, said, where):
    image = pixels()
    found = make(image) if where == 'top' else in_branch(image, make)
    file = saved(tmp_path / 'loop.xml', found, image)
    if said is None:
        read_exported(file)
        return
    with pytest.raises(ModelError, match=f'{said}, expected at most 100000 stated rounds'):
        read_exported(file)


def broadcast(file, length, body=False):
    """An image spread over layers of so many values."""

    def spread(value):
        wide = ops.broadcast(value, ops.constant(np.int64([length])))
        return ops.reduce_sum(ops.relu(wide), ops.constant(np.int64([0])), keep_dims=False)

    image = pixels()
    total = ops.reduce_sum(image, ops.constant(np.arange(4)), keep_dims=False)
    saved(file, in_branch(total, spread) if body else spread(total), image)
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
    'the shape': lambda image: ops.gather(
        ops.shape_of(image), ops.constant(np.int64(2)), ops.constant(np.int64(0))
    ),
    'a count': lambda image: of_pixels(
        ops.convert(ops.greater(image, ops.constant(np.float32(0.5))), 'i64')
    ),
    'a count times a thousand': lambda image: ops.multiply(
        LENGTHS['a count'](image), ops.constant(np.int64(1000))
    ),
}


@pytest.mark.parametrize('of', LENGTHS)
def test_a_layer_as_long_as_pixels_say_is_refused(tmp_path, of):
    def spread(given):
        length = ops.unsqueeze(LENGTHS[of](given), ops.constant(np.int64([0])))
        wide = ops.broadcast(ops.constant(np.float32(1)), length)
        most = ops.reduce_sum(wide, ops.constant(np.int64([0])), keep_dims=False)
        return ops.add(given, most)

    image = pixels()
    file = tmp_path / 'long.xml'
    saved(file, in_branch(image, spread) if 'branch' in of else spread(image), image)
    read = read_exported(file)
    if of in ('the shape', 'a count'):
        with_size(read, (8, 8), file)
        return
    with pytest.raises(ModelError, match='a layer Broadcast whose length is computed from the pix'):
        with_size(read, (8, 8), file)


def test_the_size_of_an_open_input_counts(tmp_path):
    image = pixels(1, 3, -1, -1)
    file = saved(tmp_path / 'open.xml', ops.relu(ops.concat([image] * 32, 1)), image)
    with_size(read_exported(file), (640, 640), file)
    with pytest.raises(ModelError, match='GB at once, expected at most 4.3 GB'):
        with_size(read_exported(file), (8192, 8192), file)


@pytest.mark.skipif(not PUBLIC.is_dir(), reason='needs the public detectors')
def test_a_real_tflite_file_is_decoded_by_its_layers():
    file = PUBLIC / 'ssd_mobilenet_v1_coco_quant.tflite'
    read = read_exported(file)
    outputs = with_size(read, (300, 300), file)
    expected = ['boxes [1, 1917, 4]', 'class_scores [1, 1917, 90]']
    assert [str(output) for output in outputs] == expected
    assert (read.layers, read.by_planes) == ('8 bit', False)


def test_a_model_of_single_images_as_torchvision_exports_them_takes_a_batch_of_one(tmp_path):
    image = pixels(3, -1, -1)
    file = tmp_path / 'single.xml'
    image.output(0).set_names({'images'})
    shown = ops.reshape(ops.reduce_mean(image, np.int64([0, 1, 2]), True), np.int64([1, 1]), False)
    read = read_exported(saved(file, ops.concat([shown] * 4, 1), image))
    assert (read.by_planes, read.size) == (True, (None, None))
    with_size(read, SIZE, file)
    (value,) = read.model.inputs
    assert (value.get_any_name(), list(value.get_shape())) == ('images', [1, 3, *SIZE])
