import numpy as np
import pytest

from deadline_perception.engines.openvino_library import openvino_core
from deadline_perception.extras.preparation.channels_last import channels_last

openvino = pytest.importorskip('openvino')
ops = openvino.opset13

RNG = np.random.default_rng(0)


def block(quantised):
    """A residual block of one convolution, beside a flat input that passes as it is."""
    x, flat = ops.parameter([1, 4, 6, 5], np.float32), ops.parameter([3, 2], np.float32)
    weight = RNG.normal(size=(4, 4, 3, 3)).astype(np.float32)
    limits = [np.float32(value) for value in (-2.0, 2.0, -2.0, 2.0)]
    inner = ops.fake_quantize(x, *limits, 256) if quantised else x
    y = ops.convolution(inner, weight, [1, 1], [1, 1], [1, 1], [1, 1])
    return openvino.Model([ops.relu(ops.add(y, inner)), ops.relu(flat)], [x, flat], 'block')


def run(model, *values):
    hints = {'INFERENCE_PRECISION_HINT': 'f32'}
    found = openvino_core().compile_model(model, 'CPU', hints)(list(values))
    return [found[index] for index in range(2)]


@pytest.mark.parametrize('quantised', [False, True])
def test_values_are_the_same_with_the_channels_last(quantised):
    model = block(quantised)
    x, flat = (RNG.normal(size=size).astype(np.float32) for size in ((1, 4, 6, 5), (3, 2)))
    expected = run(model, x, flat)
    changed = channels_last(model)
    assert [tuple(port.shape) for port in changed.inputs] == [(1, 6, 5, 4), (3, 2)]
    found = run(changed, np.ascontiguousarray(x.transpose(0, 2, 3, 1)), flat)
    np.testing.assert_allclose(found[0].transpose(0, 3, 1, 2), expected[0], atol=1e-4)
    np.testing.assert_array_equal(found[1], expected[1])
    assert tuple(model.inputs[0].shape) == (1, 4, 6, 5), 'the model itself stays as it is'
