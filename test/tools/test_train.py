"""The command as a user runs it, on three images: killed and resumed, in two processes, with data that do not fit."""

import json
import os
import re
import signal
from dataclasses import replace
from functools import partial

import cv2
import pytest
import torch
from annotated_images import write_coco
from made_up_detector import TINY
from plain_images import grey
from python_run import run_python
from safetensors import safe_open
from safetensors.torch import load_file

from deadline_perception.extras.configuration_file import save_configuration
from deadline_perception.extras.faster_rcnn.configuration import COMPACT
from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.multi_path.dense.configuration import STREET
from deadline_perception.networks.weights_file import read_recipe
from deadline_perception.tools import train
from deadline_perception.tools.command_line import main


@pytest.fixture()
def annotations(tmp_path):
    names = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
    images = {f'{i}.png': grey(380, 640, 40 * i) for i in range(3)}
    for i, image in enumerate(images.values()):
        cv2.rectangle(image, (100 + 50 * i, 120), (220 + 50 * i, 200), (250, 250, 250), -1)
    boxes = [(i, 0, (100 + 50 * i, 120, 120, 80)) for i in range(3)]
    return write_coco(tmp_path / 'train.json', images, boxes, names)


@pytest.fixture()
def tiny(tmp_path):
    """File of a configuration that trains quickly."""
    shape = replace(TINY, skip_groups=COMPACT.skip_groups, heads=TINY.heads[:2])
    save_configuration(shape, tmp_path / 'tiny.json')
    return str(tmp_path / 'tiny.json')


@pytest.fixture()
def words(annotations, tiny, tmp_path):
    """Words of a run of so many steps of one image, which options behind them change: the last of a name counts."""

    def command(steps, *more):
        state, out = tmp_path / 'state.safetensors', tmp_path / 'weights.safetensors'
        words = (
            f'train --config {tiny} --data {annotations} --batch 1 --threads 1 --state {state} '
            f'--out {out} --steps {steps}'
        )
        return [*words.split(), *map(str, more)]

    return command


def logged(folder):
    return [json.loads(line) for line in (folder / 'state.jsonl').read_text().splitlines()]


def steps_of(folder):
    return [row['step'] for row in logged(folder)]


@pytest.mark.slow
def test_killed_run_goes_on_and_writes_weights(words, tmp_path):
    killed = run_python(
        '-c',
        'import os, sys\nfrom deadline_perception.extras.training import trainer\n'
        'from deadline_perception.tools import train\ntrain._SAVE_EVERY_S = 0.0\n'
        'save = trainer.Trainer.save\n'
        'def save_and_die(self, file):\n    save(self, file)\n    os._exit(9)\n'
        'trainer.Trainer.save = save_and_die\n'
        'from deadline_perception.tools.command_line import main\nmain(sys.argv[1:])',
        *words(3),
    )
    assert killed.returncode == 9, killed.stderr
    assert (tmp_path / 'state.safetensors').is_file()
    assert not (tmp_path / 'weights.safetensors').exists()
    assert main(words(3)) == 0
    assert load_detector(tmp_path / 'weights.safetensors').config_name == 'tiny'
    assert not list(tmp_path.glob('*.partial'))
    recipe = json.loads(read_recipe(tmp_path / 'weights.safetensors'))
    assert (recipe['step'], recipe['arguments']['data']) == (3, ['train.json'])
    assert steps_of(tmp_path) == [1, 2, 3]
    assert cv2.imread(str(tmp_path / 'state.png')) is not None


@pytest.mark.slow
def test_run_that_is_told_to_stop_saves_and_goes_on(words, tmp_path, capsys, says, monkeypatch):
    """The signal comes after the question of its own step: it ends the run after the second of three."""
    run = words(3, '--strategy', 'alone:s111-w0.50-p20-h0')
    numbers, train_step = iter([signal.SIGTERM]), train.Trainer._train_step

    def told_in_its_first(self, *rest):
        for number in numbers:
            signal.raise_signal(number)
        return train_step(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(train.Trainer, '_train_step', told_in_its_first)
        assert main(run) == 128 + signal.SIGTERM
    said = capsys.readouterr().out
    assert 'stopped at step 2 of 3; the same command goes on from' in said and 'wrote' in said
    assert load_detector(tmp_path / 'weights.safetensors').config_name == 'tiny'
    said = says(*run)
    assert 'goes on from step 2' in said and 'stopped' not in said
    assert steps_of(tmp_path) == [1, 2, 3]


RESNET = ['--config', 'compact', '--backbone', 'resnet.pth']


@pytest.mark.parametrize(
    'options, message',
    [
        (['--threads', '0'], '--threads is 0, expected 1 to 1024'),
        (['--drives', '-1'], '--drives is -1, expected at least 0'),
        (['--seed', '-1'], '--seed is -1, expected 0 to 9.2'),
        (['--out', '.'], '--out is ., which is a folder; expected a file'),
        (['--state', '.'], '--state is ., which is a folder; expected a file'),
        (['--start', 'x', '--out', 'x'], '--out is x, as another file of this'),
        (['--start', 'x'], 'or one of the shipped models ('),
        (['--state', 'x', '--out', 'x.png'], '--state is x.png, as another file'),
        (['--drive-share', '1.0'], '--drive-share is 1.0, expected 0.001 to 0.999'),
        (['--data', 'bare.json'], "'bare.json' has no annotations, expected some"),
        (RESNET, 'expected the 7x7 of a ResNet'),
        ([*RESNET, '--start', 'x'], 'expected one of them'),
    ],
)
def test_impossible_arguments_are_one_line_before_drives_are_rendered(
    annotations, tiny, tmp_path, refusal, monkeypatch, options, message
):
    monkeypatch.chdir(tmp_path)
    write_coco(tmp_path / 'bare.json', {'bare.png': grey(48, 64)}, [], [])
    torch.save({'conv1.weight': torch.zeros(64, 3, 7, 7)}, 'resnet.pth')
    monkeypatch.setattr(train, 'render_drives', lambda *rest: pytest.fail('rendered'))
    assert message in refusal('train', '--config', tiny, '--data', annotations, *options)


@pytest.mark.slow
def test_two_processes_train_the_weights_of_one(words, tmp_path, monkeypatch):
    """Windows and whole images, a batch that does not divide evenly, all three paths; only one process writes."""

    def run(name):
        folder = tmp_path / name
        return words(
            '3 --batch 3 --alone-share 0 --crop 32 64 '
            f'--state {folder}/state.safetensors --out {folder}/weights.safetensors'
        )

    # In float32, so that the two can be compared.
    script = (
        'import sys\nfrom functools import partial\nfrom deadline_perception.tools import train\n'
        'train.TrainingPlan = partial(train.TrainingPlan, bfloat16=False)\n'
        'from deadline_perception.tools.command_line import main\nsys.exit(main(sys.argv[1:]))'
    )
    (tmp_path / 'train_exactly.py').write_text(script)
    launch = '-m torch.distributed.run --standalone --nproc-per-node=2'.split()
    environment = {**os.environ, 'OMP_NUM_THREADS': '1'}
    two = run_python(*launch, tmp_path / 'train_exactly.py', *run('two'), env=environment)
    assert two.returncode == 0, two.stderr
    assert two.stdout.count('wrote') == two.stdout.count('3 images') == 1
    monkeypatch.setattr(train, 'TrainingPlan', partial(train.TrainingPlan, bfloat16=False))
    assert main(run('one')) == 0
    lines = {name: logged(tmp_path / name) for name in ('one', 'two')}
    assert len(lines['one']) == len(lines['two']) == 3
    assert {'path0', 'path1', 'path2'} < set(lines['one'][0])
    for mine, theirs in zip(lines['one'], lines['two']):
        assert theirs == pytest.approx(mine, rel=1e-3, abs=2e-5)
    weights, others = (load_file(tmp_path / name / 'state.safetensors') for name in ('one', 'two'))
    # Adam's steps are as long where a gradient is rounding error: 6e-4, 4.5e-4 and 1.6e-4 here, in either direction.
    trained = [name for name in weights if name.startswith(('weights.', 'average.'))]
    off = torch.cat([(others[name] - weights[name]).abs().flatten() for name in trained])
    assert float((off > 1e-5).float().mean()) < 0.03 and float(off.max()) < 2.5e-3
    statistics = [name for name in weights if name.endswith(('.mean', '.deviation'))]
    assert statistics and all(torch.equal(weights[name], others[name]) for name in statistics)


@pytest.mark.slow
def test_classes_are_those_of_data_and_start(words, annotations, tmp_path, says, monkeypatch):
    monkeypatch.setattr(train, 'DRIVE_SECONDS', 1.0)
    classes = tmp_path / 'classes.yaml'
    classes.write_text('vehicle: car\nmotorbike: bike\n')
    first, second = tmp_path / 'first.safetensors', tmp_path / 'second.safetensors'
    data = f'--data {annotations} drive:seconds=1,rate_hz=2'
    said = says(*words(1), data, '--classes', classes, '--out', first)
    names = load_detector(first).class_names
    assert names == ('car', 'bike', 'traffic_light', 'traffic_sign', 'person')
    assert 'does not name person: they take no part in the classes' in said
    start = f'--drives 1 --start {first} --state {tmp_path}/b.safetensors'
    says(*words(1), start, '--classes', classes, '--out', second)
    assert load_detector(second).class_names == names
    said = says(*words(1), f'--start {first} --val {annotations} --state {tmp_path}/c.safetensors')
    assert re.search(r'now \d+\.\d AP .*\n.*start knows none of their classes', said)


@pytest.mark.slow
def test_data_that_vanish_end_the_run_with_a_state_and_a_corrupt_image_does_not(
    words, tmp_path, capsys, says, monkeypatch
):
    state, away = tmp_path / 'state.safetensors', tmp_path / 'away'
    monkeypatch.setattr(train, 'SampleSource', partial(train.SampleSource, held_bytes=0))
    step = train.Trainer._train_step

    def step_and_lose(trainer, *given):
        if trainer.step == 2 and not away.exists():
            away.mkdir()
            for number in range(3):
                (tmp_path / f'{number}.png').rename(away / f'{number}.png')
        return step(trainer, *given)

    monkeypatch.setattr(train.Trainer, '_train_step', step_and_lose)
    with pytest.warns(UserWarning, match='is left out, 1 so far'):
        assert main(words(12)) == 1
    told = capsys.readouterr().err
    for said in (
        'images of',
        'cannot be read, expected a JPEG, PNG, BMP or WebP image: No such',
        'The same command goes on once they are back',
    ):
        assert said in told
    assert not (tmp_path / 'weights.safetensors').exists()
    with safe_open(state, framework='pt') as stored:
        assert int(stored.metadata()['step']) >= 2
    for file in away.iterdir():
        file.rename(tmp_path / file.name)

    def step_and_spoil(trainer, *given):
        (tmp_path / 'spoilt').write_bytes(b'no image')
        # as a whole: another thread reads it meanwhile
        (tmp_path / 'spoilt').replace(tmp_path / '1.png')
        return step(trainer, *given)

    monkeypatch.setattr(train.Trainer, '_train_step', step_and_spoil)
    with pytest.warns(UserWarning, match='image 1.png is left out, 1 so far: .* cannot be decoded'):
        said = says(*words(12))
    assert 'goes on from step' in said
    assert 'left out: 1 of 3 images, which cannot be read' in said


@pytest.mark.slow
def test_a_dense_detector_goes_on_from_weights_of_its_kind_alone(words, tmp_path, says, refusal):
    changes = {'input_size': (128, 192), 'scales': (1.0, 0.67), 'proposals': (5, 20)}
    shape = replace(STREET, name='dense', **changes)
    save_configuration(shape, tmp_path / 'dense.json')
    save_detector(build_detector(shape, ('vehicle', 'bike')), tmp_path / 'start.safetensors')
    run = words(2, '--alone-share', 0, '--config', tmp_path / 'dense.json')
    assert 'whose norms are fixed; expected --start' in refusal(*run)
    public = words(2, '--start', tmp_path / 'public.xml')
    assert 'expected a dense one, such as street' in refusal(*public)
    says(*run, '--start', tmp_path / 'start.safetensors')
    trained, start = (
        load_detector(tmp_path / f'{name}.safetensors') for name in ('weights', 'start')
    )
    assert trained.config == shape and trained.class_names[:2] == start.class_names
    assert trained.weights_hash != start.weights_hash


@pytest.mark.slow
def test_ends_with_the_worth_on_images_kept_apart(words, annotations, tmp_path, says):
    said = says(*words(1))
    assert '1 of 1 steps done; no images were kept apart' in said and '--val' in said
    start = tmp_path / 'start.safetensors'
    (tmp_path / 'weights.safetensors').rename(start)
    (tmp_path / 'state.safetensors').unlink()
    said = says(*words(1, '--val', annotations, '--start', start))
    expected = r'start \d+\.\d -> now \d+\.\d AP on \d+ images kept apart, 1 of 1 steps'
    assert re.search(expected, said)
