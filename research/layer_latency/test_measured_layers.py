"""Measured layers survive a restart, and are refused for another device."""

from dataclasses import replace

import pytest
from layers import ConvolutionShape
from measured_layers import MeasuredLayers, WrongSweepFile

from deadline_perception.core.device import DeviceFacts
from deadline_perception.core.json_file import JsonFileError

FACTS = DeviceFacts(name='Some CPU', kind='cpu', cores=2, threads=1)
LAYER = ConvolutionShape(in_channels=4, out_channels=6, kernel=3, stride=2, height=9, width=7)
OTHER = replace(LAYER, width=8)


@pytest.fixture
def file(tmp_path):
    MeasuredLayers(FACTS, {LAYER: [1.0, 3.0, 2.0], OTHER: []}).save(tmp_path / 'layers.json')
    return tmp_path / 'layers.json'


def test_comes_back_as_it_was(file):
    found = MeasuredLayers.resume(file, FACTS, [LAYER, OTHER])
    assert found == MeasuredLayers(FACTS, {LAYER: [1.0, 3.0, 2.0], OTHER: []})
    assert found.median_ms(LAYER) == 2.0


def test_begins_without_a_file(tmp_path):
    assert MeasuredLayers.resume(tmp_path / 'none.json', FACTS, [LAYER, LAYER]).samples_ms == {
        LAYER: []
    }


def test_unmeasured_layer_is_refused(file):
    for layer in (OTHER, replace(LAYER, height=3)):
        with pytest.raises(ValueError, match='was not measured'):
            MeasuredLayers.load(file).median_ms(layer)


def test_another_device_or_other_layers_are_refused(file):
    with pytest.raises(WrongSweepFile, match='with another threads; delete it or write elsewhere'):
        MeasuredLayers.resume(file, replace(FACTS, threads=2), [LAYER, OTHER])
    with pytest.raises(WrongSweepFile, match='other layers than asked for'):
        MeasuredLayers.resume(file, FACTS, [LAYER])


@pytest.mark.parametrize(
    ('old', 'new', 'error'),
    [
        ('"layers"', '"others"', WrongSweepFile),
        ('"cores": 2', '"cores": 0', WrongSweepFile),
        ('"kernel": 3', '"kernel": "x"', WrongSweepFile),
        ('[1.0, 3.0, 2.0]', '[1.0, -3.0]', WrongSweepFile),
        ('[1.0, 3.0, 2.0]', 'null', WrongSweepFile),
        (']}', '', JsonFileError),
    ],
)
def test_damaged_files_are_told(file, old, new, error):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(error, match=f'file of measured layers {file}'):
        MeasuredLayers.load(file)
