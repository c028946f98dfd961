"""The command as a user runs it, on two images; then profile and evaluation of what it wrote."""

import json

import cv2
import numpy as np
import pytest
import torch
from annotated_images import write_coco
from measurable_network import run_command
from plain_images import noise

from deadline_perception.extras.several_networks.classifier.checkpoint import load_classifier
from deadline_perception.networks.weights_file import read_recipe
from deadline_perception.runtime.loading import NetworkOptions, load_task
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.tools import crop_evaluation, train_classifier
from deadline_perception.tools.command_line import main


@pytest.fixture(scope='module', autouse=True)
def few_views():
    with pytest.MonkeyPatch.context() as patch:
        for module in (train_classifier, crop_evaluation):
            patch.setattr(module, '_RENDERED', 1)
            patch.setattr(module, '_BACKGROUNDS', 2)
        yield


@pytest.fixture(scope='module')
def annotations(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    names = ('vehicle', 'traffic_light', 'traffic_sign')
    images = {f'{number}.png': noise(120, 200, number) for number in range(2)}
    boxes = [(number, at, (20 + 50 * at, 20, 40, 70)) for number in range(2) for at in range(3)]
    return write_coco(folder / 'train.json', images, boxes, names)


@pytest.fixture(scope='module')
def weights(annotations, tmp_path_factory):
    """Ended after two of three steps, and gone on with."""
    folder = tmp_path_factory.mktemp('weights')
    before = torch.get_num_threads()
    words = (
        f'network train-classifier --data {annotations} --steps 3 --batch 4 --state '
        f'{folder / "state.safetensors"} --out {folder / "small.safetensors"}'
    ).split()
    assert main([*words, '--minutes', '1e-9']) == 0
    steps = (folder / 'state.jsonl').read_text().splitlines()
    assert len(steps) == 1 and json.loads(steps[0])['level10'] > 0.0
    assert main(words) == 0
    torch.set_num_threads(before)
    return folder / 'small.safetensors'


@pytest.mark.slow
def test_a_run_writes_weights_with_their_recipe(weights, capsys):
    network = load_classifier(weights)
    recipe = json.loads(read_recipe(weights))
    assert len(network.path_space) == 10 and recipe['step'] == 3
    assert recipe['arguments']['data'] == ['train.json'] and recipe['arguments']['seed'] == 0
    assert len((weights.parent / 'state.jsonl').read_text().splitlines()) == 3
    assert cv2.imread(str(weights.parent / 'state.png')) is not None


@pytest.mark.slow
def test_weights_at_the_start_are_part_of_recipe_and_result(weights, annotations, tmp_path):
    words = (
        f'network train-classifier --data {annotations} --steps 1 --batch 2 --seed 7 '
        f'--learning-rate 1e-9 --start {weights} --state {tmp_path}/state.safetensors '
        f'--out {tmp_path}/next.safetensors'
    ).split()
    assert main(words) == 0
    recipes = [json.loads(read_recipe(file)) for file in (tmp_path / 'next.safetensors', weights)]
    assert recipes[0]['start'] == recipes[1]
    before, after = load_classifier(weights), load_classifier(tmp_path / 'next.safetensors')
    torch.testing.assert_close(after.head.weight, before.head.weight, atol=1e-3, rtol=1e-3)


@pytest.mark.slow
def test_the_task_loads_with_profile_and_evaluation(weights, annotations, tmp_path, capsys):
    quality = weights.with_suffix('.quality.json')
    assert main(f'evaluate --weights {weights} --data {annotations} --json {quality}'.split()) == 0
    table = json.loads(quality.read_text())
    assert table['levels'] == [f'l{number}' for number in range(1, 11)]
    assert set(table['paths']) == set(table['levels'])
    assert np.shape(table['accuracy']) == (10, len(table['sizes_px']))
    assert table['weights_hash'] == load_classifier(weights).weights_hash
    assert f'wrote {quality}' in capsys.readouterr().out.replace('\n', '')
    file = tmp_path / 'profile.json'
    words = (
        f'profile --weights {weights} --engine eager --all-paths --quick --minutes 0.02 '
        f'--source {annotations} --out {file}'
    )
    run = run_command(*words.split())
    assert run.returncode == 0, run.stderr
    profile = LatencyProfile.load(file)
    assert profile.image_size == (64, 64) and len(profile.paths) == 10
    assert 'conv4@l10' in profile.segments
    options = NetworkOptions(str(weights), profile=str(file), engine='eager')
    best = load_task(options, tmp_path).task.policy.plan(1e6, 1.0)
    accuracy = max(row['accuracy'] for row in table['paths'].values())
    assert best.quality == pytest.approx(accuracy, abs=1e-6)


@pytest.mark.parametrize(
    'words, match',
    [
        (['--seed', '1000'], '--seed is 1000, expected 0 to 999'),
        (['--start', 'a.safetensors', '--out', 'a.safetensors'], 'as another file of this command'),
        (['--start', 'none.safetensors'], 'weights file none.safetensors does not exist'),
    ],
)
def test_arguments_that_cannot_be_are_refused_in_one_line(annotations, refusal, words, match):
    assert match in refusal('network', 'train-classifier', '--data', annotations, *words)
