import shutil

import pytest
import torch
from measurable_network import run_command
from plain_images import write_images

from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.tools.profile import sufficiency


@pytest.mark.slow
def test_measures_as_the_node_runs_and_writes_where_it_looks(measurable_weights, tmp_path):
    words = f'profile --weights {measurable_weights} --quick --minutes 0.03 --engine eager'
    environment = {'XDG_CACHE_HOME': str(tmp_path)}
    run = run_command(*words.split(), environment=environment, restarts=True)
    assert run.returncode == 0, run.stderr
    (file,) = (tmp_path / 'deadline_perception/profiles').glob('measurable-*-t2.json')
    assert f'wrote {file}' in run.stdout.replace('\n', '')
    profile = LatencyProfile.load(file)
    expected = (2, 'retaining', (64, 96))
    assert (profile.facts.threads, profile.facts.allocator, profile.input_size) == expected
    for shown in (
        'cheapest',
        'full',
        'pyramid@w0.25-f0.50',
        'times their forecast',
        'too few for 99 %, which takes 299',
    ):
        assert shown in run.stdout
    assert 'measuring measurable on cpu' in run.stderr


@pytest.mark.slow
def test_prepares_missing_segments_and_says_which_form_each_has(prepared, tmp_path):
    for blob in sorted(prepared.folder.glob('*.blob'))[:2]:
        blob.unlink()
    images = write_images(tmp_path / 'images', prepared.images)
    weights = shutil.copy(prepared.weights, tmp_path)
    shutil.copy(prepared.weights.with_name('small.models'), tmp_path / 'small.quantised')
    command = ['profile', '--weights', weights, '--source', images]
    environment = {'XDG_CACHE_HOME': str(prepared.cache)}
    run = run_command(*command, '--quick', '--minutes', '0.03', environment=environment)
    assert run.returncode == 0, run.stderr
    assert 'preparing' in run.stderr and '8 bit' in run.stdout and 'openvino' in run.stdout
    (file,) = (prepared.cache / 'deadline_perception' / 'profiles').glob('small-*-t2.json')
    assert LatencyProfile.load(file).engine.startswith('openvino ')
    again = run_command(*command, '--prepare-only', '--engine', 'openvino', environment=environment)
    assert again.returncode == 0 and 'preparing' not in again.stderr


@pytest.mark.parametrize(
    'device, said',
    [
        ('cpu', 'deadline-perception profile: weights file none.safetensors does not exist'),
        pytest.param(
            'cuda',
            "device is 'cuda', but PyTorch",  # is told before weights are looked for
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason='a CUDA device is here'),
        ),
    ],
)
@pytest.mark.usefixtures('network_settings')  # with which it need not start itself anew
def test_missing_weights_and_devices_are_told_in_one_line(device, said, refusal):
    assert said in refusal('profile', '--weights', 'none.safetensors', '--device', device)


@pytest.mark.parametrize(
    'arguments, message',
    [
        (('--threads', '100000'), '100000, expected 1 to 1024'),
        (('--minutes', 'nan'), '--minutes is nan'),
    ],
)
def test_impossible_numbers_are_refused(arguments, message, refusal):
    # in this process: refused before it would start itself anew
    assert message in refusal('profile', *arguments)


def test_says_from_how_many_whole_frames_on_their_longest_bounds_what_the_detector_aims_at():
    assert 'too few for 99 %, which takes 299. Measure without --quick' in sufficiency(298)
    assert 'enough for 99 %' in sufficiency(299)
    assert 'bounds 99.4 % of further ones with 95 % confidence' in sufficiency(480)
