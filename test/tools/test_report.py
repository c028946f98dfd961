"""The command `deadline-perception report`: once as a user runs it, and in this process for what it says."""
from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mcap.writer import Writer
from measurable_network import run_command
from recorded_run import NAMES, SECOND_NS, RunWriter, write_drive

from deadline_perception.datasets.bag import write_bag
from deadline_perception.datasets.bag_file import BagFile
from deadline_perception.datasets.records import Frame, Sequence
from deadline_perception.evaluation.recorded_bag import read_recording
from deadline_perception.evaluation.summary import summarise
from deadline_perception.tools.command_line import main
from deadline_perception.tools.report import print_closing_table

@pytest.fixture
def report(capsys):
    """Runs the command in this process."""
    def run_here(*arguments) -> SimpleNamespace:
        status, said = main(['report', *map(str, arguments)]), capsys.readouterr()
        return SimpleNamespace(returncode=status, stdout=said.out, stderr=said.err)

    return run_here


@pytest.fixture(scope='module')
def drive(tmp_path_factory):
    bag = tmp_path_factory.mktemp('drive') / 'run'
    write_drive(bag, frames=30, namespace='/robot1')
    return bag


def test_reports_a_recording_of_a_namespaced_robot_with_its_images(drive, tmp_path):
    frames = tuple(Frame(str(index), index * SECOND_NS // 10, lambda: np.full((96, 160, 3), 80, np.uint8))
                   for index in range(30))
    write_bag(Sequence('plain', NAMES, frames), tmp_path / 'input.mcap')
    done = run_command('report', drive, '--source', tmp_path / 'input.mcap', '--out', tmp_path / 'out')
    assert (done.returncode, done.stderr) == (0, '')
    assert 'images sent' in done.stdout and 'Report:' in done.stdout
    assert json.loads((tmp_path / 'out' / 'summary.json').read_text())['frames_sent'] == 30
    assert (tmp_path / 'out' / 'report.html').read_text().count('data:image/jpeg') == 8


def test_says_in_one_line_what_is_wrong_with_the_recording(tmp_path, report):
    with RunWriter(tmp_path / 'camera') as writer:
        writer.camera(SECOND_NS)
    for bag, words in ((tmp_path / 'absent', 'does not exist'), (tmp_path / 'camera', 'holds no deadline_perception')):
        done = report(bag, '--out', tmp_path / 'out')
        assert done.returncode == 1 and words in done.stderr
        assert done.stderr.count('\n') == 1 and done.stderr.startswith('deadline-perception report: ')
    assert not (tmp_path / 'out').exists()


def test_a_recording_that_was_cut_off_is_reported_up_to_there(tmp_path, report):
    file = tmp_path / 'run.mcap'
    write_long_recording(file)
    with file.open('r+b') as stream:
        stream.truncate(file.stat().st_size * 2 // 3)
    done = report(file, '--out', tmp_path / 'out')
    assert (done.returncode, done.stderr) == (0, '')
    sentence = re.search('run.mcap was cut off or damaged; the [0-9]+ messages of its first [0-9.]+ s are read',
                         done.stdout.replace('\n', ' '))
    assert sentence and sentence[0] in (tmp_path / 'out' / 'report.html').read_text()
    assert 100 < json.loads((tmp_path / 'out' / 'summary.json').read_text())['frames_delivered'] < 300


def write_long_recording(file):
    """Small chunks, as those of a recorder that flushes by time."""
    write_drive(file.with_suffix(''), frames=300)
    inner = BagFile(file.with_suffix(''))
    with file.open('wb') as stream:
        writer = Writer(stream, chunk_size=5000)
        writer.start('ros2')
        channels = {}
        for topic, msgtype, time_ns, raw in inner.messages({topic.name for topic in inner.topics}):
            if topic not in channels:
                definition = inner.store.generate_msgdef(msgtype, ros_version=2)[0].encode()
                channels[topic] = writer.register_channel(
                    topic, 'cdr', writer.register_schema(msgtype, 'ros2msg', definition), {'offered_qos_profiles': ''})
            writer.add_message(channels[topic], time_ns, raw, time_ns)
        writer.finish()


@pytest.mark.parametrize('content', [b'\x89MCAP0\r\n', b'\x89MCAP0\r\n' + bytes(300)])
def test_an_mcap_of_nothing_but_its_magic_is_refused_in_one_line(tmp_path, report, content):
    (tmp_path / 'run.mcap').write_bytes(content)
    done = report(tmp_path / 'run.mcap', '--out', tmp_path / 'out')
    assert done.returncode == 1 and done.stderr.count('\n') == 1
    assert 'run.mcap cannot be read as a ROS 2 bag and holds no whole message' in done.stderr


def test_a_file_in_the_place_of_the_report_is_told_before_the_recording_is_read(tmp_path, report):
    (tmp_path / 'out').touch()
    done = report(tmp_path / 'absent', '--out', tmp_path / 'out')
    assert (done.returncode, done.stderr) == (1, f'deadline-perception report: --out is {tmp_path / "out"}, which is a '
                                                 f'file; expected a folder\n')


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv('COLUMNS', '160')


def test_shows_the_account_of_frames_and_where_the_report_lies(tmp_path, capsys):
    write_drive(tmp_path / 'run', frames=40)
    print_closing_table(summarise(read_recording(tmp_path / 'run'), {}), Path('out/report.html'))
    shown = capsys.readouterr().out
    assert '39 delivered, 1 replaced by a newer one, 0 lost' in shown
    assert shown.rstrip().endswith('Report: out/report.html')


def test_a_run_without_ground_truth_and_stamps_has_dashes_instead_of_figures(tmp_path, capsys):
    with RunWriter(tmp_path / 'run') as run:
        run.latency(0, total_ms=float('nan'), feasible=False)
        run.camera(SECOND_NS)
    print_closing_table(summarise(read_recording(tmp_path / 'run'), {}), Path('report.html'))
    shown = capsys.readouterr().out
    assert 'no ground truth' in shown and 'latency' not in shown
