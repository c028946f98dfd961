"""The commands elastic and tune as a user calls them: a network with its weights, made elastic, tuned, and killed."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.runtime.loading import load_network
from deadline_perception.subnetwork.checkpoint import load_elastic
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
    ran = subprocess.run([sys.executable, '-m', 'deadline_perception.tools.command_line', 'elastic', 'mobilenet_v3_small',
                          '--weights', str(folder / 'user.pth'), '--data', str(data), '--size', '32', '32', '--out',
                          str(folder / 'net.safetensors')], capture_output=True, text=True, check=False)
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


def test_tuning_improves_the_sub_networks_and_replaces_the_file(made, tmp_path, monkeypatch, capsys):
    folder, data, _ = made
    monkeypatch.setenv('DEADLINE_PERCEPTION_RESTARTED', '1')  # stay in this process
    out = tmp_path / 'tuned.safetensors'
    words = ['tune', '--weights', str(folder / 'net.safetensors'), *data, '--budget-ms', '60000', '--minutes', '0.05',
             '--learning-rate', '0.02', '--out', str(out)]
    assert main(words) == 0
    said = capsys.readouterr().out
    before = PathQuality.load(folder / 'net.quality.json', load_elastic(folder / 'net.safetensors').path_space)
    if out.exists():
        network = load_elastic(out)
        after = PathQuality.load(out.with_suffix('.quality.json'), network.path_space)
        after.check(network.weights_hash)
        assert sum(after.known.values()) > sum(before.known.values())
        assert f'wrote {out}' in said
    else:
        assert 'did not rise' in said
    assert 'iterations, 0 of them' in said


def test_a_tuning_that_is_killed_leaves_the_weights_before(made):
    folder, data, _ = made
    file = folder / 'net.safetensors'
    before = file.read_bytes()
    command = [sys.executable, '-m', 'deadline_perception.tools.command_line', 'tune', '--weights', str(file), *data,
               '--budget-ms', '60000', '--minutes', '5']
    with (folder / 'log').open('w+') as log:
        process = subprocess.Popen(command, stderr=log, stdout=log, env={**os.environ, 'COLUMNS': '200'})
        until = time.monotonic() + 120.0
        while 'bounds of an iteration' not in (folder / 'log').read_text() and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.1)
        time.sleep(0.3)
        assert process.poll() is None, (folder / 'log').read_text()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert file.read_bytes() == before and load_elastic(file).class_names == CLASSES


@pytest.mark.parametrize('words, message', [
    (['tune', '--budget-ms', '0'], '--budget-ms is 0.0, expected more than 0'),
    (['tune', '--budget-ms', 'nan'], '--budget-ms is nan'),
    (['tune', '--budget-ms', '50', '--minutes', '-1'], 'minutes is -1.0'),
    (['tune', '--budget-ms', '50', '--batch', '0'], '--batch is 0'),
    (['tune', '--budget-ms', '0.001'], 'budget is 0.001 ms, expected at least'),
    (['elastic', 'no_such_network'], "model is 'no_such_network', expected the name"),
    (['elastic', 'resnet18'], 'weights do not fit resnet18'),
    (['elastic', 'mobilenet_v3_small', '--limit', '1'], '--limit is 1')])
def test_refuses_in_one_line(made, words, message, monkeypatch, capsys, tmp_path):
    folder, data, _ = made
    monkeypatch.setenv('DEADLINE_PERCEPTION_RESTARTED', '1')
    weights = folder / ('net.safetensors' if words[0] == 'tune' else 'user.pth')
    assert main([*words, '--weights', str(weights), *data, '--out', str(tmp_path / 'out.safetensors')]) == 1
    error = capsys.readouterr().err
    assert message in error and not (tmp_path / 'out.safetensors').exists()


def test_refuses_data_without_labels(made, tmp_path, monkeypatch, capsys):
    folder, _, _ = made
    monkeypatch.setenv('DEADLINE_PERCEPTION_RESTARTED', '1')
    (tmp_path / 'empty').mkdir()
    assert main(['tune', '--budget-ms', '50', '--weights', str(folder / 'net.safetensors'), '--data',
                 str(tmp_path / 'empty'), '--out', str(tmp_path / 'out.safetensors')]) == 1
    assert 'holds no images, expected a folder of images for each class' in capsys.readouterr().err
