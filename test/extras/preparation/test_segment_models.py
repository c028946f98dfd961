"""What quantisation found, kept beside the weights: other devices compile it and quantise nothing."""

import lzma
import sys

import numpy as np
import openvino
import pytest
import torch

from deadline_perception.core.device import read_device_facts
from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.engines.openvino_library import openvino_core
from deadline_perception.engines.segment_store import Form, SegmentStore, store_origin
from deadline_perception.extras.preparation import segment_models
from deadline_perception.extras.preparation.segment_models import SegmentModels
from deadline_perception.extras.preparation.segments import prepare
from deadline_perception.extras.preparation.store_writer import StoreWriter
from deadline_perception.extras.weights_writer import write_tensors

ops = openvino.opset13


def product(factor: float, rows: int = 2):
    x = ops.parameter([rows, 3], np.float32)
    return openvino.Model([ops.multiply(x, np.full((1, 3), factor, np.float32))], [x])


def test_others_models_are_none_cut_ones_refused_and_a_key_takes_those_most_like_it(tmp_path):
    assert SegmentModels.load(tmp_path / 'none', 'abc').forms == {}
    models = SegmentModels('abc')
    models.add('post', Form.EXACT, product(3.0))
    models.save(tmp_path / 'x')
    assert SegmentModels.load(tmp_path / 'x', 'xyz').forms == {}
    (tmp_path / 'cut').write_bytes((tmp_path / 'x').read_bytes()[:-9])
    with pytest.raises(FileRefused):
        SegmentModels.load(tmp_path / 'cut', 'abc')
    models = SegmentModels('abc')
    for key, factor in (
        ('stage1@r1.00-w0.50', 1.0),
        ('stage1@r0.50-w1.00', 2.0),
        ('stage1@r0.67-w1.00', 3.0),
        ('stage1@r0.67-w0.25', 4.0),
        ('stage2@r0.25-w1.00', 5.0),
    ):
        models.add(key, Form.INT8, product(factor))
    models.add('stage1@r0.25-w0.25', Form.EXACT, product(6.0))
    found = [models.model(name) for _, name in models.of('stage1@r0.25-w1.00')]
    compiled = [openvino_core().compile_model(model, 'CPU') for model in found]
    values = [float(one([np.ones((2, 3), np.float32)])[0][0, 0]) for one in compiled]
    assert values == [2.0, 3.0, 1.0] and list(models.of('stage3@w1.00')) == []


def test_tensors_of_the_weights_are_kept_once(tmp_path):
    factors = np.random.default_rng(0).standard_normal((1, 3000)).astype(np.float16)
    models, weights = SegmentModels('abc'), tmp_path / 'x.safetensors'
    models.add('post', Form.EXACT, openvino.Model([ops.constant(factors.astype(np.float32))], []))
    models.save(tmp_path / 'alone')
    write_tensors(weights, {'w': torch.from_numpy(factors)}, {})
    models.save(tmp_path / 'x')
    assert (tmp_path / 'alone').stat().st_size > (tmp_path / 'x').stat().st_size + 5000
    loaded = SegmentModels.load(tmp_path / 'x', 'abc')
    (found,) = loaded.model(loaded.forms['post'][0][1]).get_results()
    assert np.array_equal(found.input_value(0).get_node().data, factors)
    write_tensors(weights, {'w': torch.from_numpy(-factors)}, {})
    with pytest.raises(FileRefused, match='has other content'):
        SegmentModels.load(tmp_path / 'x', 'abc')


def packed(content: bytes) -> torch.Tensor:
    made = lzma.compress(content, lzma.FORMAT_RAW, filters=segment_models._FILTERS)
    return torch.frombuffer(bytearray(made), dtype=torch.uint8)


@pytest.mark.parametrize(
    'values, said',
    [
        ({'forms': '{"post": [["8 bit", "gone"]]}'}, 'KeyError'),
        ({'forms': '{"post": [["9 bit", "x.x"]]}'}, '9 bit'),
        ({'forms': '{"post": 3}'}, 'post'),
        ({'forms': '[]'}, 'forms'),
        ({'forms': '{'}, 'no JSON'),
        ({'content': packed(bytes(2 << 20)), 'size': 2 << 20}, 'more than 1 MiB'),
        ({'content': packed(bytes(2 << 20)), 'size': 9}, 'not the 9 bytes'),
        ({'content': packed(bytes(9))[:-3], 'size': 9}, 'not the 9 bytes'),
        ({'content': torch.full((9,), 7, dtype=torch.uint8), 'size': 9}, 'damaged'),
        ({'content': packed(b'y'), 'size': 1}, 'has other content'),
        ({'content': torch.zeros(9)}, 'ValueError'),
        ({'size': -1}, 'sizes'),
        ({'copies': [[1, 0]]}, 'IndexError'),
        ({'copies': [[0]]}, 'ValueError'),
        ({'content': packed(bytes(64)), 'size': 64, 'copies': [[0, 1]]}, 'takes more from the'),
        ({'content': packed(bytes(64)), 'size': 64, 'copies': 2 * [[0, 0]]}, 'takes more from the'),
    ],
)
def test_damaged_models_are_refused(tmp_path, monkeypatch, values, said):
    def load(forms='{}', content=packed(b''), size=0, copies=()):
        parts = {'parts': content, 'copies': torch.tensor(copies, dtype=torch.uint32)}
        facts = {'format': '3', 'weights_hash': 'abc', 'forms': forms}
        of_nothing = segment_models._digest(b'')
        write_tensors(tmp_path / 'x', parts, facts | {'sizes': f'{{"{of_nothing}": {size}}}'})
        return SegmentModels.load(tmp_path / 'x', 'abc')

    monkeypatch.setattr(segment_models, '_MOST_BYTES', 1 << 20)
    write_tensors(tmp_path / 'x.safetensors', {'w': torch.ones(16)}, {})
    assert load().forms == {}
    with pytest.raises(FileRefused, match=said):
        load(**values)


def test_with_models_at_hand_nothing_is_converted_or_quantised(prepared, tmp_path, monkeypatch):
    network = prepared.network()
    origin = store_origin(read_device_facts('cpu'))
    first = SegmentStore.load(prepared.folder, origin)
    made = SegmentModels.load(prepared.weights.with_name('small.models'), network.weights_hash)
    assert first.segments.keys() <= made.forms.keys()
    monkeypatch.setitem(sys.modules, 'nncf', None)  # importing it fails
    monkeypatch.setattr(torch.export, 'export', None)
    second = StoreWriter.resume(tmp_path / 'second', origin)
    again = prepare(network, list(prepared.images), second, 1, models=made)
    assert again.forms == {}
    assert second.done == first.done
    assert second.segments.keys() == first.segments.keys()
    for key, segment in second.segments.items():
        has_layers = not key.startswith(('proposals', 'regions'))
        # Which form is faster may depend on the moment, whether one is compiled not.
        assert (segment.form in (Form.INT8, Form.FLOAT)) is has_layers
        assert segment.form is Form.EAGER or segment.error_db >= 17.0
