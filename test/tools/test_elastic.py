"""The command elastic as a user calls it: a network with its weights, made elastic."""

import pytest
import torch
from annotated_images import write_class_folders
from measurable_network import run_command

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.elastic.source import NetworkSource
from deadline_perception.networks.model_reference import load_network

pytestmark = pytest.mark.slow

CLASSES = ('bright', 'dark')


def test_one_command_makes_a_network_elastic(tmp_path):
    data, file = write_class_folders(tmp_path / 'images', 40), tmp_path / 'net.safetensors'
    source = NetworkSource('mobilenet_v3_small', CLASSES, (32, 32))
    torch.save(source.ordinary().state_dict(), tmp_path / 'user.pth')
    words = (
        f'network elastic mobilenet_v3_small --weights {tmp_path / "user.pth"} --data {data} '
        f'--size 32 32 --out {file}'
    )
    ran = run_command(*words.split())
    assert ran.returncode == 0, ran.stderr
    network, found = load_network(str(file), 'cpu', tmp_path)
    assert found == file
    assert network.class_names == CLASSES
    assert network.input_size == (32, 32)
    quality = PathQuality.load(tmp_path / 'net.quality.json', network.path_space)
    quality.check(network.weights_hash)
    assert set(quality.known) == set(network.path_space) and quality.metric == 'accuracy'
    for said in ('0.10', '1.00', 'groups of channels can be narrowed'):
        assert said in ran.stdout
