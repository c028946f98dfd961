"""The command `deadline-perception doctor`."""

import argparse
import json
import os
import sys

import pytest
from python_run import run_python

from deadline_perception.tools import doctor
from deadline_perception.tools.support.environment_checks import Finding, State, check_device

GOOD = Finding('ROS 2', State.FINE, 'jazzy [Errno 2] is no markup')
NOTED = Finding('clocks', State.NOTE, 'governor powersave', 'sudo cpupower frequency-set')
BAD = Finding('torch', State.MISSING, 'not installed', 'make setup')


@pytest.mark.parametrize('findings, status', [([GOOD, NOTED], 0), ([GOOD, BAD, NOTED], 1)])
def test_status_says_whether_the_demo_can_run(monkeypatch, capsys, findings, status):
    monkeypatch.setattr(doctor, 'examine_machine', lambda: findings)
    assert doctor.run(argparse.Namespace(json=True, camera='')) == status
    shown = json.loads(capsys.readouterr().out)
    assert shown['ready'] == (status == 0)
    assert [row['state'] for row in shown['findings']] == [one.state.value for one in findings]
    with pytest.raises(ValueError, match="--camera is 'a b', expected a topic such as /camera"):
        doctor.run(argparse.Namespace(json=True, camera='a b'))
    monkeypatch.setattr(os, 'getloadavg', lambda: (99.0, 0.0, 0.0))
    assert 'busy' in check_device()[0].remedy


@pytest.mark.parametrize('with_rich', [True, False])
def test_table_shows_every_finding_and_remedy(monkeypatch, capsys, with_rich):
    if not with_rich:
        monkeypatch.setitem(sys.modules, 'rich.console', None)
    doctor.print_table([GOOD, NOTED, BAD])
    shown = capsys.readouterr().out
    for words in ('[Errno 2]', 'governor powersave', 'cpupower', 'missing', '-> make setup'):
        assert words in shown


@pytest.mark.slow
def test_tells_about_this_machine(repository):
    shown = run_python(
        '-m', 'deadline_perception.tools.command_line', 'doctor', '--json', cwd=repository
    )
    answer = json.loads(shown.stdout)
    assert shown.returncode == (0 if answer['ready'] else 1), shown.stderr
    states = {row['topic']: row['state'] for row in answer['findings']}
    topics = 'Python,ROS 2,message types,torch,CUDA,clocks,environment,weights,latency profile'
    assert set(topics.split(',')) <= set(states)
    assert states['Python'] == states['torch'] == states['libraries'] == 'fine'
    assert all(row['remedy'] for row in answer['findings'] if row['state'] != 'fine')


@pytest.mark.slow
def test_works_without_any_library(tmp_path, repository):
    """The command's own process sees the standard library and the source tree: no NumPy, no rich."""
    code = (
        f'import sys; sys.path.insert(0, {str(repository)!r})\n'
        'from deadline_perception.tools.command_line import main; sys.exit(main(["doctor"]))'
    )
    shown = run_python('-I', '-S', '-c', code, cwd=tmp_path, env={'PATH': '/usr/bin:/bin'})
    assert shown.returncode == 1, shown.stderr
    assert shown.stderr == ''
    assert 'not installed: opencv-python-headless' in shown.stdout
