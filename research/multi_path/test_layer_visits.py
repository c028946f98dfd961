"""Layers run as their shapes say, and visits tell interruptions from contention."""

import os
import signal

import pytest
import torch
from layer_visits import CoRunner, layer_call, visit_layer
from layers import ConvolutionShape, GroupNormShape, LayerShape
from waiting import wait


@pytest.mark.parametrize('shape', [ConvolutionShape(6, 4, 3, 2, 9, 11), GroupNormShape(4, 2, 5, 6)])
def test_a_visit_times_all_runs_of_a_layer_but_the_first(shape: LayerShape) -> None:
    runs = []
    call = layer_call(shape, 'cpu')
    visit = visit_layer(lambda: runs.append(call()), 'cpu')
    assert [tuple(run.shape) for run in runs] == [(1, 4, 5, 6)] * 5
    assert len(visit.times_ms) == len(visit.switches) == 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs CUDA')
def test_a_visit_on_a_gpu() -> None:
    visit = visit_layer(layer_call(ConvolutionShape(64, 64, 3, 1, 64, 64), 'cuda'), 'cuda')
    assert min(visit.times_ms) > 0
    assert visit.switches == (0, 0, 0, 0)


@pytest.mark.slow
def test_co_runner_works_only_when_told_and_its_end_is_noticed() -> None:
    with CoRunner('cpu') as co_runner:
        assert co_runner.worked_s == 0
        co_runner.use(1.0)
        wait(lambda: co_runner.worked_s > 0, 'its first layer')

        def rests():
            before = co_runner.worked_s
            co_runner.use(0.0)
            return co_runner.worked_s == before

        wait(rests, 'the end of its last layer')
        os.kill(co_runner._process.pid, signal.SIGKILL)
        co_runner._process.join()
        with pytest.raises(RuntimeError, match='the co-runner on cpu has ended'):
            co_runner.use(1.0)
