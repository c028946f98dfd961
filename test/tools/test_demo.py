"""The command `deadline-perception demo`: what it plays, and what it says when it cannot."""

import argparse
import json
from types import SimpleNamespace

import pytest
import yaml
from invented_networks import InventedNetwork
from python_run import run_python
from read_sequences import speeds_mps, stamps_ns
from recorded_run import SECOND_NS, SPACE, write_drive

from deadline_perception.core.detections import Classification
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.decision.speed_budget import TableBudget
from deadline_perception.extras.report import fixed_paths
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.runtime.loading import NetworkOptions
from deadline_perception.tools import demo


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    return parser.parse_args(words)


def test_networks_get_their_threads_without_aliases_that_ros_cannot_read():
    text = demo.parameters_text(1, {})
    aliases = (yaml.AliasToken, yaml.AnchorToken)
    assert not any(isinstance(token, aliases) for token in yaml.scan(text))
    threads = {'ros__parameters': {'threads': 1}}
    assert yaml.safe_load(text) == {'detector': threads, 'qos_scheduler': threads}


def test_budgets_of_the_drive_span_what_its_longest_path_takes_here_beside_what_lies_around():
    budgets = demo.drive_budgets(40.0)
    node = yaml.safe_load(demo.parameters_text(1, budgets))['time_budget']['ros__parameters']
    assert (node['min_budget_ms'], node['max_budget_ms']) == pytest.approx((18.0, 66.0))
    names = ('table_speeds_mps', 'table_budgets_ms', 'min_budget_ms', 'max_budget_ms')
    table = TableBudget(*(node[name] for name in names))
    found_ms = [table.budget_ms(speed).budget_ms for speed in (0.0, 4.0, 9.0, 20.5)]
    assert found_ms == sorted(found_ms, reverse=True)
    assert found_ms[:2] == pytest.approx([66.0, 66.0]) and found_ms[-1] == pytest.approx(18.0)


def test_a_source_without_speed_gets_one_and_a_long_one_is_cut(repository):
    video = repository.parent / 'shared/data' / 'highway' / 'solid_white_right.mp4'
    if not video.is_file():
        pytest.skip('the highway video is not here')
    words = ('--source', str(video), '--seconds', '2', '--load', '1')
    sequence, notes = demo.open_sequence(arguments(*words))
    assert None not in speeds_mps(sequence)
    assert stamps_ns(sequence)[-1] - stamps_ns(sequence)[0] < 2 * SECOND_NS
    assert any('left out' in note for note in notes) and any('made-up' in note for note in notes)
    assert 'Busy programs beside the nodes: 1.' in notes


@pytest.mark.parametrize(
    'words, message',
    [
        (['--model', 'nowhere.safetensors'], 'weights file nowhere.safetensors does not exist'),
        (['--source', 'nowhere'], "source 'nowhere' does not exist"),
        (['--threads', '0'], '--threads is 0, expected 1 to 1024'),
        (['--load', '-1'], '--load is -1'),
        (['--networks', '0'], '--networks is 0, expected 1 to 16'),
        (['--device', 'gpu'], "device is 'gpu', expected cpu, cuda or cuda:INDEX"),
        (['--seconds', '1'], 'weights.safetensors cannot be read as safetensors'),
    ],
)
def test_one_line_says_what_is_wrong(monkeypatch, tmp_path, refusal, words, message):
    monkeypatch.setattr(demo, 'check_ros', lambda: None)
    weights = tmp_path / 'weights.safetensors'
    weights.touch()
    assert message in refusal('demo', '--model', weights, '--out', tmp_path / 'out', *words)
    assert not (tmp_path / 'out').exists()


def test_without_ros_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setenv('PYTHONPATH', '')
    code = (
        'import sys; sys.modules["rclpy"] = None\n'
        'from deadline_perception.tools import demo\n'
        'from deadline_perception.tools.support import import_probe\n'
        'import_probe._PRELUDE += "import sys; sys.modules[\'rclpy\'] = None\\n"\n'
        'demo.check_ros()'
    )
    done = run_python('-c', code)
    assert done.returncode == 1
    for words in ('ROS 2 cannot be used here', 'make setup', 'doctor'):
        assert words in done.stderr


@pytest.mark.slow
def test_report_holds_the_run_against_fixed_paths_on_its_own_images(tmp_path, monkeypatch):
    write_drive(tmp_path / 'recording', frames=30)
    sequence, notes = demo.open_sequence(arguments('--seconds', '3'))
    network, ends = InventedNetwork(SPACE), [SPACE.smallest, SPACE.largest]
    forecast = SimpleNamespace(forecast_ms=lambda path: 1.0 + sum(path.settings))
    task = SimpleNamespace(network=network, times=SimpleNamespace(forecast=forecast))
    loaded = SimpleNamespace(task=task, kept_paths=ends)
    monkeypatch.setattr(demo, 'load_task', lambda *_: loaded)
    monkeypatch.setattr(fixed_paths, 'MOST_MS', 100.0)
    options = NetworkOptions('some')
    recording, out = tmp_path / 'recording', tmp_path / 'out'
    assert demo._report(out, recording, sequence, {}, notes, options) == 0
    fixed = json.loads((out / 'summary.json').read_text())['fixed_paths']
    assert {row['path'] for row in fixed['rows']} >= {'', *map(str, ends)}
    assert 'Beside one path for every frame' in (out / 'report.html').read_text()

    def gone(*_):
        raise DeadlinePerceptionError('the weights are gone')

    monkeypatch.setattr(demo, 'load_task', gone)
    assert demo._report(out, recording, sequence, {}, notes, options) == 0
    page = (out / 'report.html').read_text()
    assert 'could not be measured: the weights are gone' in page
    assert 'Measured: after the run' not in page
    monkeypatch.setattr(demo, 'load_task', lambda *_: loaded)
    network.result_type = Classification
    assert demo._beside_fixed_paths(options, read_recording(recording), sequence) is None
