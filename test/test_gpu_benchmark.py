"""`make gpu` without a GPU says what it would do."""

import json
import sys

import pytest

torch = pytest.importorskip('torch')


@pytest.fixture
def gpu(load_benchmark):
    return load_benchmark('gpu')


def test_every_test_and_script_that_it_runs_is_there(gpu, repository):
    words = [word for part in gpu.PARTS for word in part.command.split()]
    scripts = [word for word in words if word.endswith('.py') or word.startswith('test/')]
    assert {*gpu.CUDA_TESTS} <= {*scripts}
    assert not [script for script in scripts if not (repository / script).exists()]


@pytest.mark.skipif(torch.cuda.is_available(), reason='a GPU is there')
def test_without_a_gpu_it_says_what_it_would_do_and_why_not(tmp_path, gpu, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['gpu.py', '--into', str(tmp_path)])
    assert gpu.main() == 0
    said = capsys.readouterr().out
    assert 'nothing was run: ' in said and all(part.name in said for part in gpu.PARTS)
    found = json.loads((tmp_path / 'summary.json').read_text())
    assert found.keys() == {part.name for part in gpu.PARTS}
    assert all(row['skipped'] for row in found.values())
