"""The lines of Python on the first screen of the README run as they stand."""

import re
import shutil

import numpy as np
import pytest

from deadline_perception.deadline_detector import DeadlineDetector


def snippets(text: str) -> list[str]:
    return re.findall(r'^```python\n(.*?)```', text, re.M | re.S)


@pytest.fixture
def small_street(tmp_path, monkeypatch, repository):
    """A package whose `street` is a network that is ready within a second."""
    from prepared_network import write_small

    (tmp_path / 'models').mkdir()
    (tmp_path / 'config').mkdir()
    shutil.copy(repository / 'config' / 'photograph.jpg', tmp_path / 'config')
    write_small(tmp_path / 'models').rename(tmp_path / 'models' / 'street.safetensors')
    monkeypatch.setattr('deadline_perception.deadline_detector.share_folder', lambda: tmp_path)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))


def test_the_first_screen_runs(small_street, repository, capsys):
    (snippet,) = snippets((repository / 'README.md').read_text())
    assert (repository / 'README.md').read_text().index(snippet) < 1500
    names = {'image_bgr': np.full((48, 64, 3), 90, np.uint8)}
    snippet = snippet.replace('budget_ms=50.0', 'budget_ms=20_000.0')  # a busy machine
    exec(compile(snippet, 'README.md', 'exec'), names)
    names['detector'].close()
    assert names['answer'].in_time and capsys.readouterr().out.endswith('True\n')


def test_the_page_on_the_api_runs(small_street, repository):
    blocking, recording, stream = snippets((repository / 'docs' / 'python_api.md').read_text())
    names = {'image_bgr': np.full((48, 64, 3), 90, np.uint8), 'stamp_ns': 1, 'budget_ms': 20_000.0}
    exec(compile(blocking, 'python_api.md', 'exec'), names)
    assert names['answer'].budget_ms == 50.0
    answers = []
    with DeadlineDetector('street') as detector:
        frames = [names['image_bgr']] * 2
        exec(compile(recording, 'python_api.md', 'exec'), {'detector': detector, 'frames': frames})
        names |= {'detector': detector, 'on_answer': answers.append}
        exec(compile(stream, 'python_api.md', 'exec'), names)
    assert len(answers) == 1 and answers[0].in_time
