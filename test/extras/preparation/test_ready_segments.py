"""Segments whose models are at hand: prepared without PyTorch, and only as far as they are right here."""

import shutil

import numpy as np
import openvino
import pytest
from python_run import run_python

from deadline_perception.core.device import read_device_facts
from deadline_perception.engines.segment_store import Form, SegmentStore, store_origin
from deadline_perception.extras.preparation import segments
from deadline_perception.extras.preparation.ready_segments import unrounded
from deadline_perception.extras.preparation.segment_models import SegmentModels
from deadline_perception.extras.preparation.store_writer import StoreWriter

ops = openvino.opset13

WITHOUT_TORCH = """
import sys
from pathlib import Path
import numpy as np

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('torch', 'torchvision', 'nncf'):
            raise ModuleNotFoundError(f'no module named {name}', name=name)

sys.meta_path.insert(0, Absent())
from importlib import util
util.find_spec = lambda name, find=util.find_spec: None if name == 'torch' else find(name)
from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.networks.model_reference import load_network
use_threads(1)
"""


def run_without_torch(program, *words):
    told = run_python('-c', WITHOUT_TORCH + program, *words, timeout=200)
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.mark.slow
@pytest.mark.parametrize('name', ['street', 'street-first', 'street-open'])
def test_every_segment_of_shipped_weights_has_a_model_of_its_shapes(name, repository, tmp_path):
    program = """
from deadline_perception.engines.segment_store import store_origin
from deadline_perception.extras.preparation.segments import prepare
from deadline_perception.extras.preparation.segment_models import SegmentModels
from deadline_perception.extras.preparation.store_writer import StoreWriter
weights, folder = map(Path, sys.argv[1:])
network, _ = load_network(weights, 'cpu')
models = SegmentModels.load(weights.with_suffix('.quantised'), network.weights_hash)
store = StoreWriter.resume(folder, store_origin(read_device_facts('cpu')))
images = np.random.default_rng(0).integers(0, 256, (8, 120, 200, 3), np.uint8)
made = prepare(network, images, store, 1, models=models)
print(len(made.forms), len(store.done), len(network.path_space.carriers()))
"""
    weights = repository / 'models' / f'{name}.safetensors'
    made, done, every = run_without_torch(program, weights, tmp_path).split()
    assert made == '0' and done == every


@pytest.mark.slow
def test_a_device_without_pytorch_prepares_and_answers(prepared, tmp_path):
    weights = shutil.copy(prepared.weights, tmp_path)
    shutil.copy(prepared.weights.with_name('small.models'), tmp_path / 'small.quantised')
    made = SegmentStore.load(prepared.folder, store_origin(read_device_facts('cpu')))
    shutil.rmtree(prepared.folder)
    program = """
from deadline_perception.tools.support.segment_preparation import prepare_segments
weights, images, found = sys.argv[1:]
images = np.load(images)
network, _ = load_network(weights, 'cpu')
try:
    network.detect(images[0])
except Exception as error:
    print(type(error).__name__, error)
prepare_segments(Path(weights), network, list(images), read_device_facts('cpu'))
network, _ = load_network(weights, 'cpu', engine='openvino')
found_there = [network.detect(image) for image in images]
np.savez(found, *(each.scores for each in found_there))
"""
    np.save(tmp_path / 'images.npy', prepared.images)
    files = tmp_path / 'images.npy', tmp_path / 'found.npz'
    told = run_without_torch(program, weights, *files)
    words = 'TorchMissing layers are computed by PyTorch, which is not installed: pip install'
    assert told.startswith(words)
    store = SegmentStore.load(prepared.folder, store_origin(read_device_facts('cpu')))
    assert store.done == made.done and store.segments.keys() == made.segments.keys()
    for segment in store.segments.values():
        assert segment.form is Form.EAGER or segment.error_db >= 17.0
    assert all(len(scores) for scores in np.load(tmp_path / 'found.npz').values())


@pytest.mark.parametrize('has_torch', [True, False])
def test_a_model_that_8_bit_gets_wrong_here_is_made_anew_or_runs_in_floating_point(
    prepared, tmp_path, monkeypatch, has_torch
):
    """As on a processor whose products saturate: values between layers end at a hundredth of their range."""
    network, origin = prepared.network(), store_origin(read_device_facts('cpu'))
    models = SegmentModels.load(prepared.weights.with_name('small.models'), network.weights_hash)
    key = next(key for key in network.path_space.carriers() if key.startswith('skip'))
    cut = models.model(models.forms[key][0][1])
    for node in cut.get_ordered_ops():
        if node.get_type_name() == 'FakeQuantize':
            for place in range(1, 5):
                limit = node.input_value(place).get_node().data
                small = ops.constant(limit / np.float32(100.0))
                node.input(place).replace_source_output(small.output(0))
    del models.forms[key]
    models.add(key, Form.INT8, cut)
    if not has_torch:
        monkeypatch.setattr(segments.importlib.util, 'find_spec', lambda name: None)
    store = StoreWriter.resume(tmp_path / 'store', origin)
    made = segments.prepare(network, list(prepared.images), store, 1, keys=[key], models=models)
    assert list(made.forms) == ([key] if has_torch else [])
    if not has_torch:
        assert store.segments[key].form is Form.FLOAT
        assert 'dB of signal to error, expected 17' in store.segments[key].reason


def test_without_rounding_values_pass_as_they_are_and_weights_stay_rounded():
    x = ops.parameter([1, 2], np.float32)
    limits = [np.float32(0.0), np.float32(1.0)] * 2
    weights = ops.fake_quantize(ops.constant(np.float32([[0.3], [0.9]])), *limits, 2)
    product = ops.matmul(ops.fake_quantize(x, *limits, 2), weights, False, False)
    core, values = openvino.Core(), np.float32([[0.3, 5.0]])
    model = openvino.Model([product], [x])
    assert core.compile_model(model, 'CPU')([values])[0] == 1.0
    assert core.compile_model(unrounded(model), 'CPU')([values])[0] == 5.0
