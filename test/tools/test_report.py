"""The command `deadline-perception report`: once as a user runs it, and in this process for what it says."""

import json
import re

import pytest
from plain_images import grey
from recorded_run import NAMES, SECOND_NS, RunWriter, write_drive

from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.data.records import Frame, Sequence
from deadline_perception.tools.command_line import main


@pytest.fixture(scope='module')
def drive(tmp_path_factory):
    bag = tmp_path_factory.mktemp('drive') / 'run'
    write_drive(bag, frames=30, namespace='/robot1')
    return bag


def test_reports_a_recording_of_a_namespaced_robot_with_its_images(drive, tmp_path, says):
    frames = tuple(
        Frame(str(index), index * SECOND_NS // 10, lambda: grey(96, 160, 80)) for index in range(30)
    )
    write_bag(Sequence('plain', NAMES, frames), tmp_path / 'input.mcap')
    said = says('report', drive, '--source', tmp_path / 'input.mcap', '--out', tmp_path / 'out')
    assert 'images sent' in said and 'Report:' in said
    assert json.loads((tmp_path / 'out/summary.json').read_text())['frames_sent'] == 30
    assert (tmp_path / 'out/report.html').read_text().count('img src="data:image/jpeg') == 8


def test_says_in_one_line_what_is_wrong_with_recordings_and_folder(tmp_path, refusal):
    with RunWriter(tmp_path / 'camera') as writer:
        writer.camera(SECOND_NS)
    for bag, words in (('absent', 'does not exist'), ('camera', 'holds no deadline_perception')):
        assert words in refusal('report', tmp_path / bag, '--out', tmp_path / 'out')
    said = refusal('report', 'a', 'b', 'c', '--out', tmp_path / 'out')
    assert 'report: there are 3 recordings, expected one, or two to show beside each other' in said
    assert not (tmp_path / 'out').exists()
    (tmp_path / 'out').touch()
    assert refusal('report', tmp_path / 'absent', '--out', tmp_path / 'out') == (
        f'deadline-perception report: --out is {tmp_path / "out"}, which is a file; expected a folder\n'
    )


def test_a_recording_that_was_cut_off_is_reported_up_to_there(tmp_path, capsys):
    write_drive(tmp_path / 'run', frames=300)
    file = tmp_path / 'run/run.mcap'
    with file.open('r+b') as stream:
        stream.truncate(file.stat().st_size * 95 // 100)  # within the second of two chunks
    assert main(['report', str(file), '--out', str(tmp_path / 'out')]) == 0
    said = capsys.readouterr()
    words = 'run.mcap was cut off or damaged; the [0-9]+ messages of its first [0-9.]+ s are read'
    sentence = re.search(words, said.out.replace('\n', ' '))
    assert said.err == ''
    assert sentence and sentence[0] in (tmp_path / 'out/report.html').read_text()
    assert 100 < json.loads((tmp_path / 'out/summary.json').read_text())['frames_delivered'] < 300


def test_two_recordings_are_shown_beside_each_other(drive, tmp_path, says):
    write_drive(tmp_path / 'other', frames=20)
    out = tmp_path / 'out'
    said = says('report', drive, tmp_path / 'other', '--out', out)
    assert re.search('images sent +│ +30 │ +20 │ +-10 ', said)
    assert f'A: {drive}\nB: {tmp_path / "other"}\nReport: {out / "report.html"}' in said
    assert list(json.loads((out / 'summary.json').read_text())) == ['A', 'B']


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv('COLUMNS', '200')
