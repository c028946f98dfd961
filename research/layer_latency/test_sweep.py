"""The script `sweep.py`."""

import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import sweep
from layer_sweep import Repetition, Sweep, _sweeps
from layers import ConvolutionShape
from measured_layers import MeasuredLayers
from sweep import measure_to_file

from deadline_perception.core.device import process_environment, read_device_facts

# Sweeps of a few tiny layers stand in for those of the paper.
PROGRAM = """
import sys
import layer_sweep
layer_sweep.quick_sweeps = lambda: layer_sweep._sweeps(4, range(1, 11), range(1, 11), range(4, 14))
import sweep
from deadline_perception.tools.command_line import run_alone
sys.exit(run_alone(sweep))
"""


def run_command(*arguments: str) -> subprocess.CompletedProcess:
    settings = {
        name: value for name, value in os.environ.items() if name not in process_environment(2)
    }
    return subprocess.run(
        [sys.executable, '-c', PROGRAM, *arguments],
        capture_output=True,
        text=True,
        env={**settings, 'COLUMNS': '150', 'PYTHONPATH': str(Path(__file__).parent)},
        timeout=120,
    )


@pytest.fixture
def settings(monkeypatch):
    """With which the command need not start itself anew."""
    for name, value in process_environment(1).items():
        monkeypatch.setenv(name, value)


@pytest.mark.slow
def test_goes_on_measures_and_predicts(tmp_path):
    facts = replace(read_device_facts(environment=process_environment(1)), threads=1)
    shapes = [
        shape
        for sweep in _sweeps(4, range(1, 11), range(1, 11), range(4, 14))
        for shape in sweep.shapes
    ]
    before = MeasuredLayers(facts, {shape: [0.25] if shape.kernel == 5 else [] for shape in shapes})
    before.save(tmp_path / 'sweep.json')
    run = run_command('--quick', '--minutes', '0.02', '--out', str(tmp_path))
    assert run.returncode == 0, run.stderr
    # a width is a square
    assert 'going on from' in run.stdout
    assert '10 of 59 layers were measured before' in run.stdout
    assert 'mean absolute percentage error' in run.stdout and 'square input, 5x5' in run.stdout
    assert (tmp_path / 'sweep.png').stat().st_size > 1000
    after = MeasuredLayers.load(tmp_path / 'sweep.json')
    assert after.facts == facts
    assert all(
        after.samples_ms[shape][: len(samples)] == samples
        for shape, samples in before.samples_ms.items()
    )
    assert all(len(samples) > 1 for samples in after.samples_ms.values())


def test_other_sweeps_in_the_folder_are_told_in_one_line(tmp_path, settings, refusal):
    facts = replace(read_device_facts(), threads=1)
    MeasuredLayers(facts, {ConvolutionShape(2, 2, 1, 1, 4, 4): [1.0]}).save(tmp_path / 'sweep.json')
    assert 'holds other layers than asked for' in refusal(sweep, '--quick', '--out', tmp_path)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (('--minutes', '0'), '--minutes is 0.0, expected 0.001 to 10000'),
        (('--threads', '100000'), '--threads is 100000, expected 1 to 1024'),
        (('--device', 'tpu'), "device is 'tpu'"),
        (('--out', __file__), 'which is a file'),
    ],
)
def test_wrong_arguments_are_told_in_one_line(arguments, message, tmp_path, settings, refusal):
    assert message in refusal(sweep, '--out', tmp_path, *arguments)


def test_an_interruption_keeps_what_was_measured(tmp_path):
    class InterruptedTimer:
        calls = 0

        def time_layer(self, shape, runs):
            self.calls += 1
            if self.calls == 4:
                raise KeyboardInterrupt
            return [1.0] * runs

    sweep = Sweep('width', 'width', ConvolutionShape(2, 2, 1, 1, 4, 4), (4, 5))
    measured = MeasuredLayers(read_device_facts(), {shape: [] for shape in sweep.shapes})
    with pytest.raises(KeyboardInterrupt):
        measure_to_file(
            measured, InterruptedTimer(), Repetition(), tmp_path / 'sweep.json', limit_ms=1e6
        )
    kept = MeasuredLayers.load(tmp_path / 'sweep.json')
    assert sum(map(len, kept.samples_ms.values())) == 3
    assert asdict(kept.facts) == asdict(measured.facts)
