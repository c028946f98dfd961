"""System calls and allocations that fail by turn: some write paths in each run, and what the benchmark finds wrong."""

import json
import shutil

import pytest
from python_run import run_python

pytest.importorskip('torch')
needs_compiler = pytest.mark.skipif(shutil.which('cc') is None, reason='needs a C compiler')
BEFORE, AFTER = {'a': b'old'}, {'a': b'new'}


@pytest.mark.slow
@needs_compiler
def test_whatever_call_fails_files_are_the_old_or_the_new_ones(repository, tmp_path):
    out = tmp_path / 'failing_calls.json'
    done = run_python(
        repository / 'benchmarks' / 'failing_calls.py', '--quick', '--out', out, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads(out.read_text())
    assert content['wrong'] == 0 and content['tried'] >= 250
    assert content['allocations_tried'] == 20 * len(content['paths'])
    calls = {call for row in content['paths'] for call in row['kinds']}
    assert {'write', 'fsync', 'rename', 'flock', 'mkdir', 'close'} <= calls


@pytest.mark.parametrize(
    ('status', 'words', 'found', 'wrong'),
    [
        (0, '', AFTER, ''),
        (1, 'act: a cannot be written', BEFORE, ''),
        (1, 'act: a cannot be written', AFTER, ''),
        (0, '', BEFORE, 'nothing is told'),
        (70, 'Traceback\nKeyError: 1', BEFORE, 'not caught: KeyError'),
        (1, 'act: one\nact: two', BEFORE, 'no line'),
        (1, 'act: a', {}, 'lost: a'),
        (1, 'act: a', {'a': b'ne'}, 'half written: a'),
        (1, 'act: a', {'a': b''}, 'half written: a'),
        (1, 'act: a', {**BEFORE, '.a.partial': b''}, 'left behind'),
        (1, 'act: a', {**BEFORE, '.a.part': None}, 'left behind'),
        (1, 'act: a', {**BEFORE, 'folder': None}, ''),
    ],
)
def test_what_is_not_whole_is_called_wrong(load_benchmark, status, words, found, wrong):
    benchmark = load_benchmark('failing_calls')
    path = benchmark.WritePath('a', lambda folder: None)
    said = benchmark.problem(path, status, words, BEFORE, AFTER, found)
    assert said.startswith(wrong) and bool(said) == bool(wrong)
