"""Layers run as their shapes say, and visits tell interruptions from contention."""

import os
import signal

import pytest
from waiting import wait

torch = pytest.importorskip('torch')

from group_norm import GroupNormShape, LayerShape  # noqa: E402
from layer_visits import CoRunner, CoRunnerFailed, LayerVisit, layer_call, visit_layer  # noqa: E402
from layers import ConvolutionShape  # noqa: E402
from traced_layers import traced_operations  # noqa: E402


@pytest.mark.parametrize(
    'shape', [ConvolutionShape(6, 4, 3, 2, 9, 11, batch=2), GroupNormShape(8, 2, 5, 6)]
)
def test_a_call_computes_its_layer(shape: LayerShape) -> None:
    assert traced_operations(layer_call(shape, 'cpu')) == [shape.operations]


def test_a_visit_times_all_runs_but_the_first() -> None:
    runs = []
    visit = visit_layer(lambda: runs.append(sum(range(1000))), 'cpu')
    assert len(runs) == 5
    assert len(visit.times_ms) == len(visit.switches) == 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs CUDA')
def test_a_visit_on_a_gpu() -> None:
    visit = visit_layer(layer_call(ConvolutionShape(64, 64, 3, 1, 64, 64), 'cuda'), 'cuda')
    assert min(visit.times_ms) > 0
    assert visit.switches == (0, 0, 0, 0)


def test_alone_what_does_not_repeat_is_an_interruption() -> None:
    steady = LayerVisit((1.0, 1.4, 1.1), (0, 0, 0))
    assert steady.execution_ms(alone=True) == (1.0, 1.4, 1.1)
    assert steady.interruption_ms(alone=True) == 0.0
    interrupted = LayerVisit((5.0, 1.0, 1.2, 2.0), (0, 0, 0, 0))
    assert interrupted.execution_ms(alone=True) == (1.0, 1.2)
    assert interrupted.interruption_ms(alone=True) == 4.0


def test_beside_a_co_runner_only_a_switch_is_an_interruption() -> None:
    visit = LayerVisit((5.0, 1.0, 1.2, 2.0), (0, 0, 1, 0))
    assert visit.execution_ms(alone=False) == (5.0, 1.0, 2.0)
    assert visit.interruption_ms(alone=False) == pytest.approx(0.2)
    assert LayerVisit((5.0, 1.0), (0, 0)).interruption_ms(alone=False) == 0.0


def test_the_fastest_run_counts_in_any_case() -> None:
    assert LayerVisit((2.0, 1.0), (3, 3)).execution_ms(alone=False) == (1.0,)


@pytest.mark.slow
def test_co_runner_works_only_when_told_and_its_end_is_noticed() -> None:
    with CoRunner('cpu') as co_runner:
        assert (co_runner.busy_s, co_runner.worked_s) == (0, 0)
        co_runner.use(1.0)
        wait(lambda: co_runner.worked_s > 0, 'its first layer')
        assert co_runner.busy_s > 0

        def rests():
            before = co_runner.busy_s
            co_runner.use(0.0)
            return co_runner.busy_s == before

        wait(rests, 'the end of its last layer')
        with pytest.raises(ValueError, match='utilisation is 1.5, expected a part.*to 1'):
            co_runner.use(1.5)
        os.kill(co_runner._process.pid, signal.SIGKILL)
        co_runner._process.join()
        with pytest.raises(CoRunnerFailed, match='the co-runner on cpu ended with code -9'):
            co_runner.use(1.0)


@pytest.mark.slow
def test_co_runner_that_crashes_at_start_is_not_waited_for() -> None:
    with pytest.raises(CoRunnerFailed, match='the co-runner on nowhere ended with code 1 before'):
        CoRunner('nowhere').__enter__()


def test_co_runner_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('layer_visits._CO_RUNNER_STARTS_S', 0.0)
    monkeypatch.setattr('layer_visits._CO_RUNNER_LOOK_S', 0.0)
    with (
        pytest.raises(CoRunnerFailed, match='the co-runner was not ready on cpu within 0 s'),
        CoRunner('cpu'),
    ):
        pass
