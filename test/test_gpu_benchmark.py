"""`make gpu` without a GPU says what it would do; what it does with each part is shown on parts that need none."""

from __future__ import annotations

import json
import sys

import pytest

torch = pytest.importorskip('torch')


@pytest.fixture
def gpu(load_benchmark):
    return load_benchmark('gpu')


def test_every_test_and_script_that_it_runs_is_there(gpu, repository):
    words = [word for part in gpu.PARTS for word in part.command]
    scripts = [word for word in words if word.endswith('.py') or word.startswith('test/')]
    assert {*gpu.CUDA_TESTS} <= {*scripts}
    assert not [script for script in scripts if not (repository / script).exists()]


@pytest.mark.skipif(torch.cuda.is_available(), reason='a GPU is there')
def test_without_a_gpu_it_says_what_it_would_do_and_why_it_does_not(
    tmp_path, gpu, monkeypatch, capsys
):
    monkeypatch.setattr(sys, 'argv', ['gpu.py', '--into', str(tmp_path)])
    assert gpu.main() == 0
    said = capsys.readouterr().out
    assert 'nothing was run: ' in said and all(part.name in said for part in gpu.PARTS)
    found = json.loads((tmp_path / 'summary.json').read_text())
    assert found.keys() == {part.name for part in gpu.PARTS} and all(
        row['skipped'] for row in found.values()
    )


def test_a_part_that_fails_or_hangs_is_noted_and_one_that_is_done_is_not_run_again(
    gpu, tmp_path, monkeypatch
):
    monkeypatch.setattr(gpu, 'LIMIT_S', 5.0)
    parts = {
        name: gpu.Part(name, 'shows', ('-c', code), 1)
        for name, code in (('good', 'print("well {into}")'), ('bad', 'raise SystemExit(3)'))
    }
    for part in parts.values():
        gpu.note(tmp_path, part.name, gpu.run(part, tmp_path))
    monkeypatch.setattr(gpu, 'LIMIT_S', 0.2)
    slow = gpu.Part('slow', 'shows', ('-c', 'import time; time.sleep(60)'), 1)
    gpu.note(tmp_path, 'slow', gpu.run(slow, tmp_path))
    found = gpu.summary(tmp_path)
    assert {name: row['status'] for name, row in found.items()} == {
        'good': 0,
        'bad': 3,
        'slow': 124,
    }
    assert 'was ended' in found['slow']['why']
    assert (tmp_path / 'good.log').read_text() == f'well {tmp_path}\n'
    for part, reason in gpu.planned([*parts.values()], tmp_path, 'the GPU is gone'):
        gpu.note(tmp_path, part.name, {'skipped': reason})
    found = gpu.summary(tmp_path)
    assert found['good']['status'] == 0 and found['bad'] == {'skipped': 'the GPU is gone'}
