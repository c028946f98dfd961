"""Latency of any convolution from measured ones."""

import random

import pytest
from convolution_model import Split, fit_convolution_model
from layers import ConvolutionShape
from step_latency import Line, StepModel

BLOCKS = {'out_channels': StepModel(16, 1, 1, Line(1.0, 0.0), Line(1.0, 0.0), 0.0)}


def convolutions(count: int, seed: int) -> list[ConvolutionShape]:
    rng = random.Random(seed)
    return [
        ConvolutionShape(
            rng.randint(8, 256),
            rng.randint(8, 256),
            rng.choice((1, 3, 5)),
            rng.choice((1, 2)),
            rng.randint(7, 60),
            rng.randint(7, 60),
        )
        for _ in range(count)
    ]


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
    return sum(abs(model.predict(shape) / ground_truth(shape) - 1.0) for shape in held_out) / len(
        held_out
    )


def splits(node) -> list[Split]:
    return [node, *splits(node.low), *splits(node.high)] if isinstance(node, Split) else []


def test_finds_the_costs_of_a_blocked_device():
    assert error(blocked_ms, learned=40) < 0.005


@pytest.mark.slow
def test_finds_where_the_library_changes_kernels():
    shapes = convolutions(200, 1)
    model = fit_convolution_model(shapes, [two_kernels_ms(shape) for shape in shapes], BLOCKS)
    assert any(
        split.attribute == 'input values' and 19_000 <= split.threshold <= 20_480
        for split in splits(model.cost)
    )
    assert error(two_kernels_ms, learned=200) < 0.03


def test_no_cost_is_negative_so_a_larger_layer_never_costs_less():
    rng = random.Random(3)
    shapes = convolutions(60, 3)
    model = fit_convolution_model(
        shapes, [blocked_ms(shape) * rng.uniform(0.7, 1.4) for shape in shapes], {}
    )
    times = [model.predict(ConvolutionShape(64, 64, 3, 1, side, side)) for side in range(8, 60)]
    assert all(later >= earlier >= 0.0 for earlier, later in zip(times, times[1:]))
