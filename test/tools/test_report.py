"""The command `deadline-perception report`, run as a user runs it."""
from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from recorded_run import NAMES, SECOND_NS, RunWriter, write_drive

from deadline_perception.datasets.bag import write_bag
from deadline_perception.datasets.records import Frame, Sequence

COMMAND = [sys.executable, '-m', 'deadline_perception.tools.command_line', 'report']


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope='module')
def drive(tmp_path_factory):
    bag = tmp_path_factory.mktemp('drive') / 'run'
    write_drive(bag, frames=30, namespace='/robot1')
    return bag


def test_reports_a_recording_of_a_namespaced_robot_with_its_images(drive, tmp_path):
    frames = tuple(Frame(str(index), index * SECOND_NS // 10, lambda: np.full((96, 160, 3), 80, np.uint8))
                   for index in range(30))
    write_bag(Sequence('plain', NAMES, frames), tmp_path / 'input.mcap')
    done = run(drive, '--source', tmp_path / 'input.mcap', '--out', tmp_path / 'out')
    assert (done.returncode, done.stderr) == (0, '')
    assert 'images sent' in done.stdout and 'Report:' in done.stdout
    assert json.loads((tmp_path / 'out' / 'summary.json').read_text())['frames_sent'] == 30
    assert (tmp_path / 'out' / 'report.html').read_text().count('data:image/jpeg') == 8


def test_says_in_one_line_what_is_wrong_with_the_recording(tmp_path):
    with RunWriter(tmp_path / 'camera') as writer:
        writer.camera(SECOND_NS)
    for bag, words in ((tmp_path / 'absent', 'does not exist'), (tmp_path / 'camera', 'holds no deadline_perception')):
        done = run(bag, '--out', tmp_path / 'out')
        assert done.returncode == 1 and words in done.stderr
        assert done.stderr.count('\n') == 1 and done.stderr.startswith('deadline-perception report: ')
    assert not (tmp_path / 'out').exists()


def test_a_file_in_the_place_of_the_report_is_told_before_the_recording_is_read(tmp_path):
    (tmp_path / 'out').touch()
    done = run(tmp_path / 'absent', '--out', tmp_path / 'out')
    assert (done.returncode, done.stderr) == (1, f'deadline-perception report: --out is {tmp_path / "out"}, which is a '
                                                 f'file; expected a folder\n')
