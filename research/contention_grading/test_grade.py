"""The command `grade` as a process: a real small network beside a real program and real units, and wrong arguments."""

import os
import sys
from pathlib import Path

import grade as grade_module
import pytest
from levels import ContentionGrading
from measurable_network import run_command

from deadline_perception.core.device import DEFAULT_THREADS, process_environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def grade(measurable_weights):
    """Runs the command on a small network, by default with the settings that it needs."""

    def run(*words, environment=process_environment(DEFAULT_THREADS)):
        return run_command(
            '--weights',
            measurable_weights,
            '--source',
            'drive:seed=1,seconds=0.5',
            *words,
            script=Path(grade_module.__file__),
            environment=environment,
        )

    return run


@pytest.fixture(scope='module')
def graded(grade, tmp_path_factory):
    folder = tmp_path_factory.mktemp('graded')
    run = grade(
        *(
            '--seconds 2 --most-units 1 --unit-seconds 0.1 --contention bursts --priority off'
        ).split(),
        environment={'XDG_CACHE_HOME': str(folder)},
    )
    assert run.returncode == 0, run.stderr
    return run, folder


def test_writes_levels_and_their_picture_where_the_user_keeps_them(graded):
    run, folder = graded
    (file,) = (folder / 'deadline_perception' / 'levels').glob('measurable-*-t2.json')
    grading = ContentionGrading.load(file)
    assert f'wrote {file} and {file.with_suffix(".png")}' in run.stdout.replace('\n', '')
    assert file.with_suffix('.png').read_bytes().startswith(b'\x89PNG')
    assert grading.config_name == 'measurable'
    assert grading.beside == 'units (bursts)'
    assert len(grading.delays_ms) >= 20
    assert {tuple(delay.units.items()) for delay in grading.unit_delays} >= {(), (('core', 1),)}
    assert all(level.slowdown >= 1.0 and level.units is not None for level in grading.levels)
    assert 'of contention beside units (bursts)' in run.stdout and 'slowdown' in run.stdout


def test_grades_beside_a_command_and_ends_it_with_delays_beside_units_from_before(
    graded, grade, tmp_path
):
    (file,) = (graded[1] / 'deadline_perception' / 'levels').glob('*.json')
    mark = tmp_path / 'mark'
    code = f'import os, time; open({str(mark)!r}, "w").write(str(os.getpid())); time.sleep(300)'
    run = grade(
        *f'--seconds 3 --reuse {file} --out {tmp_path / "levels.json"} -- {sys.executable} -c'.split(),
        code,
    )
    assert run.returncode == 0, run.stderr
    grading = ContentionGrading.load(tmp_path / 'levels.json')
    assert grading.unit_delays == ContentionGrading.load(file).unit_delays
    assert grading.beside == os.path.basename(sys.executable)
    assert not os.path.exists(f'/proc/{int(mark.read_text())}')


def test_a_command_that_fails_and_a_file_of_another_path_are_told_in_one_line(
    graded, grade, measurable_weights, monkeypatch, refusal
):
    (file,) = (graded[1] / 'deadline_perception' / 'levels').glob('*.json')
    run = grade('--seconds', 60, '--', sys.executable, '-c', 'raise SystemExit(3)')
    assert run.returncode == 1 and 'ended with status 3 after' in run.stderr.splitlines()[-1]
    monkeypatch.setattr(grade_module, 'restart_with_environment', lambda threads: None)
    assert 'of the network measurable on the path' in refusal(
        grade_module,
        '--weights',
        measurable_weights,
        '--reuse',
        file,
        '--path',
        ContentionGrading.load(file).path.replace('w1.00', 'w0.25'),
    )


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (('--seconds', '0'), '--seconds is 0.0, expected 0.5 to 86400'),
        (('--seconds', 'nan'), '--seconds is nan'),
        (('--most-units', '0'), '--most-units is 0'),
        (('--unit-seconds', '-1'), '--unit-seconds is -1.0'),
        (('--contention', 'waves'), 'contention schedule waves cannot be read'),
        (('--contention', 'steps', '--', 'sleep', '1'), '--contention is steps and the command'),
        (('--', 'no-such-program'), "program 'no-such-program' is not found"),
        (('--reuse', 'none.json'), 'contention levels none.json cannot be read'),
        (('--weights', 'none.safetensors'), 'weights file none.safetensors does not exist'),
        (('--out', '/proc/version/levels.json'), '--out is /proc/version/levels.json'),
    ],
)
def test_wrong_arguments_are_told_in_one_line(monkeypatch, refusal, arguments, message):
    monkeypatch.setattr(grade_module, 'restart_with_environment', lambda threads: None)
    assert message in refusal(grade_module, *arguments)
