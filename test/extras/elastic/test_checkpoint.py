"""Elastic networks on disk: a round trip, and files that are refused."""

import json
from pathlib import Path

import pytest
import torch
from json_damage import REMOVED, put
from safetensors.torch import load_file, save_file

from deadline_perception.extras.elastic.checkpoint import (
    KEY,
    is_elastic,
    load_elastic,
    save_elastic,
)
from deadline_perception.extras.elastic.elastic import elastic
from deadline_perception.extras.elastic.network import ElasticNetwork
from deadline_perception.extras.elastic.source import NetworkSource
from deadline_perception.networks.model_reference import load_weights
from deadline_perception.networks.weights_file import CheckpointError, read_header

SOURCE = NetworkSource('mobilenet_v3_small', ('cat', 'dog', 'fish'), (48, 64))


@pytest.fixture(scope='module')
def network() -> ElasticNetwork:
    data = torch.randn(8, 3, 48, 64, generator=torch.Generator().manual_seed(0))
    settings = (0.25, 0.5, 1.0)
    module = elastic(SOURCE.ordinary(), SOURCE.example_inputs, data, settings=settings)
    return ElasticNetwork(module, SOURCE)


@pytest.fixture
def file(network, tmp_path) -> Path:
    save_elastic(network, tmp_path / 'net.safetensors')
    return tmp_path / 'net.safetensors'


@torch.no_grad()
def same_output(one, other, inputs):
    torch.testing.assert_close(*(module(inputs, utilisation=0.5) for module in (one, other)))


def test_round_trip(network, file):
    assert is_elastic(file) and not list(file.parent.glob('.*'))
    other = load_weights(file, 'cpu')
    assert (other.weights_hash, other.network_hash) == (network.weights_hash, network.network_hash)
    assert (other.source, other.module.settings) == (SOURCE, (0.25, 0.5, 1.0))
    same_output(other.module, network.module, torch.randn(2, 3, 48, 64))


@pytest.mark.parametrize(
    'place, value, message',
    [
        ('facts.format', 99, 'its format is 99'),
        ('facts.settings', REMOVED, 'settings'),
        ('facts.settings', [0.5, 0.4, 1.0], 'expected ascending'),
        ('facts.source.model', 'os:abort', "names the code 'os:abort', which a file alone"),
        ('facts.source.model', 'regnet_y_128gf', 'regnet_y_128gf of 3 classes has 637'),
        ('facts.source.input_size', [20_000, 20_000], 'height and width of 1 to 2048 px'),
        ('facts.source.class_names', ['\x1b[31m'], 'expected 1 to 10000 names'),
        ('facts.settings', [n / 1e5 for n in range(1, 100_001)], 'expected 1 to 64'),
        ('tensors.order0', REMOVED, 'order0 has the shape of nothing'),
        ('tensors.importance27', torch.full((3,), torch.nan), 'NaN'),
    ],
)
def test_refuses_files_that_do_not_fit(file, place, value, message):
    metadata, tensors = read_header(file)[0], load_file(file)
    facts = json.loads(metadata[KEY])
    put({'facts': facts, 'tensors': tensors}, place, value)
    save_file(tensors, file, metadata={KEY: json.dumps(facts)})
    with pytest.raises(CheckpointError, match=message):
        load_elastic(file)


@pytest.mark.parametrize(
    'text', ['[' * 100_000, '9' * 5000, '{"format": 1, "format": 2}', 'null', '[]', '{}', '""']
)
def test_refuses_metadata_that_describe_nothing(tmp_path, text):
    save_file({'a': torch.zeros(1)}, tmp_path / 'net.safetensors', metadata={KEY: text})
    with pytest.raises(CheckpointError, match='holds no elastic network that can be made here'):
        load_elastic(tmp_path / 'net.safetensors')


def test_weights_that_are_not_finite_leave_the_file_before(network, file):
    before, weight = file.read_bytes(), next(network.module.parameters())
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[(0,) * weight.dim()] = torch.inf
    try:
        with pytest.raises(CheckpointError, match='is not finite'):
            save_elastic(network, file)
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    assert file.read_bytes() == before
