"""End-to-end bounds: layers added up, steps between them found from paths."""
from __future__ import annotations

import pytest

from deadline_perception.wcet.interval_model import CoveringModel, IntervalModel, Processor
from deadline_perception.wcet.layers import ElementwiseShape, LayerShape, LinearShape, SuppressionShape
from deadline_perception.wcet.path_wcet import PathWcet, fit_path_wcet

# One lane and one processor at 1 MHz: an operation of the models below takes 1 us.
PROCESSOR = Processor(processors=1, lanes=1, clock_mhz=1.0, line_bytes=64, bandwidth_gb_s=1.0, mshrs=1,
                      miss_latency_cycles=1.0, near_latency_cycles=1.0)
PER_OPERATION = CoveringModel((IntervalModel(PROCESSOR, (1.0, 0.0, 0.0, 0.0)),))
MODELS = {family: PER_OPERATION for family in ('elementwise', 'suppression')}


def path(layers: int, boxes: int) -> list[LayerShape]:
    """So many layers of 1 ms, and a suppression."""
    return [ElementwiseShape(1000)] * layers + [SuppressionShape(boxes)]


def test_adds_up_layers_and_steps() -> None:
    model = PathWcet(MODELS, step_ms=(2.0, 0.5, 0.1), calibration_factor=2.0)
    layers = path(3, 10)
    assert model.layers_ms(layers) == pytest.approx(3.0 + 0.045)
    assert model.wcet_ms(layers) == pytest.approx(2.0 * (3.045 + 2.0 + 4 * 0.5 + 10 * 0.1))


def test_finds_the_steps_between_layers() -> None:
    ground_truth = PathWcet(MODELS, step_ms=(2.0, 0.5, 0.1))
    paths = [path(layers, boxes) for layers, boxes in ((1, 5), (4, 5), (2, 60), (9, 20), (6, 40), (3, 30))]
    model = fit_path_wcet(MODELS, [(layers, ground_truth.wcet_ms(layers)) for layers in paths])
    assert model.step_ms == pytest.approx((2.0, 0.5, 0.1), rel=1e-6)
    assert model.wcet_ms(path(5, 50)) >= ground_truth.wcet_ms(path(5, 50)) * (1 - 1e-9)


def test_steps_take_nothing_where_layers_cover_the_path() -> None:
    model = fit_path_wcet(MODELS, [(path(4, 2), 1.0), (path(8, 2), 2.0)])
    assert model.step_ms == (0.0, 0.0, 0.0)
    assert model.calibration_factor == 1.0


def test_refuses_a_layer_without_model() -> None:
    with pytest.raises(ValueError, match='no layer model for linear, expected one of each family'):
        PathWcet(MODELS).wcet_ms([LinearShape(1, 2, 3)])


def test_refuses_what_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match='1 measured paths, expected at least 2'):
        fit_path_wcet(MODELS, [(path(1, 1), 1.0)])
    with pytest.raises(ValueError, match='longest time of a path is nan ms, expected more than 0 ms'):
        fit_path_wcet(MODELS, [(path(1, 1), 1.0), (path(2, 1), float('nan'))])
    with pytest.raises(ValueError, match='step_ms is .*, expected times of at least 0 ms'):
        PathWcet(MODELS, step_ms=(0.0, -1.0, 0.0))
    with pytest.raises(ValueError, match='calibration_factor of path bound is 0.5, expected at least 1'):
        PathWcet(MODELS, calibration_factor=0.5)
