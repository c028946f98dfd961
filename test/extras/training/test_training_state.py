"""A training run on disk, by the smallest run there is: one layer on made-up rows."""

import json
import resource
import signal
import struct
from pathlib import Path

import pytest
import torch
from torch import nn

from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.extras.training.training_state import ResumableTraining, TrainingDiverged

PLAN = TrainingPlan(steps=9, learning_rate=0.1)


class Rows(ResumableTraining):
    """Fits a layer to the sum of its inputs; the rows of a step follow from its number and the data."""

    def __init__(
        self,
        inputs: int = 3,
        data: str = 'rows',
        plan: TrainingPlan = PLAN,
        fill: float = 0.0,
        start: str = '',
    ) -> None:
        network = nn.Linear(inputs, 1)
        network.network_hash = f'linear {inputs}'
        nn.init.constant_(network.weight, fill)
        nn.init.constant_(network.bias, fill)
        super().__init__(network, plan, start)
        self.data = data

    @property
    def _facts(self) -> dict[str, str]:
        return {'data': self.data}

    def run(self, steps: int) -> None:
        for _ in range(steps):
            rows = torch.randn(
                4, self.network.in_features, generator=torch.Generator().manual_seed(self.step)
            )
            self._begin_step()
            (self.network(rows)[:, 0] - rows.sum(1)).square().mean().backward()
            self._end_step()
            self.step += 1


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / 'runs' / 'state.safetensors'


def weights(run: Rows) -> dict[str, torch.Tensor]:
    return {
        **run.network.state_dict(),
        **{f'average.{name}': tensor for name, tensor in run.average.items()},
    }


def test_a_state_before_the_first_step_is_one_too(file):
    Rows(fill=2.0).save(file)
    run = Rows()
    run.resume(file)
    assert run.step == 0 and float(run.network.bias.detach()) == 2.0 and not run.optimiser.state


def test_a_full_disk_is_told_and_the_run_goes_on_from_the_state_before(file):
    run = Rows()
    run.run(2)
    run.save(file)
    run.run(1)
    limits, handler = (
        resource.getrlimit(resource.RLIMIT_FSIZE),
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match='too large') as failed:
            run.save(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert failed.value.filename == str(file) and list(file.parent.iterdir()) == [file]
    resumed = Rows()
    resumed.resume(file)
    assert resumed.step == 2


@pytest.mark.parametrize(
    ('other', 'message'),
    [
        (Rows(plan=TrainingPlan(steps=8)), 'was saved for .*"steps": 9.*, expected .*"steps": 8'),
        (Rows(data='others'), 'was saved for .*"rows".*, expected .*"others"'),
        (Rows(start='abc'), 'was saved for .*"start": "".*, expected .*"start": "abc"'),
        (Rows(inputs=4), 'was saved for network linear 3, expected linear 4'),
    ],
)
def test_a_state_of_something_else_is_refused_and_changes_nothing(file, other, message):
    run = Rows(fill=7.0)
    run.run(1)
    run.save(file)
    with pytest.raises(ValueError, match=message):
        other.resume(file)
    assert other.step == 0 and not any(tensor.any() for tensor in weights(other).values())


@pytest.mark.parametrize(
    'damage', [lambda whole: whole[:-10], lambda whole: whole[:5], lambda whole: b'']
)
def test_a_file_that_is_no_whole_state_is_refused(file, damage):
    run = Rows()
    run.run(1)
    run.save(file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match='state.safetensors cannot be read as a training state'):
        run.resume(file)
    assert run.step == 1


@pytest.mark.parametrize('value', [float('nan'), float('-inf')])
def test_weights_that_are_no_numbers_are_not_written_over_the_state_before(file, value):
    run = Rows()
    run.run(1)
    run.save(file)
    before = file.read_bytes()
    with torch.no_grad():
        run.network.bias.fill_(value)
    with pytest.raises(TrainingDiverged, match='weights.bias is no longer finite after.*than 0.1'):
        run.save(file)
    assert file.read_bytes() == before


def changed(file, change):
    """The file with another header or other values, as a stranger may have made it."""
    raw = file.read_bytes()
    size = int.from_bytes(raw[:8], 'little')
    header, values = json.loads(raw[8 : 8 + size]), bytearray(raw[8 + size :])
    change(header, values)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, 'little') + text + values)


def put_nan(name):
    def change(header, values):
        at = header[name]['data_offsets'][0]
        values[at : at + 4] = struct.pack('<f', float('nan'))

    return change


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        (lambda h, v: h['__metadata__'].pop('step'), r'has step None, expected a whole.*\[0, 9\]'),
        *(
            (
                lambda h, v, step=step: h['__metadata__'].update(step=step),
                'has step .*, expected a whole',
            )
            for step in ('-5', '10', '1' + '0' * 30, '1.5', 'x', '', '\u0663')
        ),
        (lambda h, v: h.__setitem__('weights.other', h.pop('weights.bias')), 'lacks weights.bias'),
        (lambda h, v: h.__setitem__('average.other', h.pop('average.bias')), 'lacks average.bias'),
        (lambda h, v: h.__setitem__('another', h.pop('average.bias')), 'holds another'),
        (
            lambda h, v: h.__setitem__(
                'optimiser.1000000000.exp_avg', h.pop('optimiser.0.exp_avg')
            ),
            'lacks optimiser.0.exp_avg',
        ),
        (
            lambda h, v: h.__setitem__('optimiser.x', h.pop('optimiser.0.step')),
            'lacks optimiser.0.step',
        ),
        (lambda h, v: h['weights.weight']['shape'].reverse(), r'weights.weight of \[3.*\[1, 3\]'),
        (
            lambda h, v: h['optimiser.0.exp_avg']['shape'].reverse(),
            r'of \[3, 1\], expected \[1, 3\]',
        ),
        *(
            (put_nan(n), f'NaN or infinity in {n}')
            for n in ('weights.bias', 'average.weight', 'optimiser.0.exp_avg')
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_of_it_is_taken(file, change, words):
    run = Rows()
    run.run(3)
    run.save(file)
    changed(file, change)
    other = Rows(fill=0.5)
    before = {name: tensor.clone() for name, tensor in weights(other).items()}
    with pytest.raises(ValueError, match=words):
        other.resume(file)
    assert other.step == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(other).items())


def test_a_weight_that_never_had_a_gradient_has_no_state(file):
    run = Rows()
    run.network.bias.requires_grad_(False)
    run.run(2)
    run.save(file)
    again = Rows()
    again.resume(file)
    assert again.step == 2
