"""Hostile files: some of every kind in each run of the tests, and what the benchmark calls fine."""

import faulthandler
import json
import os
import sys
from pathlib import Path

import pytest
from python_run import run_python

pytest.importorskip('torch')
pytest.importorskip('openvino')


@pytest.mark.slow
def test_some_files_of_every_kind_are_read_or_refused(repository, tmp_path):
    out = tmp_path / 'hostile.json'
    done = run_python(repository / 'benchmarks/hostile.py', '--quick', '--out', out, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads(out.read_text())
    assert content['files'] == len(content['cases']) >= 33 and content['not_fine'] == 0
    whole = [case for case in content['cases'] if case['name'] == 'as it should be']
    assert {case['end'] for case in whole} == {'read'}
    kinds = 'set coco weights pth bag image video network speeds calibration'.split()
    assert {case['kind'] for case in whole} == {*kinds}


@pytest.mark.parametrize(
    ('act', 'end'),
    [
        (lambda file: None, 'read'),
        (lambda file: int('x'), 'refused'),
        (lambda file: {}['x'], 'not caught: KeyError'),
        # pytest's own handler of faults would print a stack into a run that passes
        (lambda file: (faulthandler.disable(), os.abort()), 'ended by signal 6'),
        (lambda file: print('set: one', file=sys.stderr) or int('x'), 'not caught'),
        (lambda file: print('set: \x1b[2J', file=sys.stderr) or os._exit(1), 'not printable'),
        (lambda file: (file.parent / 'code_was_run').touch(), 'ran code'),
        (lambda file: bytearray(250 * 2**20), 'took 2'),
        (lambda file: sum(iter(int, 1)), 'took too long'),
    ],
    ids='read refused uncaught aborts two-lines controls code memory endless'.split(),
)
def test_a_reader_that_fails_is_told(load_benchmark, tmp_path, monkeypatch, act, end):
    hostile = load_benchmark('hostile')
    monkeypatch.setattr(hostile, 'PROCESSOR_S', 1 if end == 'took too long' else 30)
    monkeypatch.setattr(hostile, 'MOST_MB', 100)
    (tmp_path / 'files').mkdir()
    case = hostile.Case('set', 'a case', tmp_path / 'files' / 'file')
    case.file.touch()
    verdict = hostile.try_case(case, act, tmp_path)
    assert verdict.end.startswith(end) or end in verdict.end, verdict
    assert verdict.fine == (end in ('read', 'refused'))
    assert Path(tmp_path / 'printed').exists()
