"""Layers run as their shapes say, and visits tell interruptions from contention."""
from __future__ import annotations

import pytest

torch = pytest.importorskip('torch')

from deadline_perception.latency.layer_timing import (  # noqa: E402
    LayerVisit,
    SecondTenant,
    TenantNotStarted,
    layer_call,
    measure_bandwidth_gb_s,
    visit_layer,
)
from deadline_perception.latency.layer_trace import trace_layers  # noqa: E402
from deadline_perception.latency.layers import (  # noqa: E402
    ConvolutionShape,
    ElementwiseShape,
    GroupNormShape,
    LayerShape,
    LinearShape,
    RegionFeaturesShape,
    ResizeShape,
    SuppressionShape,
)


@pytest.mark.parametrize('shape', [
    ConvolutionShape(6, 4, 3, 2, 9, 11, batch=2), GroupNormShape(8, 2, 5, 6), LinearShape(3, 4, 5),
    SuppressionShape(12), ResizeShape(64 * 16, 64 * 64), ResizeShape(64 * 36, 64 * 144, taps=4)])
def test_a_call_computes_its_layer(shape: LayerShape) -> None:
    assert trace_layers(layer_call(shape, 'cpu')) == (shape,)


@pytest.mark.parametrize('inputs', [1, 2])
def test_an_elementwise_call_goes_over_its_values(inputs: int) -> None:
    assert layer_call(ElementwiseShape(30, inputs), 'cpu')().numel() == 30


def test_region_features_belong_to_the_network() -> None:
    with pytest.raises(ValueError, match='layer is RegionFeaturesShape.*, expected a kind that runs by itself'):
        layer_call(RegionFeaturesShape(1, 1, 1), 'cpu')


def test_a_visit_times_all_runs_but_the_first() -> None:
    runs = []
    visit = visit_layer(lambda: runs.append(sum(range(1000))), 'cpu')
    assert len(runs) == 5
    assert len(visit.times_ms) == 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs CUDA')
def test_a_visit_on_a_gpu() -> None:
    visit = visit_layer(layer_call(ConvolutionShape(64, 64, 3, 1, 64, 64), 'cuda'), 'cuda')
    assert min(visit.times_ms) > 0


def test_what_does_not_repeat_is_an_interruption() -> None:
    contended = LayerVisit((1.0, 1.4, 1.1))
    assert contended.execution_ms == (1.0, 1.4, 1.1)
    assert contended.interruption_ms == 0.0
    interrupted = LayerVisit((5.0, 1.0, 1.2, 2.0))
    assert interrupted.execution_ms == (1.0, 1.2)
    assert interrupted.interruption_ms == 4.0


@pytest.mark.parametrize('times_ms', [(0.0, 1.0), (1.0, float('nan')), (-1.0, 1.0), (1.0,)])
def test_refuses_times_that_cannot_be(times_ms: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match='times of a visit are .*, expected at least two, all above 0 ms'):
        LayerVisit(times_ms)


def test_bandwidth_is_some() -> None:
    assert measure_bandwidth_gb_s('cpu') > 0


def test_second_tenant_works_only_when_told() -> None:
    with SecondTenant('cpu') as tenant:
        before = tenant.busy_s
        tenant.use(1.0)
        working = tenant.busy_s
        tenant.use(0.0)
        stopped = tenant.busy_s
        tenant.use(0.0)
        assert before == 0
        assert working > 0
        assert tenant.busy_s == stopped
        with pytest.raises(ValueError, match='utilisation is 1.5, expected a part of the time, 0 to 1'):
            tenant.use(1.5)


def test_second_tenant_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('deadline_perception.latency.layer_timing._TENANT_STARTS_S', 0.0)
    with pytest.raises(TenantNotStarted, match='the second tenant was not ready on cpu within 0 s'), SecondTenant('cpu'):
        pass
