"""Counts of layers from a hardware profiler instead of from geometry.

The file is what `ncu --page raw --csv --metrics ...` prints for a network's kernels: a header, a row of units, a row
per kernel. Needed columns, with the term of the interval model (multi-path paper, table II) that they give:

    Kernel Name                              name of the layer where there is no column `layer`
    sm__cycles_elapsed.max                   C_total
    smsp__inst_executed.sum                  all instructions of all warps; computations are what is left of them
    smsp__inst_executed_op_global_ld.sum     N_load of the memory      smsp__inst_executed_op_global_st.sum  N_store
    smsp__inst_executed_op_shared_ld.sum     N_load of shared memory   smsp__inst_executed_op_shared_st.sum  N_store

A column `layer`, added by hand, names the layer that a kernel belongs to: kernels of one layer are added up. Rows of
the same layer from several runs carry different values in a column `run`. Other columns are ignored.
"""
from __future__ import annotations

import csv
import math
from pathlib import Path

from deadline_perception.core.errors import DeadlinePerceptionError
from interval_fit import MeasuredLayer
from interval_model import LayerCounts, Processor

_NAME = 'Kernel Name'
_CYCLES = 'sm__cycles_elapsed.max'
_INSTRUCTIONS = 'smsp__inst_executed.sum'
_ACCESSES = ('smsp__inst_executed_op_global_ld.sum', 'smsp__inst_executed_op_global_st.sum',
             'smsp__inst_executed_op_shared_ld.sum', 'smsp__inst_executed_op_shared_st.sum')
COLUMNS = (_NAME, _CYCLES, _INSTRUCTIONS, *_ACCESSES)


class CountersNotRead(DeadlinePerceptionError):
    """A profiler's file is missing, lacks a column, or holds a value that is no count."""


def read_counters(file: Path, processor: Processor) -> dict[str, MeasuredLayer]:
    """Layers with their counts and times, by name, in the order of the file.

    Args:
        file: CSV as described above.
        processor: converts cycles to ms.

    Raises:
        CountersNotRead: the file cannot be read, is no such CSV, or holds a bad value; names line and column.
    """
    totals: dict[str, dict[str, list[float]]] = {}
    for line, row in _rows(Path(file)):
        values = [_count(row, column, file, line) for column in COLUMNS[1:]]
        runs = totals.setdefault(row.get('layer') or row[_NAME], {})
        run = runs.setdefault(row.get('run') or '', [0.0] * len(values))
        for i, value in enumerate(values):
            run[i] += value
    if not totals:
        raise CountersNotRead(f'{file} holds no kernels, expected a row for each after the header')
    return {name: _layer(name, list(runs.values()), file, processor) for name, runs in totals.items()}


def _rows(file: Path) -> list[tuple[int, dict[str, str]]]:
    """Line numbers and rows, without the profiler's own messages before the header and the row of units after it."""
    try:
        lines = file.read_text(encoding='utf-8').splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CountersNotRead(f'{file} cannot be read: {error}') from error
    start = next((i for i, line in enumerate(lines) if _NAME in line), None)
    if start is None:
        raise CountersNotRead(f'{file} has no header with a column {_NAME!r}, expected the CSV of '
                              f'`ncu --page raw --csv`')
    reader = csv.DictReader(lines[start:], strict=True)
    missing = [column for column in COLUMNS if column not in reader.fieldnames]
    if missing:
        raise CountersNotRead(f'{file} lacks the columns {", ".join(missing)}; run ncu with --metrics '
                              f'{",".join(COLUMNS[1:])}')
    try:
        return [(start + reader.line_num, row) for row in reader if row[_NAME]]  # the row of units names no kernel
    except csv.Error as error:
        raise CountersNotRead(f'{file} line {start + reader.line_num} is no CSV: {error}') from error


def _count(row: dict[str, str | None], column: str, file: Path, line: int) -> float:
    text = (row[column] or '').replace(',', '')  # ncu groups thousands
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise CountersNotRead(f'{file} line {line}: {column} is {row[column]!r}, expected a count of at least 0')
    return value


def _layer(name: str, runs: list[list[float]], file: Path, processor: Processor) -> MeasuredLayer:
    """Counts of the run with the most instructions, mean and longest time of all."""
    _, instructions, *accesses = max(runs, key=lambda run: run[1])
    loads, stores = accesses[0] + accesses[2], accesses[1] + accesses[3]
    if instructions < loads + stores:
        raise CountersNotRead(f'{file}: layer {name!r} has {instructions:.0f} instructions, expected at least its '
                              f'{loads + stores:.0f} loads and stores')
    times_ms = [processor.ms(run[0]) for run in runs]
    if min(times_ms) <= 0:
        raise CountersNotRead(f'{file}: layer {name!r} takes 0 cycles in {_CYCLES}, expected more')
    return MeasuredLayer(LayerCounts(instructions - loads - stores, loads, stores, *accesses),
                         mean_ms=min(sum(times_ms) / len(times_ms), max(times_ms)), worst_ms=max(times_ms))
