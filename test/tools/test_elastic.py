"""The command elastic as a user calls it: a network with its weights, made elastic."""

from pathlib import Path

import pytest
import torch
from annotated_images import write_class_folders
from measurable_network import run_command

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.elastic.source import NetworkSource
from deadline_perception.networks.model_reference import load_network

pytestmark = pytest.mark.slow

CLASSES = ('bright', 'dark')


@pytest.fixture(scope='module')
def made(tmp_path_factory) -> tuple[Path, list[str], str]:
    """Folder with a user's weights, images, and an elastic network; words of its data; what the command said."""
    folder = tmp_path_factory.mktemp('elastic')
    data = write_class_folders(folder / 'images', 40)
    source = NetworkSource('mobilenet_v3_small', CLASSES, (32, 32))
    torch.save(source.ordinary().state_dict(), folder / 'user.pth')
    words = (
        f'network elastic mobilenet_v3_small --weights {folder / "user.pth"} --data {data} '
        f'--size 32 32 --out {folder / "net.safetensors"}'
    )
    ran = run_command(*words.split())
    assert ran.returncode == 0, ran.stderr
    return folder, ['--data', str(data)], ran.stdout


def test_one_command_makes_a_network_elastic(made):
    folder, _, said = made
    network, file = load_network(str(folder / 'net.safetensors'), 'cpu', folder)
    assert file == folder / 'net.safetensors'
    assert network.class_names == CLASSES
    assert network.input_size == (32, 32)
    quality = PathQuality.load(folder / 'net.quality.json', network.path_space)
    quality.check(network.weights_hash)
    assert set(quality.known) == set(network.path_space) and quality.metric == 'accuracy'
    assert '0.10' in said and '1.00' in said and 'groups of channels can be narrowed' in said


@pytest.mark.parametrize(
    'model, message',
    [
        ('no_such_network', "model is 'no_such_network', expected the name"),
        ('resnet18', 'weights do not fit resnet18'),
    ],
)
def test_refuses_in_one_line(made, model, message, monkeypatch, refusal, tmp_path):
    (folder, data, _), out = made, tmp_path / 'out.safetensors'
    monkeypatch.setenv('DEADLINE_PERCEPTION_RESTARTED', '1')
    words = f'network elastic {model} --weights {folder / "user.pth"} --out {out}'
    assert message in refusal(*words.split(), *data)
    assert not out.exists()
