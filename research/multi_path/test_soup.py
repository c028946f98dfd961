"""The command `soup.py` on weights files of small networks."""

import json

import pytest
import soup
import torch

from deadline_perception.networks.multi_path.checkpoint import (
    build_detector,
    load_detector,
    read_recipe,
    save_detector,
)
from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration
from deadline_perception.tools.command_line import run_alone

NAMES = ('vehicle', 'traffic_light')


@pytest.fixture
def files(tmp_path):
    """Two networks, the second with a recipe."""
    written = [tmp_path / 'first.safetensors', tmp_path / 'second.safetensors']
    save_detector(build_detector('compact', NAMES, seed=0), written[0])
    save_detector(
        build_detector('compact', NAMES, seed=1), written[1], recipe=json.dumps({'step': 7})
    )
    return written


def test_every_weight_is_the_mean(files, tmp_path, capsys):
    out = tmp_path / 'made' / 'mean.safetensors'
    assert run_alone(soup, [*map(str, files), '--out', str(out)]) == 0
    first, second, mean = (load_detector(file).state_dict() for file in (*files, out))
    for name, tensor in mean.items():
        # Files hold float16, 11 significant bits.
        torch.testing.assert_close(tensor, (first[name] + second[name]) / 2, rtol=1e-3, atol=1e-6)
    assert json.loads(read_recipe(out)) == {'mean of': ['first.safetensors', {'step': 7}]}
    assert 'the mean of 2 files' in capsys.readouterr().out


@pytest.mark.parametrize('calibrated', [0, 1])
def test_a_mean_has_nobodys_score_curve(files, tmp_path, calibrated):
    network = load_detector(files[calibrated])
    network.score_calibration = ScoreCalibration((1.5, 1.5), (0.1, 0.1))
    save_detector(network, files[calibrated])
    assert run_alone(soup, [*map(str, files), '--out', str(tmp_path / 'mean.safetensors')]) == 0
    assert load_detector(tmp_path / 'mean.safetensors').score_calibration is None


def test_weights_of_other_classes_one_file_and_a_file_of_its_own_are_refused(
    files, tmp_path, refusal
):
    other = tmp_path / 'other.safetensors'
    save_detector(build_detector('compact', ('vehicle',), seed=0), other)
    assert (
        "is a 'compact' with classes vehicle; expected a 'compact' with vehicle, traffic_light"
        in refusal(soup, files[0], other, '--out', tmp_path / 'mean.safetensors')
    )
    assert not (tmp_path / 'mean.safetensors').exists()
    assert 'expected at least two for a soup' in refusal(soup, files[0])
    before = files[1].read_bytes()
    assert 'as another file of this command; expected one of its own' in refusal(
        soup, *files, '--out', files[1]
    )
    assert files[1].read_bytes() == before
