"""Counts from a profiler's CSV: what is read, and what is refused with a word about why."""
from __future__ import annotations

from pathlib import Path

import pytest

from interval_fit import fit_interval_model
from interval_model import LayerCounts, Processor
from layer_counters import COLUMNS, CountersNotRead, read_counters

PROCESSOR = Processor(processors=4, lanes=32, clock_mhz=1000.0, line_bytes=128, bandwidth_gb_s=500.0, mshrs=64,
                      miss_latency_cycles=700.0, near_latency_cycles=30.0)


def write(tmp_path: Path, *rows: list[object], extra: tuple[str, ...] = (), columns: tuple[str, ...] = COLUMNS) -> Path:
    """A file as ncu prints it: messages, header, units, kernels."""
    names = (*columns, *extra)
    units = ['', 'cycle', *['inst'] * (len(names) - 2)]
    lines = ['==PROF== Connected to process 1', *(','.join(f'"{v}"' for v in row) for row in (names, units, *rows))]
    file = tmp_path / 'counters.csv'
    file.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return file


def test_reads_kernels_as_layers(tmp_path: Path) -> None:
    file = write(tmp_path, ['conv', '2,000,000', '1,000', 100, 50, 200, 25], ['norm', 500000, 90, 10, 20, 0, 0])
    layers = read_counters(file, PROCESSOR)
    assert list(layers) == ['conv', 'norm']
    assert layers['conv'].counts == LayerCounts(625, 300, 75, 100, 50, 200, 25)
    assert layers['conv'].worst_ms == layers['conv'].mean_ms == 2.0


def test_adds_up_the_kernels_of_a_layer_and_keeps_runs_apart(tmp_path: Path) -> None:
    file = write(tmp_path, ['a', 1000000, 10, 1, 1, 0, 0, 'conv1', 1], ['b', 2000000, 20, 2, 2, 1, 1, 'conv1', 1],
                 ['a', 5000000, 30, 3, 3, 1, 1, 'conv1', 2], extra=('layer', 'run'))
    layer = read_counters(file, PROCESSOR)['conv1']
    assert (layer.mean_ms, layer.worst_ms) == (4.0, 5.0)
    assert layer.counts == LayerCounts(22, 4, 4, 3, 3, 1, 1)


def test_a_model_can_be_fitted_to_counters(tmp_path: Path) -> None:
    rows = [[f'k{n}', 1000 * n + 500, 10 * n, n, n, n, n] for n in (10, 20, 40, 80)]
    layers = read_counters(write(tmp_path, *rows), PROCESSOR)
    model = fit_interval_model(list(layers.values()), PROCESSOR)
    assert model.wcet_ms(layers['k40'].counts) == pytest.approx(40500 / 1e6, rel=0.01)


@pytest.mark.parametrize(('row', 'message'), [
    (['k', 'n/a', 10, 1, 1, 0, 0], r"line 4: sm__cycles_elapsed.max is 'n/a', expected a count of at least 0"),
    (['k', 100, -10, 1, 1, 0, 0], r"line 4: smsp__inst_executed.sum is '-10', expected a count"),
    (['k', 100, 'nan', 1, 1, 0, 0], r"smsp__inst_executed.sum is 'nan'"),
    (['k', 100, 10], r'smsp__inst_executed_op_global_ld.sum is None'),
    (['k', 100, 10, 6, 6, 0, 0], "layer 'k' has 10 instructions, expected at least its 12 loads and stores"),
    (['k', 0, 10, 1, 1, 0, 0], "layer 'k' takes 0 cycles"),
])
def test_refuses_a_bad_row(tmp_path: Path, row: list[object], message: str) -> None:
    with pytest.raises(CountersNotRead, match=message):
        read_counters(write(tmp_path, row), PROCESSOR)


def test_refuses_what_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(CountersNotRead, match='cannot be read'):
        read_counters(tmp_path / 'absent.csv', PROCESSOR)
    other = tmp_path / 'other.csv'
    other.write_text('a,b\n1,2\n', encoding='utf-8')
    with pytest.raises(CountersNotRead, match="has no header with a column 'Kernel Name'"):
        read_counters(other, PROCESSOR)
    with pytest.raises(CountersNotRead, match='lacks the columns smsp__inst_executed_op_shared_st.sum; run ncu with'):
        read_counters(write(tmp_path, columns=COLUMNS[:-1]), PROCESSOR)
    with pytest.raises(CountersNotRead, match='holds no kernels'):
        read_counters(write(tmp_path), PROCESSOR)
    torn = write(tmp_path)
    torn.write_text(torn.read_text(encoding='utf-8') + '"k,100', encoding='utf-8')
    with pytest.raises(CountersNotRead, match='is no CSV'):
        read_counters(torn, PROCESSOR)
