"""Latency of any convolution from measured ones."""

import random

import pytest
from convolution_model import Split, fit_convolution_model
from layers import ConvolutionShape
from step_latency import Line, StepModel

BLOCKS = {'out_channels': StepModel(16, 1, 1, Line(1.0, 0.0), Line(1.0, 0.0), 0.0)}


def convolutions(count: int, seed: int) -> list[ConvolutionShape]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        channels = rng.randint(8, 256), rng.randint(8, 256)
        kernel, stride = rng.choice((1, 3, 5)), rng.choice((1, 2))
        size = rng.randint(7, 60), rng.randint(7, 60)
        found.append(ConvolutionShape(*channels, kernel, stride, *size))
    return found


def blocked_ms(shape: ConvolutionShape) -> float:
    """A device that works on 16 filters at a time, moves values and takes 20 us for a call."""
    operations = shape.operations // shape.out_channels * -(-shape.out_channels // 16) * 16
    return 0.02 + 2e-8 * operations + 1e-7 * shape.positions * shape.out_channels


def two_kernels_ms(shape: ConvolutionShape) -> float:
    """The same device with a slow kernel for small inputs."""
    small = shape.in_channels * shape.height * shape.width <= 20_480
    return blocked_ms(shape) * 1.8 if small else blocked_ms(shape)


def error(ground_truth, learned: int = 150, steps=BLOCKS) -> float:
    shapes = convolutions(learned, 1)
    held_out = convolutions(60, 2)
    model = fit_convolution_model(shapes, [ground_truth(shape) for shape in shapes], steps)
    errors = [abs(model.predict(shape) / ground_truth(shape) - 1.0) for shape in held_out]
    return sum(errors) / len(errors)


def splits(node) -> list[Split]:
    return [node, *splits(node.low), *splits(node.high)] if isinstance(node, Split) else []


def test_finds_the_costs_of_a_blocked_device():
    assert error(blocked_ms, learned=40) < 0.005


@pytest.mark.slow
def test_finds_where_the_library_changes_kernels():
    shapes = convolutions(200, 1)
    model = fit_convolution_model(shapes, [two_kernels_ms(shape) for shape in shapes], BLOCKS)
    places = [one.threshold for one in splits(model.cost) if one.attribute == 'input values']
    assert any(19_000 <= place <= 20_480 for place in places)
    assert error(two_kernels_ms, learned=200) < 0.03


def test_no_cost_is_negative_so_a_larger_layer_never_costs_less():
    rng = random.Random(3)
    shapes = convolutions(60, 3)
    times_ms = [blocked_ms(shape) * rng.uniform(0.7, 1.4) for shape in shapes]
    model = fit_convolution_model(shapes, times_ms, {})
    times = [model.predict(ConvolutionShape(64, 64, 3, 1, side, side)) for side in range(8, 60)]
    assert all(later >= earlier >= 0.0 for earlier, later in zip(times, times[1:]))
