"""The command as a process, on tasks of invented networks."""

from pathlib import Path

import numpy as np
import pytest
import schedule_tasks
import yaml
from invented_networks import make_classifier, make_magnifier
from measurable_network import run_command

from deadline_perception.timing.profile import measure_profile
from deadline_perception.tools.command_line import run_alone

IMAGE = np.zeros((48, 64, 3), np.uint8)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('schedule')
    tasks = {}
    for name, make in (('front', make_magnifier), ('side', make_classifier)):
        profile = measure_profile(make(), [IMAGE], repeats=3, whole_paths=2, path_repeats=2)
        profile.save(folder / f'{name}.json')
        tasks[name] = {
            'model': f'invented_networks:{make.__name__}',
            'periods_ms': [1000, 3000],
            'profile': str(folder / f'{name}.json'),
        }
    (folder / 'tasks.yaml').write_text(yaml.safe_dump({'tasks': tasks}))
    return folder


def run(folder, repository, *words):
    environment = {'PYTHONPATH': str(repository / 'test'), 'COLUMNS': '150'}
    script = Path(schedule_tasks.__file__)
    return run_command(*words, script=script, cwd=folder, environment=environment)


@pytest.mark.slow
def test_prints_a_schedule(folder, repository):
    done = run(folder, repository, 'tasks.yaml')
    assert done.returncode == 0, done.stderr
    for words in ('front', 'side', 'no selection is better by more than 0.00%'):
        assert words in done.stdout


@pytest.mark.parametrize(
    ('words', 'expected'),
    [
        (('tasks.yaml', '--slowdown', '100000'), 'schedule_tasks: cpu: no option of task'),
        (('missing.yaml',), 'missing.yaml cannot be read'),
    ],
)
def test_what_does_not_fit_is_one_line(folder, monkeypatch, capsys, words, expected):
    monkeypatch.chdir(folder)
    assert run_alone(schedule_tasks, words) == 1
    said = capsys.readouterr().err
    assert expected in said and said.count('\n') == 1
