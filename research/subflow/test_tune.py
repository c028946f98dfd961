"""The command tune as a user calls it: on weights that learn and on weights that do not."""

import itertools
from pathlib import Path

import made_up_elastic
import pytest
import torch
import tune as tune_module
from annotated_images import write_class_folders

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.elastic.checkpoint import load_elastic, save_elastic
from deadline_perception.extras.elastic.elastic import elastic
from deadline_perception.extras.elastic.network import ElasticNetwork
from deadline_perception.extras.elastic.source import CALLABLES, NetworkSource
from deadline_perception.tools.command_line import run_alone
from deadline_perception.tools.elastic_data import read_data, score_paths
from deadline_perception.tools.support.stop_request import StopRequest

pytestmark = pytest.mark.slow
CLASSES = ('bright', 'dark')


@pytest.fixture(scope='module')
def data(tmp_path_factory) -> Path:
    return write_class_folders(tmp_path_factory.mktemp('images'), 8)


@pytest.fixture
def weights(tmp_path, monkeypatch) -> Path:
    """An elastic network that has learnt nothing."""
    monkeypatch.setenv(CALLABLES, 'made_up_elastic:two_classes')
    torch.manual_seed(0)
    source = NetworkSource('made_up_elastic:two_classes', CLASSES, (8, 8))
    inputs = source.example_inputs, made_up_elastic.images()
    module = elastic(source.ordinary(), *inputs, settings=(0.25, 0.5, 1.0))
    save_elastic(ElasticNetwork(module, source), tmp_path / 'net.safetensors')
    return tmp_path / 'net.safetensors'


@pytest.fixture
def tune(weights, data, monkeypatch):
    """Runs the command in this process; returns its exit status."""
    monkeypatch.setenv('DEADLINE_PERCEPTION_RESTARTED', '1')
    return lambda *words: run_alone(
        tune_module, ['--weights', str(weights), '--data', str(data), *words]
    )


def test_better_weights_replace_those_before(tune, weights, data, monkeypatch, capsys):
    asked = itertools.count()
    monkeypatch.setattr(StopRequest, '__call__', lambda stop: next(asked) == 300)
    before = weights.read_bytes()
    network = load_elastic(weights)
    untrained = score_paths(network, read_data(str(data), False, (8, 8)), list(network.path_space))
    assert tune('--budget-ms', '60000', '--learning-rate', '0.01') == 0
    said = capsys.readouterr().out
    assert weights.read_bytes() != before
    assert f'wrote {weights}' in said
    assert 'iterations, 0 of them' in said
    network = load_elastic(weights)
    table = PathQuality.load(weights.with_suffix('.quality.json'), network.path_space)
    table.check(network.weights_hash)
    assert table.metric == 'accuracy' and sum(table.known.values()) > sum(untrained.values())


def test_weights_that_are_no_better_are_not_written(tune, weights, capsys, tmp_path):
    before = weights.read_bytes()
    assert tune('--budget-ms', '60000', '--minutes', '0.005', '--learning-rate', '1e-30') == 0
    assert 'the mean over utilisations did not rise' in capsys.readouterr().out
    assert weights.read_bytes() == before and not list(tmp_path.glob('*.quality.json'))


@pytest.mark.parametrize(
    'words, message',
    [
        (['--budget-ms', '0'], '--budget-ms is 0.0, expected at least 0.001'),
        (['--budget-ms', '0.001'], 'budget is 0.001 ms, expected at least'),
    ],
)
def test_refuses_in_one_line(tune, words, message, capsys, tmp_path):
    assert tune(*words, '--out', str(tmp_path / 'out.safetensors')) == 1
    assert message in capsys.readouterr().err and not (tmp_path / 'out.safetensors').exists()
