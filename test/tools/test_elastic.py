"""The command elastic as a user calls it: a network with its weights, made elastic."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.model_set.model_reference import load_network
from deadline_perception.subnetwork.source import NetworkSource
from deadline_perception.tools.command_line import main

CLASSES = ('bright', 'dark')


def write_images(folder: Path, count: int = 12) -> Path:
    rng = np.random.default_rng(0)
    for name, level in zip(CLASSES, (200, 50)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            image = np.clip(rng.normal(level, 20, (40, 40, 3)), 0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / name / f'{number:02d}.png'), image)
    return folder


@pytest.fixture(scope='module')
def made(tmp_path_factory) -> tuple[Path, list[str], str]:
    """Folder with a user's weights, images, and an elastic network; words of its data; what the command said."""
    folder = tmp_path_factory.mktemp('elastic')
    data = write_images(folder / 'images')
    source = NetworkSource('mobilenet_v3_small', CLASSES, (32, 32))
    torch.save(source.ordinary().state_dict(), folder / 'user.pth')
    ran = subprocess.run([sys.executable, '-m', 'deadline_perception.tools.command_line', 'network', 'elastic',
                          'mobilenet_v3_small', '--weights', str(folder / 'user.pth'), '--data', str(data), '--size',
                          '32', '32', '--out', str(folder / 'net.safetensors')], capture_output=True, text=True,
                         check=False)
    assert ran.returncode == 0, ran.stderr
    return folder, ['--data', str(data)], ran.stdout


def test_one_command_makes_a_network_elastic(made):
    folder, _, said = made
    network, file = load_network(str(folder / 'net.safetensors'), 'cpu', folder)
    assert file == folder / 'net.safetensors' and network.class_names == CLASSES and network.input_size == (32, 32)
    quality = PathQuality.load(folder / 'net.quality.json', network.path_space)
    quality.check(network.weights_hash)
    assert set(quality.known) == set(network.path_space) and quality.metric == 'accuracy'
    assert '0.10' in said and '1.00' in said and 'groups of channels can be narrowed' in said


@pytest.mark.parametrize('words, message', [
    (['no_such_network'], "model is 'no_such_network', expected the name"),
    (['resnet18'], 'weights do not fit resnet18'),
    (['mobilenet_v3_small', '--limit', '1'], '--limit is 1')])
def test_refuses_in_one_line(made, words, message, monkeypatch, capsys, tmp_path):
    folder, data, _ = made
    monkeypatch.setenv('DEADLINE_PERCEPTION_RESTARTED', '1')
    assert main(['network', 'elastic', *words, '--weights', str(folder / 'user.pth'), *data, '--out',
                 str(tmp_path / 'out.safetensors')]) == 1
    error = capsys.readouterr().err
    assert message in error and not (tmp_path / 'out.safetensors').exists()
