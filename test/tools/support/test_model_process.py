import os
import subprocess
import sys

import pytest
from waiting import wait

from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.tools.support import model_process
from deadline_perception.tools.support.model_process import ask


def runs(monkeypatch, code: str) -> None:
    """The process runs these lines in place of a module."""
    monkeypatch.setattr(
        model_process, 'module_command', lambda module, folder: [sys.executable, '-c', code, folder]
    )


@pytest.mark.parametrize(
    'code, said',
    [
        ('import os; os.abort()', r'yolo ended the process that loaded it \(status -6\)'),
        ('import sys; sys.exit("a\\x1b[31m reason")', r'\(status 1, a\\x1b\[31m reason\)'),
        ('pass', r'yolo ended the process that loaded it \(status 0\)'),
        (
            'import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 5))\nwhile True: pass',
            'yolo took all the processor time that it may take',
        ),
        ('while True: pass', 'yolo gave no result within 2 s'),
    ],
)
def test_a_process_that_ends_or_hangs_is_told(monkeypatch, code, said):
    runs(monkeypatch, code)
    limit_s = 2.0 if code.startswith('while') else 120.0
    with pytest.raises(ModelError, match=said) as error:
        ask('support.model_probe', {}, {}, 'yolo', limit_s)
    assert str(error.value).isprintable()


def test_the_process_does_not_outlive_the_one_that_asked(tmp_path):
    """SIGKILL of adopt left it behind."""
    place = tmp_path / 'pid'
    work = f'import os, time; open({str(place)!r}, "w").write(str(os.getpid())); time.sleep(600)'
    asks = (
        'from deadline_perception.tools.support import model_process\n'
        f'model_process.module_command = lambda module, folder: [{sys.executable!r}, "-c", {work!r}, folder]\n'
        'model_process.ask("support.model_probe", {}, {}, "yolo", 600.0)'
    )
    asking = subprocess.Popen([sys.executable, '-c', asks], stdin=subprocess.DEVNULL)
    try:
        wait(lambda: place.exists() and place.read_text(), 'the process')
    finally:
        asking.kill()
        asking.wait()
    wait(lambda: not os.path.exists(f'/proc/{place.read_text()}'), 'its end')
