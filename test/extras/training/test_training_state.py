"""A training run on disk, by the smallest run there is: one layer on made-up rows."""

from pathlib import Path

import pytest
import torch
from full_disk import full_disk
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.extras.training.training_state import ResumableTraining, TrainingDiverged

FIRST = 'optimiser.0.exp_avg'
PLAN = TrainingPlan(steps=9, learning_rate=0.1)


class Rows(ResumableTraining):
    """Fits a layer to the sum of its inputs; the rows of a step follow from its number and the data."""

    def __init__(self, inputs=3, data='rows', plan=PLAN, fill=0.0, start='') -> None:
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
    return tmp_path / 'runs/state.safetensors'


def weights(run: Rows) -> dict[str, torch.Tensor]:
    average = {f'average.{name}': tensor for name, tensor in run.average.items()}
    return {**run.network.state_dict(), **average}


def saved(file: Path, steps: int, **options) -> Rows:
    """A run that was saved after so many steps."""
    run = Rows(**options)
    run.run(steps)
    run.save(file)
    return run


def test_a_full_disk_is_told_and_the_run_goes_on_from_the_state_before(file):
    run = saved(file, 2)
    run.run(1)
    with full_disk(100), pytest.raises(OSError, match='too large') as failed:
        run.save(file)
    assert failed.value.filename == str(file) and list(file.parent.iterdir()) == [file]
    other = Rows()
    other.resume(file)
    assert other.step == 2


@pytest.mark.parametrize(
    'other, message',
    [
        (Rows(plan=TrainingPlan(steps=8)), 'was saved for .*"steps": 9.*, expected .*"steps": 8'),
        (Rows(data='others'), 'was saved for .*"rows".*, expected .*"others"'),
        (Rows(start='abc'), 'was saved for .*"start": "".*, expected .*"start": "abc"'),
        (Rows(inputs=4), 'was saved for network linear 3, expected linear 4'),
    ],
)
def test_a_state_of_something_else_is_refused_and_changes_nothing(file, other, message):
    saved(file, 1, fill=7.0)
    with pytest.raises(ValueError, match=message):
        other.resume(file)
    assert other.step == 0 and not any(tensor.any() for tensor in weights(other).values())


@pytest.mark.parametrize(
    'damage', [lambda whole: whole[:-10], lambda whole: whole[:5], lambda whole: b'']
)
def test_a_file_that_is_no_whole_state_is_refused(file, damage):
    run = saved(file, 1)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match='state.safetensors cannot be read as a training state'):
        run.resume(file)
    assert run.step == 1


@pytest.mark.parametrize('value', [float('nan'), float('-inf')])
def test_weights_that_are_no_numbers_are_not_written_over_the_state_before(file, value):
    run = saved(file, 1)
    before = file.read_bytes()
    with torch.no_grad():
        run.network.bias.fill_(value)
    with pytest.raises(TrainingDiverged, match='weights.bias is no longer finite after.*than 0.1'):
        run.save(file)
    assert file.read_bytes() == before


def changed(file, change):
    """The file with other facts or values, as a stranger may have made it."""
    with safe_open(file, 'pt') as stored:
        facts = stored.metadata()
    tensors = load_file(file)
    change(facts, tensors)
    save_file(tensors, file, facts)


def renamed(old, new):
    return lambda _, tensors: tensors.__setitem__(new, tensors.pop(old))


@pytest.mark.parametrize(
    'change, words',
    [
        (lambda facts, _: facts.pop('step'), r'has step None, expected a whole.*\[0, 9\]'),
        *(
            (lambda facts, _, step=step: facts.update(step=step), 'has step .*, expected a whole')
            for step in ('-5', '10', '1' + '0' * 30, '1.5', 'x', '', '\u0663')
        ),
        (renamed('weights.bias', 'weights.other'), 'lacks weights.bias'),
        (renamed('average.bias', 'average.other'), 'lacks average.bias'),
        (renamed('average.bias', 'another'), 'holds another'),
        (renamed(FIRST, 'optimiser.1000000000.exp_avg'), f'lacks {FIRST}'),
        (renamed('optimiser.0.step', 'optimiser.x'), 'lacks optimiser.0.step'),
        *(
            (lambda _, tensors, name=name: tensors.update({name: torch.ones(3, 1)}), words)
            for name, words in (
                ('weights.weight', r'weights.weight of \[3, 1\], expected \[1, 3\]'),
                (FIRST, r'of \[3, 1\], expected \[1, 3\]'),
            )
        ),
        *(
            (lambda _, tensors, name=name: tensors[name].fill_(torch.nan), f'or infinity in {name}')
            for name in ('weights.bias', 'average.weight', FIRST)
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_of_it_is_taken(file, change, words):
    saved(file, 3)
    changed(file, change)
    other = Rows(fill=0.5)
    before = {name: tensor.clone() for name, tensor in weights(other).items()}
    with pytest.raises(ValueError, match=words):
        other.resume(file)
    assert other.step == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(other).items())
